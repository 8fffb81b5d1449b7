package rls

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/internal/testenv"
)

func TestDynamicMetadata(t *testing.T) {
	opts := options(t, `
domain: api
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 1}
    metadata: {team: blue, price: {currency: EUR, amount: 5}, tags: [x, true]}
  - key: b
    rate_limit: {unit: minute, requests_per_unit: 100}
    metadata: {team: red, price: {currency: USD, unit: token}, extra: null}
  - key: c
    rate_limit: {unlimited: true}
    metadata: {team: green}
  - key: d
    rate_limit: {unit: minute, requests_per_unit: 100}
`)
	opts.DynamicMetadata = true
	s := opts.service()
	for _, tc := range []struct {
		name    string
		request string
		want    string
	}{
		{"without metadata", "d=1 +5",
			`{"domain": "api", "hitsAddend": 5, "descriptors": [{"entries": ["d=1"]}]}`},
		{"the first of several stays, maps are merged", "a=1 b=1",
			`{"domain": "api", "descriptors": [{"entries": ["a=1"]}, {"entries": ["b=1"]}],
			  "metadata": {"team": "blue", "price": {"currency": "EUR", "amount": 5, "unit": "token"}, "tags": ["x", true], "extra": null}}`},
		{"only of the admitted", "a=1 b=1",
			`{"domain": "api", "descriptors": [{"entries": ["a=1"]}, {"entries": ["b=1"]}],
			  "metadata": {"team": "red", "price": {"currency": "USD", "unit": "token"}, "extra": null}}`},
		{"not of the unlimited", "c=1",
			`{"domain": "api", "descriptors": [{"entries": ["c=1"]}]}`},
		{"what a descriptor brings along", "x=y(9007199254740992,10/HOUR)",
			`{"domain": "api", "descriptors": [{"entries": ["x=y"], "limit": "requests_per_unit:10 unit:HOUR", "hitsAddend": 9007199254740992}]}`},
		{"bytes that are not UTF-8", "x=\xff", "{\"domain\": \"api\", \"descriptors\": [{\"entries\": [\"x=\uFFFD\"]}]}"},
		{"overrides as protobuf's text", "x=y(0/SECOND) x=y(4294967295/YEAR*2) x=y(1/MINUTE*1)",
			`{"domain": "api", "descriptors": [{"entries": ["x=y"], "limit": "unit:SECOND"},
			  {"entries": ["x=y"], "limit": "requests_per_unit:4294967295 unit:YEAR unit_multiplier:{value:2}"},
			  {"entries": ["x=y"], "limit": "requests_per_unit:1 unit:MINUTE unit_multiplier:{value:1}"}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantStruct(t, response(t, decide(t, s, tc.request).response).GetDynamicMetadata(), tc.want)
		})
	}
}

// wantStruct compares a Struct with the Struct in JSON.
func wantStruct(t *testing.T, got *structpb.Struct, want string) {
	t.Helper()
	var wanted structpb.Struct
	testenv.OK(t, protojson.Unmarshal([]byte(want), &wanted))
	if !proto.Equal(got, &wanted) {
		t.Errorf("got %v, want %v", got, &wanted)
	}
}
