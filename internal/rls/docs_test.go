package rls

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The request to /json in the rule reference asks for what is told there.
func TestDocumentedJSONRequest(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```json\n(.*?)^```").FindAllSubmatch(text, -1)
	if len(blocks) != 1 {
		t.Fatalf("docs/rules.md has %d requests, want 1", len(blocks))
	}
	const rules = `
domain: shop
descriptors:
  - {key: user, descriptors: [{key: path, rate_limit: {unit: hour, requests_per_unit: 20}}]}
  - {key: tokens_of, rate_limit: {unit: hour, requests_per_unit: 20}}
`
	w := post(New(options(t, rules)).JSONHandler(), http.MethodPost, string(blocks[0][1]))
	body := strings.ReplaceAll(w.Body.String(), " ", "")
	if w.Code != 200 || !regexp.MustCompile(`"limitRemaining":18,.*"limitRemaining":13,`).MatchString(body) {
		t.Errorf("answered %d %s, want 2 and 7 units to be taken of 20", w.Code, w.Body)
	}
}
