// Package wire translates requests into the arguments of the Lua script and the script's reply
// into states of counters. It makes no calls and reads no clock.
//
// Read batch.go first, then reply.go. The script is in folder lua, where each file describes its
// part of the arguments and of the reply.
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

// Script is the text of the script that decides the requests of a batch. digest is the name of the
// script in Redis.
var (
	Script = scriptText()
	digest = fmt.Sprintf("%x", sha1.Sum([]byte(Script)))
)

// scriptText joins the files of the script. Each algorithm has a file. At the top of a file, Sets
// and Reads list the local variables that it shares with other files.
func scriptText() string {
	var b strings.Builder
	for _, name := range slices.Concat([]string{"time", "straight", "state", "holds"}, limiter.AlgorithmNames(), []string{"limits", "together", "decide"}) {
		text, err := lua.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the file is embedded above
		}
		b.Write(text)
	}
	return b.String()
}
