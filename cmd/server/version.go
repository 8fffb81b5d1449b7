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
	fmt.Fprintln(p.stdout, "weir", version())
	return nil
}

// version returns the version of the program, the commit it was built from, the time of
// that commit, and the Go version, as far as the build recorded them.
func version() string {
	b, at := build()
	text := b.Version
	if b.Commit != "" {
		text += ", revision " + b.Commit
	}
	if at != "" {
		text += ", " + at
	}
	return text + ", " + b.Go
}

// build returns what the build recorded, and the time of its commit. Without release the
// version is that of the module.
func build() (b server.Build, at string) {
	b, at = server.Build{Version: release, Commit: commit, Go: runtime.Version()}, date
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b, at
	}
	b.Version = cmp.Or(release, info.Main.Version, "unknown")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			at = s.Value
		}
	}
	return b, at
}
