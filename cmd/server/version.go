package main

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"

	"weir/internal/app"
)

// release is the version that the build was told, with -ldflags "-X main.release=...".
var release string

// version returns the version of the program, the revision it was built from and
// the Go version, as far as the build recorded them.
func version() string {
	b := build()
	words := []string{b.Version}
	if revision, modified := strings.CutSuffix(b.Commit, modifiedSuffix); revision != "" {
		words = append(words, "revision "+revision)
		if modified {
			words = append(words, "modified")
		}
	}
	return strings.Join(append(words, b.Go), ", ")
}

// modifiedSuffix follows the commit of a build from files that differ from it.
const modifiedSuffix = "-modified"

// build returns what the build recorded of itself. Without release the version is
// that of the module.
func build() app.Build {
	b := app.Build{Version: cmp.Or(release, "unknown"), Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(release, info.Main.Version)
	modified := false
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.modified":
			modified = setting.Value == "true"
		}
	}
	if b.Commit != "" && modified {
		b.Commit += modifiedSuffix
	}
	return b
}
