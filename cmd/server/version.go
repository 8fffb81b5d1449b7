package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"weir/internal/server"
)

// What the build was given with -ldflags "-X main.release=...": the version, and where the
// build sees no history, as in the image, the commit and its time.
var release, commit, date string

// versionCommand is the command version.
type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(p *program) error { //nolint:unparam // as every command
	fmt.Fprintln(p.stdout, "weir", version())
	return nil
}

// version returns the version of the program, the commit it was built from, the time of
// that commit, and the Go version, as far as the build recorded them.
func version() string {
	b, settings := build()
	words := []string{b.Version}
	if b.Commit != "" {
		words = append(words, "revision "+b.Commit)
	}
	if at := cmp.Or(settings["vcs.time"], date); at != "" {
		words = append(words, at)
	}
	if settings["vcs.modified"] == "true" {
		words = append(words, "modified")
	}
	return strings.Join(append(words, b.Go), ", ")
}

// build returns what the build recorded, and the settings of its tools. Without release
// the version is that of the module.
func build() (b server.Build, settings map[string]string) {
	settings = make(map[string]string)
	module := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	return server.Build{
		Version: cmp.Or(release, module),
		Commit:  cmp.Or(settings["vcs.revision"], commit),
		Go:      runtime.Version(),
	}, settings
}
