package strictyaml

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
)

// maxSearched is how large a file may be, in bytes, that is parsed again and again
// to find a line. It takes a second.
const maxSearched = 1 << 20

// syntaxProblem reports an error of the YAML parser, without the text of the file, which may
// be a secret. The line that the error names is often the one in which a list or mapping
// begins, so the first line without which the error would not be there is reported.
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
	case message == "did not find expected alphabetic or numeric character": // after * or &
		hint = needsQuotes
	case bytes.ContainsRune(indent, '\t'):
		hint = "; the line begins with a tab, indent with spaces"
	}
	d.Problem(Position{Line: line}, "invalid YAML: %s%s", message, hint)
}

const needsQuotes = "; a value that begins with * or & must be in quotes"
