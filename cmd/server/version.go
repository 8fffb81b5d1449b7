package main

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// What the build was given with -ldflags "-X main.release=...": the version, and where the
// build sees no history, as in the image, the commit and its time.
var release, commit, date string

// version returns the version of the program, the commit it was built from, the time of
// that commit, and the Go version, as far as the build recorded them. Without release the
// version is that of the module.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(release, "unknown")
	}
	settings := make(map[string]string)
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	words := []string{cmp.Or(release, build.Main.Version)}
	if revision := cmp.Or(settings["vcs.revision"], commit); revision != "" {
		words = append(words, "revision "+revision)
	}
	if at := cmp.Or(settings["vcs.time"], date); at != "" {
		words = append(words, at)
	}
	if settings["vcs.modified"] == "true" {
		words = append(words, "modified")
	}
	return strings.Join(append(words, build.GoVersion), ", ")
}
