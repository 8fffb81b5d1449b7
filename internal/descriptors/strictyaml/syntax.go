package strictyaml

import (
	"bytes"
	"fmt"
	"regexp"
	"sort"
	"strings"

	"weir/internal/descriptors/plaintext"
)

// maxSearched is the maximum size, in bytes, of a file that is parsed repeatedly to find the
// line of an error. For that size, the search takes a second.
const maxSearched = 1 << 20

// ofRules matches files of rules, but not other files, which may contain secrets.
var ofRules = regexp.MustCompile(`(?m)^domain:`)

// syntaxProblem reports an error of the YAML parser. The message quotes no text of the file,
// which may be a secret, and only a file of rules gets an excerpt. The parser often names only the
// line where a list or mapping begins. So syntaxProblem reports the last line of the shortest
// beginning of the file that has the same error.
func (d *Decoder) syntaxProblem(err error, data []byte) {
	line, message, hint := 1, strings.TrimPrefix(err.Error(), "yaml: "), ""
	if n, _ := fmt.Sscanf(message, "line %d:", &line); n == 1 {
		_, message, _ = strings.Cut(message, ": ")
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(data) <= maxSearched {
		line = 1 + sort.Search(len(lines)-1, func(i int) bool {
			_, earlier := documents(bytes.Join(lines[:i+1], nil))
			return earlier != nil && earlier.Error() == err.Error()
		})
	}
	text := lines[min(line, len(lines))-1]
	switch indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]; {
	case strings.HasPrefix(message, "unknown anchor "):
		message, hint = "unknown anchor", needsQuotes
	case message == "did not find expected alphabetic or numeric character":
		hint = needsQuotes
	case bytes.ContainsRune(indent, '\t'):
		hint = "; the line begins with a tab, indent with spaces"
	}
	d.Problem(Position{Line: line}, "invalid YAML: %s%s", message, hint)
	if ofRules.Match(data) {
		d.Problems[len(d.Problems)-1].Excerpt = excerpt(lines, line)
	}
}

// excerpt returns a line, the two lines before it and the line after it.
func excerpt(lines [][]byte, line int) string {
	var text strings.Builder
	for i := max(line-3, 0); i < min(line+1, len(lines)); i++ {
		mark := map[bool]string{true: ">"}[i+1 == line]
		shown := plaintext.Cut(strings.TrimRight(string(lines[i]), "\r\n"), 100)
		fmt.Fprintf(&text, "%2s%4d | %s\n", mark, i+1, plaintext.Line(shown))
	}
	return text.String()
}

const needsQuotes = "; a value that begins with * or & must be in quotes"
