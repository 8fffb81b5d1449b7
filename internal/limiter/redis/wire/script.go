// Package wire translates requests into the arguments of the Lua script and the script's reply
// into states of counters. It is pure: callers pass the time and send the command.
//
// Read batch.go first, then reply.go. The script is in lua, where each file describes its part of
// the arguments and of the reply.
package wire

import (
	"crypto/sha1"
	"embed"
	"fmt"
	"slices"
	"strings"

	"weir/internal/limiter"
)

//go:embed lua/*.lua
var lua embed.FS

// Script is the text of the script that decides the requests of a batch. Redis identifies it by
// the digest.
var (
	Script = scriptText()
	digest = fmt.Sprintf("%x", sha1.Sum([]byte(Script)))
)

// scriptText returns the files of the script as one text. There is a file for each algorithm.
func scriptText() string {
	var b strings.Builder
	for _, name := range slices.Concat([]string{"time", "straight", "state"}, limiter.AlgorithmNames(), []string{"holds", "limits", "together", "decide"}) {
		text, err := lua.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is embedded above
		}
		b.Write(text)
	}
	return b.String()
}
