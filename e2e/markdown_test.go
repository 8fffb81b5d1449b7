package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// codeBlock is a fenced or indented block of a Markdown file. Indented ones have no
// language.
type codeBlock struct{ language, text string }

// codeBlocks returns the blocks of code in a Markdown file.
func codeBlocks(t *testing.T, file string) []codeBlock {
	t.Helper()
	var blocks []codeBlock
	var text []string
	language, fenced, indent := "", false, ""
	end := func() {
		if fenced || indent != "" {
			blocks = append(blocks, codeBlock{language, strings.Join(text, "\n")})
		}
		text, language, fenced, indent = nil, "", false, ""
	}
	afterEmpty := false
	for line := range strings.SplitSeq(readDocument(t, file), "\n") {
		name, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && fenced:
			end()
		case isFence:
			end()
			language, fenced = name, true
		case fenced:
			text = append(text, line)
		case strings.TrimSpace(line) == "" || !strings.HasPrefix(line, "    ") && indent != "":
			end()
		case indent == "" && afterEmpty && strings.HasPrefix(line, "    "):
			indent = line[:len(line)-len(strings.TrimLeft(line, " "))]
			text = append(text, strings.TrimPrefix(line, indent))
		case indent != "":
			text = append(text, strings.TrimPrefix(line, indent))
		}
		afterEmpty = strings.TrimSpace(line) == ""
	}
	end()
	return blocks
}

func readDocument(t *testing.T, file string) string {
	t.Helper()
	data := testenv.Must(os.ReadFile(file))(t)
	return string(data)
}

// documentedBlock returns the block of a document that begins with start.
func documentedBlock(t *testing.T, document, start string) string {
	t.Helper()
	for _, b := range codeBlocks(t, filepath.Join(testenv.Repository(t), document)) {
		if strings.HasPrefix(b.text, start) {
			return b.text
		}
	}
	t.Fatalf("%s has no block that begins with %s", document, start)
	return ""
}
