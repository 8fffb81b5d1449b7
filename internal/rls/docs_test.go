package rls

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// The request to /json in the rule reference asks for what is told there.
func TestDocumentedJSONRequest(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	must(t, err)
	blocks := regexp.MustCompile("(?ms)^```json\n(.*?)^```").FindAllSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/rules.md has %d blocks of JSON, want metadata and a request", len(blocks))
	}
	const rules = `
domain: shop
descriptors:
  - {key: user, descriptors: [{key: path, rate_limit: {unit: hour, requests_per_unit: 20}}]}
  - {key: tokens_of, rate_limit: {unit: hour, requests_per_unit: 20}}
`
	w := post(options(t, rules).service().JSONHandler(), http.MethodPost, string(blocks[1][1]))
	body := strings.ReplaceAll(w.Body.String(), " ", "")
	if w.Code != 200 || !regexp.MustCompile(`"limitRemaining":18,.*"limitRemaining":13,`).MatchString(body) {
		t.Errorf("answered %d %s, want 2 and 7 units to be taken of 20", w.Code, w.Body)
	}
}

// The dynamic metadata in the rule reference is what such a request gets.
func TestDocumentedMetadata(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	must(t, err)
	block := regexp.MustCompile("(?ms)^```json\n(.*?)^```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/rules.md has no metadata")
	}
	var want structpb.Struct
	must(t, protojson.Unmarshal(block[1], &want))
	opts := options(t, `
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 20}, metadata: {team: core}}
`)
	opts.DynamicMetadata = true
	tenPerHour := message{}.varint(1, 10).varint(2, 3)
	response, err := askRaw(t, serve(t, opts.service()), message{}.string(1, "shop").varint(3, 2).
		bytes(2, entryMessage("user", "alice")).
		bytes(2, entryMessage("tenant", "acme").bytes(2, tenPerHour).bytes(3, message{}.varint(1, 7))))
	must(t, err)
	if got := response.GetDynamicMetadata(); !proto.Equal(got, &want) {
		t.Errorf("got %v, the document shows %v", got, &want)
	}
}
