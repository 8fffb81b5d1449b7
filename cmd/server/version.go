package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"weir/internal/server"
)

// What the build was given with -ldflags "-X main.release=...": the version, and where the
// build sees no history, as in the image, the commit and its time.
var release, commit, date string

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(p *program) error { //nolint:unparam // as every command
	fmt.Fprintln(p.stdout, "weir", build())
	return nil
}

// build returns what the build recorded. Without release the version is that of the module.
func build() server.Build {
	b := server.Build{Version: release, Commit: commit, Time: date, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(release, info.Main.Version, "unknown")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}
