// Package strictyaml reads YAML configuration. It reports all problems, not just the first, each
// with file, line, column, path and allowed values.
//
// It reads a file as YAML nodes, which have a line and column. Decoder walks the nodes field by
// field, and continues after a problem. The package knows only YAML, not the meaning of fields
// in rules and tests.
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
	// MaxFileSize is the maximum size of a file, in bytes.
	MaxFileSize = 16 << 20
	// maxDepth limits the nesting of lists and mappings, so that a file cannot exhaust the
	// stack. Each level of descriptors is a list and a mapping.
	maxDepth = 100
	// maxAliased limits the number of nodes visited through aliases, so that a few lines cannot
	// expand to gigabytes.
	maxAliased = 1_000_000
)

// Decoder walks the YAML nodes of one file. It reports unexpected nodes and continues.
type Decoder struct {
	Reporter
	// Elsewhere returns the kind of mapping to which a misplaced field belongs, such as "a
	// rate_limit", or "". It may be nil.
	Elsewhere func(field string) string
	// Gone has a message for each removed field. It may be nil.
	Gone map[string]string
	// Synonyms maps words of other programs to allowed words. It may be nil.
	Synonyms map[string]string

	open    []*yaml.Node // nodes on the path to the current node
	inAlias int          // number of aliases on the path to the current node
	aliased int          // number of nodes visited through an alias
}

// Parse returns the root node of a file's only document, or nil after reporting a problem.
// needed names the required content, for the problem reported if the file is empty.
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

// ParseAll returns the root nodes of all non-empty documents of a file, or nil after reporting a
// problem.
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

// documents returns the documents in a text up to the first error, and that error.
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

// refuse returns the problem of a file that must not be parsed, such as a control character, and the
// position of the problem. Both are empty if the file may be parsed.
func refuse(data []byte) (at Position, what string) {
	if len(data) > MaxFileSize {
		return Position{}, fmt.Sprintf("the file is too large, at most %d MiB are allowed", MaxFileSize>>20)
	}
	for i, r := range string(data) {
		invalid := r == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte("\uFFFD"))
		if invalid || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) {
			return Position{Line: 1 + bytes.Count(data[:i], []byte("\n"))}, fmt.Sprintf("the byte 0x%02x is not text; use UTF-8 without control characters", data[i])
		}
	}
	return Position{}, ""
}
