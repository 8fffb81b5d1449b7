// Command draw makes the pictures of the documents out of real runs of the rules and
// algorithms, and the tables of docs/algorithms.md, which stand there between comments.
// `make docs` runs it, and a test fails if what is there is not what it makes.
//
// It writes SVG by itself: bars, lines and boxes do not earn a library, and so the bytes
// depend on nothing but this repository.
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

// must is for what fails only if the repository is not as it should be: a stack says where.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// draw returns by name what shall be in the documents' directory.
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

// withWalks returns the document with its tables made again.
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
