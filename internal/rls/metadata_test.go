package rls

import (
	"math"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/testenv"
)

const metadataRules = `
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
`

func TestDynamicMetadata(t *testing.T) {
	opts := options(t, metadataRules)
	opts.DynamicMetadata = true
	conn := serve(t, opts.service())
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
		{"what a descriptor brings along", "x=\xff(9007199254740992,10/HOUR)",
			"{\"domain\": \"api\", \"descriptors\": [{\"entries\": [\"x=\uFFFD\"], \"limit\": \"requests_per_unit:10 unit:HOUR\", \"hitsAddend\": 9007199254740992}]}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wire := strings.ReplaceAll(string(marshal(t, request(t, strings.ReplaceAll(tc.request, "\xff", "?")))), "?", "\xff")
			response := testenv.Must(askRaw(t, conn, []byte(wire)))(t)
			var want structpb.Struct
			testenv.OK(t, protojson.Unmarshal([]byte(tc.want), &want))
			if got := response.GetDynamicMetadata(); !proto.Equal(got, &want) {
				t.Errorf("got %v, want %v", got, &want)
			}
		})
	}
}

// What the metadata says of an override is protobuf's text, but for the blanks,
// which protobuf varies on purpose.
func TestOverrideInMetadata(t *testing.T) {
	for _, o := range []plan.Override{
		{RequestsPerUnit: 10, Unit: limiter.Hour},
		{RequestsPerUnit: 0, Unit: limiter.Second},
		{RequestsPerUnit: math.MaxUint32, Unit: limiter.Year, UnitMultiplier: 2},
		{RequestsPerUnit: 1, Unit: limiter.Minute, UnitMultiplier: 1},
	} {
		m := &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: o.RequestsPerUnit, Unit: typev3.RateLimitUnit(typev3.RateLimitUnit_value[strings.ToUpper(o.Unit.String())])}
		if o.UnitMultiplier > 0 {
			m.UnitMultiplier = wrapperspb.UInt32(o.UnitMultiplier)
		}
		if want := strings.Join(strings.Fields(m.String()), " "); overrideText(o) != want {
			t.Errorf("got %s, want %s", overrideText(o), want)
		}
	}
}

func entryMessage(key, value string) message {
	return message{}.bytes(1, message{}.string(1, key).string(2, value))
}
