// Command draw makes the pictures in the documents from real runs of the rules and
// algorithms. It also makes the tables in docs/algorithms.md, whose positions are marked
// by comments. `make docs` runs it. A test fails if the documents are not up to date.
//
// It writes SVG without a library: the pictures are simple, and their bytes then depend
// on this repository only.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	docs := flag.String("docs", "docs", "directory of the documents")
	flag.Parse()
	for name, data := range draw(*docs) {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			panic(err)
		}
	}
}

// must panics on an error. Errors here mean that the repository is broken, and the stack shows where.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// draw returns the contents of the generated files in the directory of documents, by name.
func draw(docs string) map[string][]byte {
	files := map[string][]byte{}
	for name, picture := range map[string]func(root string) []byte{
		"algorithms/admitted.svg":    admittedPicture,
		"algorithms/last-minute.svg": lastMinutePicture,
		"pictures/request.svg":       requestPicture,
		"pictures/rules.svg":         rulesPicture,
		"pictures/tokens.svg":        tokensPicture,
		"pictures/in-flight.svg":     inFlightPicture,
		"pictures/ban.svg":           banPicture,
		"pictures/redis-fails.svg":   redisFailsPicture,
		"pictures/drain.svg":         drainPicture,
	} {
		files[filepath.Join(docs, name)] = picture(filepath.Join(docs, ".."))
	}
	name := filepath.Join(docs, "algorithms.md")
	files[name] = must(withWalks(must(os.ReadFile(name))))
	return files
}

// withWalks returns the document with new tables.
func withWalks(text []byte) ([]byte, error) {
	for title, table := range walks() {
		begin, end := fmt.Appendf(nil, "<!-- walk: %s -->\n", title), []byte("<!-- end -->\n")
		before, rest, found := bytes.Cut(text, begin)
		_, after, closed := bytes.Cut(rest, end)
		if !found || !closed {
			return nil, fmt.Errorf("algorithms.md has no place for the table of %s: %s...%s", title, begin, end)
		}
		text = bytes.Join([][]byte{before, begin, table, end, after}, nil)
	}
	return text, nil
}
