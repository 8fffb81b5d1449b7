package rls

import (
	"fmt"
	"strings"
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
  - key: soft
    rate_limit:
      - {name: hard, unit: hour, requests_per_unit: 10}
      - {name: trial, unit: minute, requests_per_unit: 1, shadow_mode: true}
      - {name: budget, unit: day, requests_per_unit: 1, shadow_mode: true}
  - key: twice
    rate_limit: [{name: minute, unit: minute, requests_per_unit: 0}, {name: daily, unit: day, requests_per_unit: 1}]
  - key: quota
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: backend
    descriptors:
      - {key: user, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: model, quota_mode: true, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
  - key: bytes
    value: !!binary /w==
    rate_limit: {unit: minute, requests_per_unit: 1}
`)
	opts.DynamicMetadata, opts.GroupKeys = true, []string{"backend", "model"}
	s := opts.service()
	for _, tc := range []struct {
		name    string
		request string
		want    string
	}{
		{"without metadata", "d=1 +5",
			`{"domain": "api", "hitsAddend": 5, "descriptors": [{"entries": ["d=1"], "code": "OK", "rule": "d", "remaining": 95}]}`},
		{"the first of several stays, maps are merged", "a=1 b=1",
			`{"domain": "api", "descriptors": [{"entries": ["a=1"], "code": "OK", "rule": "a", "remaining": 0}, {"entries": ["b=1"], "code": "OK", "rule": "b", "remaining": 99}],
			  "metadata": {"team": "blue", "price": {"currency": "EUR", "amount": 5, "unit": "token"}, "tags": ["x", true], "extra": null}}`},
		{"only of the admitted", "a=1 b=1",
			`{"domain": "api", "descriptors": [{"entries": ["a=1"], "code": "OVER_LIMIT", "rule": "a", "remaining": 0}, {"entries": ["b=1"], "code": "OK", "rule": "b", "remaining": 99}],
			  "metadata": {"team": "red", "price": {"currency": "USD", "unit": "token"}, "extra": null}, "deniedBy": {"rule": "a", "limit": "minute"}}`},
		{"not of the unlimited", "c=1",
			`{"domain": "api", "descriptors": [{"entries": ["c=1"], "code": "OK", "rule": "c"}]}`},
		{"what a descriptor brings along", "x=y(9007199254740992,10/HOUR)",
			`{"domain": "api", "descriptors": [{"entries": ["x=y"], "limit": "requests_per_unit:10 unit:HOUR", "hitsAddend": 9007199254740992,
			  "code": "OVER_LIMIT", "rule": "override", "remaining": 0}], "deniedBy": {"rule": "override", "limit": "override"}}`},
		{"bytes that are not UTF-8", "x=\xff", "{\"domain\": \"api\", \"descriptors\": [{\"entries\": [\"x=\uFFFD\"], \"code\": \"OK\"}]}"},
		{"bytes in a rule", "bytes=\xff",
			`{"domain": "api", "descriptors": [{"entries": ["bytes=\ufffd"], "code": "OK", "rule": "bytes=\"\\xff\"", "remaining": 0}]}`},
		{"overrides as protobuf's text", "x=y(0/SECOND) x=y(4294967295/YEAR*2) x=y(1/MINUTE*1)",
			`{"domain": "api", "descriptors": [{"entries": ["x=y"], "limit": "unit:SECOND", "code": "OVER_LIMIT", "rule": "override", "remaining": 0},
			  {"entries": ["x=y"], "limit": "requests_per_unit:4294967295 unit:YEAR unit_multiplier:{value:2}", "code": "OK", "rule": "override", "remaining": 4294967295},
			  {"entries": ["x=y"], "limit": "requests_per_unit:1 unit:MINUTE unit_multiplier:{value:1}", "code": "OK", "rule": "override", "remaining": 1}],
			  "deniedBy": {"rule": "override", "limit": "override"}}`},
		{"within limits in shadow mode", "soft=1",
			`{"domain": "api", "descriptors": [{"entries": ["soft=1"], "code": "OK", "rule": "soft", "limitName": "hard", "remaining": 9}]}`},
		{"admitted, but over two limits in shadow mode", "soft=1 d=2",
			`{"domain": "api", "descriptors": [{"entries": ["soft=1"], "code": "OK", "rule": "soft", "limitName": "hard", "remaining": 8, "shadow": true},
			  {"entries": ["d=2"], "code": "OK", "rule": "d", "remaining": 99}], "wouldDenyBy": {"rule": "soft", "limit": "budget"}}`},
		{"the longest wait of several", "twice=1 a=1",
			`{"domain": "api", "descriptors": [{"entries": ["twice=1"], "code": "OVER_LIMIT", "rule": "twice", "limitName": "minute", "remaining": 0},
			  {"entries": ["a=1"], "code": "OVER_LIMIT", "rule": "a", "remaining": 0}], "deniedBy": {"rule": "twice", "limit": "minute"}}`},
		{"a quota that is used up", "quota=1 quota=2 +2",
			`{"domain": "api", "hitsAddend": 2, "descriptors": [{"entries": ["quota=1"], "code": "OVER_LIMIT", "rule": "quota", "remaining": 0},
			  {"entries": ["quota=2"], "code": "OVER_LIMIT", "rule": "quota", "remaining": 0}], "deniedBy": {"rule": "quota", "limit": "minute"}}`},
		{"groups of quotas", "backend=a;user=u(2) backend=b;user=v backend=c;model=\xff",
			`{"domain": "api", "descriptors": [{"entries": ["backend=a", "user=u"], "code": "OVER_LIMIT", "hitsAddend": 2, "rule": "backend|user", "remaining": 0},
			  {"entries": ["backend=b", "user=v"], "code": "OK", "rule": "backend|user", "remaining": 0},
			  {"entries": ["backend=c", "model=\ufffd"], "code": "OK", "rule": "backend|model", "remaining": 0, "shadow": true}],
			  "quota": {"available": [{"backend": "b", "model": ""}, {"backend": "c", "model": "\ufffd"}]}, "wouldDenyBy": {"rule": "backend|model", "limit": "minute"}}`},
		{"no group of quotas has room", "backend=a;user=u",
			`{"domain": "api", "descriptors": [{"entries": ["backend=a", "user=u"], "code": "OVER_LIMIT", "rule": "backend|user", "remaining": 0}],
			  "quota": {"available": []}, "deniedBy": {"rule": "backend|user", "limit": "minute"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantStruct(t, response(t, decide(t, s, tc.request).response).GetDynamicMetadata(), tc.want)
		})
	}
}

