package strictyaml

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// syntaxProblem reports an error of the YAML parser.
func (d *Decoder) syntaxProblem(err error, data []byte) {
	line, hint := syntaxLine(err, data), ""
	message := syntaxMessage(err, data)
	if (message == badCharacter || message == badTab) && beginsWithTab(data, line) {
		hint = "; the line begins with a tab, indent with spaces"
	}
	d.Problem(Position{Line: line}, "invalid YAML: %s%s", message, hint)
}

// beginsWithTab reports whether there is a tab before the text of a line.
func beginsWithTab(data []byte, line int) bool {
	for i, text := range bytes.Split(data, []byte("\n")) {
		if i+1 == line {
			indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
			return bytes.ContainsRune(indent, '\t')
		}
	}
	return false
}

// syntaxMessage is what an error of the YAML parser says, without its line, and without the
// text of a file that is nothing else.
func syntaxMessage(err error, data []byte) string {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.HasPrefix(message, "line ") {
		_, message, _ = strings.Cut(message, ": ")
	}
	if strings.HasPrefix(message, unknownAnchor) && bytes.HasPrefix(bytes.TrimSpace(data), []byte("*")) {
		return "unknown anchor" + needsQuotes
	}
	if message == badName || strings.HasPrefix(message, unknownAnchor) {
		message += needsQuotes
	}
	return message
}

const (
	badName       = "did not find expected alphabetic or numeric character" // behind * or &
	unknownAnchor = "unknown anchor '"
	needsQuotes   = "; a value that begins with * or & must be in quotes"
	badCharacter  = "found character that cannot start any token"
	badTab        = "found a tab character that violates indentation"
)

// maxSearched is how large a file may be, in bytes, that is parsed again and again
// to find a line. It takes a second.
const maxSearched = 1 << 20

// Some errors of the parser count lines from 0. Some of these name the line in
// which a list or mapping begins, and not the one in which it goes wrong.
var (
	countFromZero = []string{
		"did not find expected <document start>", "did not find expected node content",
		"did not find expected ',' or ']'", "did not find expected ',' or '}'",
		"found undefined tag handle", "found duplicate %YAML directive", "found incompatible YAML document",
	}
	nameTheBeginning = []string{"did not find expected key", "did not find expected '-' indicator", badTab}
)

// syntaxLine is the line that an error of the YAML parser is about, which names
// it in its text unless it is the first.
func syntaxLine(err error, data []byte) int {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	n, _ := fmt.Sscanf(message, "line %d:", &line)
	named := n == 1
	if named {
		_, message, _ = strings.Cut(message, ": ")
	}
	switch {
	case strings.HasPrefix(message, unknownAnchor):
		name, _, _ := strings.Cut(message[len(unknownAnchor):], "'")
		return lineOf(data, max(bytes.Index(data, []byte("*"+name)), 0))
	case slices.Contains(nameTheBeginning, message) && len(data) <= maxSearched:
		return firstLineOf(err, data)
	case named && (slices.Contains(countFromZero, message) || slices.Contains(nameTheBeginning, message)):
		return line + 1
	}
	return line
}

// firstLineOf finds the line without which the error would not be there.
func firstLineOf(err error, data []byte) int {
	lines := bytes.SplitAfter(data, []byte("\n"))
	ends := make([]int, len(lines))
	end := 0
	for i, line := range lines {
		end += len(line)
		ends[i] = end
	}
	return 1 + sort.Search(len(ends)-1, func(i int) bool {
		_, earlier := documents(data[:ends[i]])
		return earlier != nil && earlier.Error() == err.Error()
	})
}
