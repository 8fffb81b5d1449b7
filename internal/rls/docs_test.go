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

	"weir/internal/testenv"
)

// documentedJSON are the metadata and the request that docs/rules.md shows.
func documentedJSON(t *testing.T) (metadata, request string) {
	t.Helper()
	text := testenv.Must(os.ReadFile("../../docs/rules.md"))(t)
	blocks := regexp.MustCompile("(?ms)^```json\n(.*?)^```").FindAllSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/rules.md has %d blocks of JSON, want metadata and a request", len(blocks))
	}
	return string(blocks[0][1]), string(blocks[1][1])
}

// The request to /json in the rule reference asks for what is told there.
func TestDocumentedJSONRequest(t *testing.T) {
	_, request := documentedJSON(t)
	w := post(options(t, `
domain: shop
descriptors:
  - {key: user, descriptors: [{key: path, rate_limit: {unit: hour, requests_per_unit: 20}}]}
  - {key: tokens_of, rate_limit: {unit: hour, requests_per_unit: 20}}
`).service().JSONHandler(), http.MethodPost, request)
	body := strings.ReplaceAll(w.Body.String(), " ", "")
	if w.Code != 200 || !regexp.MustCompile(`"limitRemaining":18,.*"limitRemaining":13,`).MatchString(body) {
		t.Errorf("answered %d %s, want 2 and 7 units to be taken of 20", w.Code, w.Body)
	}
}

// The dynamic metadata in the rule reference is what such a request gets.
func TestDocumentedMetadata(t *testing.T) {
	metadata, _ := documentedJSON(t)
	var want structpb.Struct
	testenv.OK(t, protojson.Unmarshal([]byte(metadata), &want))
	opts := options(t, `
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 20}, metadata: {team: core}}
`)
	opts.DynamicMetadata = true
	response := testenv.Must(ask(t, serve(t, opts.service()), "domain:shop user=alice tenant=acme(7,10/HOUR) +2"))(t)
	if got := response.GetDynamicMetadata(); !proto.Equal(got, &want) {
		t.Errorf("got %v, the document shows %v", got, &want)
	}
}
