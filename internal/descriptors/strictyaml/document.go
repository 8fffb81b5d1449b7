// Package strictyaml reads configuration that people write in YAML, and reports
// everything that is wrong with it at once: each problem with file, line, column,
// the way to the field, what is wrong and what is allowed.
//
// A file is read as YAML nodes, which know their place. Decoder walks over them,
// field by field, and goes on after a problem. It knows YAML and nothing of
// what the files say: that is the business of the packages that decode rules
// and tests of rules.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	// MaxFileSize bounds what is parsed, in bytes.
	MaxFileSize = 16 << 20
	// maxDepth bounds how deep lists and mappings may lie in each other, so that a file
	// cannot exhaust the stack. A level of a
	// tree of descriptors takes two.
	maxDepth = 100
	// maxAliased bounds how many nodes the aliases of a file may stand for, so
	// that a few lines cannot grow into gigabytes.
	maxAliased = 1_000_000
)

// Decoder walks the YAML nodes of one file. What it expects and does not find,
// it reports, and goes on with what is there.
type Decoder struct {
	Reporter
	// Elsewhere returns where a field belongs that is not allowed where it is, such
	// as "a rate_limit"; "" if nowhere. It may be nil.
	Elsewhere func(field string) string
	// Synonyms says which allowed field or word is meant by one that other programs
	// have for it. It may be nil.
	Synonyms map[string]string

	open    []*yaml.Node // that the way to the current node leads through
	inAlias int          // how many aliases lead to the current node
	aliased int          // nodes visited below an alias
}

// Parse returns the root node of a file's only document, or nil. needed names
// what a file consists of, for the problem of an empty one.
func (d *Decoder) Parse(data []byte, needed string) *yaml.Node {
	if at, what := refuse(data); what != "" {
		d.Problem(at, "%s", what)
		return nil
	}
	var first, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&first); {
	case errors.Is(err, io.EOF) || err == nil && IsNull(first.Content[0]):
		d.Problem(Position{}, "the file is empty, %s are needed", needed)
		return nil
	case err != nil:
		d.syntaxProblem(err, data)
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		d.Problem(At(&second), "a second document, one per file is allowed")
	case !errors.Is(err, io.EOF):
		d.syntaxProblem(err, data)
	}
	return first.Content[0]
}

// ParseAll returns the root nodes of all documents of a file that are not empty. It
// returns none after a problem.
func (d *Decoder) ParseAll(data []byte) (roots []*yaml.Node) {
	if at, what := refuse(data); what != "" {
		d.Problem(at, "%s", what)
		return nil
	}
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node
		switch err := dec.Decode(&document); {
		case errors.Is(err, io.EOF):
			return roots
		case err != nil:
			d.syntaxProblem(err, data)
			return nil
		case !IsNull(document.Content[0]):
			roots = append(roots, document.Content[0])
		}
	}
}

// refuse says what keeps a file from being parsed at all.
func refuse(data []byte) (at Position, what string) {
	if at, what := refuseBulk(data); what != "" {
		return at, what
	}
	if i := notText(data); i >= 0 {
		return Position{Line: lineOf(data, i)}, fmt.Sprintf("the byte 0x%02x is not text, allowed is UTF-8 without control characters", data[i])
	}
	return Position{}, ""
}

// refuseBulk is refuse without the look at every byte, which takes tens of
// milliseconds.
func refuseBulk(data []byte) (at Position, what string) {
	if len(data) > MaxFileSize {
		return Position{}, fmt.Sprintf("the file is too large, at most %d MiB are allowed", MaxFileSize>>20)
	}
	// The parser compares each of these with all before it: many would take hours.
	tag := []byte("%TAG")
	if i := bytes.Index(data, append([]byte("\n"), tag...)); i >= 0 || bytes.HasPrefix(data, tag) {
		return Position{Line: lineOf(data, i+1)}, "%TAG is not allowed, leave it out"
	}
	return Position{}, ""
}

// notText returns the index of the first byte that is not UTF-8 or begins a
// control character, or -1.
func notText(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) {
			return i
		}
		i += size
	}
	return -1
}

// lineOf is the line of the byte at index i, from 1.
func lineOf(data []byte, i int) int { return bytes.Count(data[:i], []byte("\n")) + 1 }
