package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
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
	b, at, modified := build()
	words := []string{b.Version}
	if b.Commit != "" {
		words = append(words, "revision "+b.Commit)
	}
	words = append(words, at, modified, b.Go)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

// build returns what the build recorded, the time of its commit, and "modified" if its files
// were. Without release the version is that of the module.
func build() (b server.Build, at, modified string) {
	b, at = server.Build{Version: cmp.Or(release, "unknown"), Commit: commit, Go: runtime.Version()}, date
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b, at, ""
	}
	b.Version = cmp.Or(release, info.Main.Version)
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.time":
			at = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "modified"
		}
	}
	return b, at, modified
}
