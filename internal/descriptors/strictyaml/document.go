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
	// Gone has the message for each field that is no longer allowed: it says what to write instead. It may be nil.
	Gone map[string]string
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
	found := d.found
	roots := d.ParseAll(data)
	switch {
	case d.found > found:
		return nil
	case len(roots) == 0:
		d.Problem(Position{}, "the file is empty, %s are required", needed)
		return nil
	case len(roots) > 1:
		d.Problem(At(roots[1]), "a file may contain only one YAML document")
	}
	return roots[0]
}

// ParseAll returns the root nodes of all documents of a file that are not empty. It
// returns none after a problem.
func (d *Decoder) ParseAll(data []byte) (roots []*yaml.Node) {
	if at, what := refuse(data); what != "" {
		d.Problem(at, "%s", what)
		return nil
	}
	parsed, err := documents(data)
	if err != nil {
		d.syntaxProblem(err, data)
		return nil
	}
	for _, document := range parsed {
		if root := document.Content[0]; !IsNull(root) {
			roots = append(roots, root)
		}
	}
	return roots
}

// documents returns the documents of a text, up to the first that is no YAML.
func documents(text []byte) (parsed []*yaml.Node, err error) {
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		document := new(yaml.Node)
		switch err := dec.Decode(document); {
		case errors.Is(err, io.EOF):
			return parsed, nil
		case err != nil:
			return parsed, err
		}
		parsed = append(parsed, document)
	}
}

// refuse says what keeps a file from being parsed at all.
func refuse(data []byte) (at Position, what string) {
	if len(data) > MaxFileSize {
		return Position{}, fmt.Sprintf("the file is too large, at most %d MiB are allowed", MaxFileSize>>20)
	}
	for i, r := range string(data) {
		invalid := r == utf8.RuneError && data[i] != "\uFFFD"[0]
		if invalid || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) {
			return Position{Line: 1 + bytes.Count(data[:i], []byte("\n"))}, fmt.Sprintf("the byte 0x%02x is not text; use UTF-8 without control characters", data[i])
		}
	}
	return Position{}, ""
}
