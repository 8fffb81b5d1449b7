package main

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// release is the version that the build was told, with -ldflags "-X main.release=...".
var release string

// version returns the version of the program, the revision it was built from and
// the Go version, as far as the build recorded them. Without release the version
// is that of the module.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(release, "unknown")
	}
	words := []string{cmp.Or(release, build.Main.Version)}
	for _, setting := range build.Settings {
		switch {
		case setting.Key == "vcs.revision":
			words = append(words, "revision "+setting.Value)
		case setting.Key == "vcs.modified" && setting.Value == "true":
			words = append(words, "modified")
		}
	}
	return strings.Join(append(words, build.GoVersion), ", ")
}
