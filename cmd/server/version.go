package main

import (
	"runtime/debug"
	"strings"
)

// version tells the module's version, the revision it was built from and the
// Go version, as far as the build recorded them.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	words := []string{build.Main.Version}
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
