package e2e

import (
	"os"
	"strings"
	"testing"
)

// codeBlock is a fenced block of a Markdown file.
type codeBlock struct{ language, text string }

// codeBlocks returns the fenced blocks of a Markdown file.
func codeBlocks(t *testing.T, file string) []codeBlock {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []codeBlock
	for i, part := range strings.Split("\n"+string(data), "\n```") {
		if i%2 == 1 {
			language, text, _ := strings.Cut(part, "\n")
			blocks = append(blocks, codeBlock{language, text})
		}
	}
	return blocks
}