// With SHADOW_MODE, the codes are the same, but no limit denies.
func TestMetadataInShadowMode(t *testing.T) {
	opts := options(t, "{domain: api, descriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 0}}]}")
	opts.DynamicMetadata, opts.ShadowMode = true, true
	wantStruct(t, response(t, decide(t, opts.service(), "a=1").response).GetDynamicMetadata(),
		`{"domain": "api", "descriptors": [{"entries": ["a=1"], "code": "OVER_LIMIT", "rule": "a", "remaining": 0, "shadow": true}], "wouldDenyBy": {"rule": "a", "limit": "minute"}}`)
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

// A reservation gets a token even without DynamicMetadata. The token settles it once.
func TestTokenOfReservation(t *testing.T) {
	o := options(t, "{domain: api, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 100, settle: reservation}}, {key: path, rate_limit: {unit: day, requests_per_unit: 9}}]}")
	s, token := o.service(), ""
	for _, step := range []struct {
		request string
		left    uint32
		tokens  int
		unknown int
	}{
		{"path=a", 8, 0, 0},
		{"user=a +40", 60, 1, 0},
		{"user=b;reservation=TOKEN(30)", 100, 0, 1},
		{"user=a;reservation=TOKEN(30)", 70, 0, 1},
		{"user=a;reservation=TOKEN(0)", 70, 0, 2},
		{"user=a;reservation=forged(0)", 70, 0, 3},
		{"user=a(80)", 0, 0, 3},
		{"user=a +1", 0, 0, 3},
	} {
		got := response(t, decide(t, s, strings.ReplaceAll(step.request, "TOKEN", token)).response)
		fields := got.GetDynamicMetadata().GetFields()
		if left := got.GetStatuses()[0].GetLimitRemaining(); left != step.left || len(fields) != step.tokens {
			t.Errorf("%s: %d left, metadata %v, want %d and %d tokens", step.request, left, fields, step.left, step.tokens)
		}
		if step.tokens > 0 {
			token = fields["reservation"].GetStringValue()
		}
		wantSeries(t, o.registry, fmt.Sprint("weir_unknown_reservations_total ", step.unknown))
	}
}
