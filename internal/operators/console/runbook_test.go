package console

import (
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestRunbook compares the page of docs/at-3am.md with the document, section by section.
func TestRunbook(t *testing.T) {
	const page = "pages/at-3am.html"
	document := testenv.Read(t, filepath.Join(testenv.Repository(t), "docs/at-3am.md"))
	var want strings.Builder
	want.WriteString(`{{define "title"}}At 3 am{{end}}` + "\n" + `{{define "forms"}}{{end}}` + "\n" + `{{define "panels"}}` + "\n")
	for i, section := range strings.Split(document, "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		if i == 0 {
			title = "Find the symptom"
		}
		id := strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 ]`).ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		want.WriteString(`<section aria-labelledby="` + id + `">` + "\n" + `<h2 id="` + id + `">` + title + "</h2>\n" + toHTML(text) + "</section>\n")
	}
	want.WriteString("{{end}}\n")
	testenv.Golden(t, page, want.String())
}

// toHTML converts the Markdown that docs/at-3am.md has: paragraphs, tables, blocks and spans of code,
// emphasis and links. Only links to its own sections and to the console remain links.
func toHTML(markdown string) string {
	spans := func(text string) string {
		text = regexp.MustCompile("`([^`]+)`").ReplaceAllString(html.EscapeString(text), "<code>$1</code>")
		text = regexp.MustCompile(`\[([^]]+)\]\((#[^)]+)\)`).ReplaceAllString(text, `<a href="$2">$1</a>`)
		text = regexp.MustCompile(`\[([^]]+)\]\(console.md\)`).ReplaceAllString(text, `<a href="/console/">$1</a>`)
		text = regexp.MustCompile(`\[([^]]+)\]\(([^)]+)\)`).ReplaceAllString(text, "$1 (docs/$2)")
		return regexp.MustCompile(`\*([^*]+)\*`).ReplaceAllString(text, "<em>$1</em>")
	}
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(markdown), "\n\n") {
		switch {
		case block == "":
		case strings.HasPrefix(block, "```"):
			_, code, _ := strings.Cut(block, "\n")
			out.WriteString("<pre>" + html.EscapeString(strings.TrimSuffix(code, "\n```")) + "</pre>\n")
		case strings.HasPrefix(block, "    "):
			out.WriteString("<pre>" + html.EscapeString(strings.TrimSpace(block)) + "</pre>\n")
		case strings.HasPrefix(block, "|"):
			out.WriteString("<table>\n")
			for i, row := range strings.Split(block, "\n") {
				cells := strings.Split(strings.Trim(row, "|"), "|")
				switch i {
				case 0:
					out.WriteString(`<thead><tr><th scope="col">` + strings.Join(cells, `</th><th scope="col">`) + "</th></tr></thead>\n<tbody>")
				case 1:
				default:
					for i := range cells {
						cells[i] = "<td>" + spans(cells[i]) + "</td>"
					}
					out.WriteString("<tr>" + strings.Join(cells, "") + "</tr>\n")
				}
			}
			out.WriteString("</tbody></table>\n")
		default:
			out.WriteString("<p>" + spans(block) + "</p>\n")
		}
	}
	return out.String()
}
