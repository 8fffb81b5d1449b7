package descriptors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/internal/testenv"
)

// message reads a RateLimitConfig in JSON.
func message(t *testing.T, text string) *ratelimit.RateLimitConfig {
	t.Helper()
	m := new(ratelimit.RateLimitConfig)
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return m
}

// packed are messages as a control plane sends them.
func packed(t *testing.T, messages ...*ratelimit.RateLimitConfig) []*anypb.Any {
	t.Helper()
	list := make([]*anypb.Any, len(messages))
	for i, m := range messages {
		list[i] = testenv.Must(anypb.New(m))(t)
	}
	return list
}

func TestBadResources(t *testing.T) {
	api := func(descriptors string) string {
		return `{"name": "x", "domain": "api", "descriptors": [` + descriptors + `]}`
	}
	const units = "one of second, minute, hour, day, week, month, year"
	tests := []struct {
		name     string
		messages []string
		want     string
	}{
		{"no unit", []string{api(`{"key": "a", "rate_limit": {"requests_per_unit": 3}}`)},
			`resource "x": descriptors[0].rate_limit.unit: a unit is required; use ` + units},
		{"unit of a newer control plane", []string{api(`{"key": "a", "rate_limit": {"requests_per_unit": 3, "unit": 8}}`)},
			`resource "x": descriptors[0].rate_limit.unit: unknown unit "8"; use ` + units},
		{"unlimited with unit", []string{api(`{"key": "a", "rate_limit": {"unlimited": true, "unit": "DAY"}}`)},
			`resource "x": descriptors[0].rate_limit.unit: an unlimited limit has no unit: remove one of unit and unlimited`},
		{"no key", []string{api(`{"value": "a"}`)},
			`resource "x": descriptors[0].value: value needs a key; without a key, a rule may have only rate_limit, shadow_mode, quota_mode, share_threshold, metadata`},
		{"no domain", []string{`{"name": "x"}`},
			`resource "x": domain: domain must not be empty`},
		{"no name to replace", []string{api(`{"key": "a", "rate_limit": {"unit": "DAY", "replaces": [{}]}}`)},
			`resource "x": descriptors[0].rate_limit.replaces[0].name: a name is required; use the name of another limit`},
		{"twins", []string{api(`{"key": "a"}, {"key": "b", "value": "c"}, {"key": "b", "value": "c"}`)},
			`resource "x": descriptors[2]: b=c is already at resource "x": descriptors[1]: a key and value may be in one rule only`},
		{"the same problem in several places", []string{api(`{}, {}`), `{"name": "y", "domain": "other", "descriptors": [{}]}`},
			`resource "x": descriptors[0].key: add a key, or a rate_limit for everything that no other rule on this level matches
resource "x": descriptors[1].key: add a key, or a rate_limit for everything that no other rule on this level matches
resource "y": descriptors[0].key: add a key, or a rate_limit for everything that no other rule on this level matches`},
		{"one domain in two resources", []string{`{"name": "y", "domain": "api"}`, api("")},
			`resource "y": domain: "api" is already the domain of resource "x"; use another, or set MERGE_DOMAIN_CONFIG=true`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var messages []*ratelimit.RateLimitConfig
			for _, text := range tt.messages {
				messages = append(messages, message(t, text))
			}
			tree, err := LoadResources(packed(t, messages...), Options{})
			if tree != nil || err == nil || err.Error() != tt.want {
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

func TestBytesThatAreNoRules(t *testing.T) {
	good := packed(t, message(t, `{"domain": "api"}`))[0]
	tests := []struct {
		name     string
		resource *anypb.Any
		want     string
	}{
		{"another type", &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.Duration"},
			`resources[1]: the type "type.googleapis.com/google.protobuf.Duration" is not allowed; use ` + ResourceType},
		{"cut off", &anypb.Any{TypeUrl: ResourceType, Value: []byte{0x0a, 5, 'a'}},
			"resources[1]: the resource is not a valid RateLimitConfig: cannot parse invalid wire-format data"},
		{"not UTF-8", &anypb.Any{TypeUrl: ResourceType, Value: []byte("\x12\x01\xff")},
			"resources[1]: the resource is not a valid RateLimitConfig: string field contains invalid UTF-8"},
		{"nothing", nil, `resources[1]: the type "" is not allowed; use ` + ResourceType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := LoadResources([]*anypb.Any{good, tt.resource}, Options{})
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// TestDepthOfResources takes a message as deep as protobuf allows.
func TestDepthOfResources(t *testing.T) {
	d := &ratelimit.RateLimitDescriptor{Key: "k"}
	for range 5000 {
		d = &ratelimit.RateLimitDescriptor{Key: "k", Descriptors: []*ratelimit.RateLimitDescriptor{d}}
	}
	m := &ratelimit.RateLimitConfig{Name: "x", Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{d}}
	if _, err := LoadResources(packed(t, m), Options{}); err == nil || !strings.Contains(err.Error(), "nested too deep, at most 100 levels are allowed") {
		t.Errorf("got %.200v", err)
	}
}

func TestNoResourceIsNoRule(t *testing.T) {
	tree, err := LoadResources(nil, Options{})
	if err != nil || tree.Rules() != 0 || tree.Domains() != 0 {
		t.Errorf("got %v, error: %v", tree, err)
	}
}

// TestMergedResources holds the order of wildcards to the names of the resources,
// because a control plane sends them in any order.
func TestMergedResources(t *testing.T) {
	a := message(t, `{"name": "a", "domain": "api", "descriptors": [{"key": "path", "value": "/x*", "rate_limit": {"unit": "DAY", "requests_per_unit": 1}}]}`)
	b := message(t, `{"name": "b", "domain": "api", "descriptors": [{"key": "path", "value": "/*", "rate_limit": {"unit": "DAY", "requests_per_unit": 2}}]}`)
	for _, messages := range [][]*ratelimit.RateLimitConfig{{a, b}, {b, a}} {
		tree, err := LoadResources(packed(t, messages...), Options{MergeDomains: true})
		testenv.OK(t, err)
		if rule := tree.Match("api", entries("path=/xy")); rule == nil || rule.Limits[0].RequestsPerUnit != 1 {
			t.Errorf("got %v, want that of resource a", rule)
		}
	}
}

func TestUnknownFieldsOfMessages(t *testing.T) {
	m := message(t, `{"name": "x", "domain": "api", "descriptors": [{"key": "a", "rate_limit": {"unit": "DAY", "name": "n"}}, {"key": "b", "rate_limit": {"unit": "DAY", "replaces": [{"name": "n"}]}}]}`)
	unknown := func(m proto.Message, numbers ...protowire.Number) {
		var raw []byte
		for _, n := range numbers {
			raw = protowire.AppendString(protowire.AppendTag(raw, n, protowire.BytesType), "new")
		}
		m.ProtoReflect().SetUnknown(raw)
	}
	unknown(m, 20, 21)
	unknown(m.Descriptors[1], 22, 22)
	unknown(m.Descriptors[1].RateLimit, 23)
	unknown(m.Descriptors[1].RateLimit.Replaces[0], 24)
	tree, err := LoadResources(packed(t, m), Options{})
	if err != nil || tree.Rules() != 2 {
		t.Fatalf("got %v, error: %v", tree, err)
	}
	want := `resource "x": field 20 of RateLimitConfig is unknown and ignored
resource "x": field 21 of RateLimitConfig is unknown and ignored
resource "x": descriptors[1]: field 22 of RateLimitDescriptor is unknown and ignored
resource "x": descriptors[1].rate_limit: field 23 of RateLimitPolicy is unknown and ignored
resource "x": descriptors[1].rate_limit.replaces[0]: field 24 of RateLimitReplace is unknown and ignored`
	if got := tree.Warnings().Error(); got != want {
		t.Errorf("got\n%v\nwant\n%s", got, want)
	}
}

// TestUnknownFieldsAreBounded keeps a deep message of such fields from filling the
// memory with the ways to them.
func TestUnknownFieldsAreBounded(t *testing.T) {
	list := make([]*ratelimit.RateLimitDescriptor, 1000)
	for i := range list {
		list[i] = &ratelimit.RateLimitDescriptor{Key: fmt.Sprint(i)}
		list[i].ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 20, protowire.VarintType), 1))
	}
	tree, err := LoadResources(packed(t, &ratelimit.RateLimitConfig{Domain: "api", Descriptors: list}), Options{})
	if err != nil || len(tree.Warnings()) != mostUnknown {
		t.Errorf("got %d, want %d (error: %v)", len(tree.Warnings()), mostUnknown, err)
	}
}

// FuzzLoadResources feeds any bytes as a resource: the outcome is a tree or
// problems, the same as of a file that says the same.
func FuzzLoadResources(f *testing.F) {
	for _, text := range []string{
		`{"name": "x", "domain": "api", "descriptors": [{"key": "a", "value": "b*", "rate_limit": {"unit": "DAY", "requests_per_unit": 7}, "quota_mode": true}]}`,
		`{"domain": "api", "descriptors": [{"key": "a", "metadata": {"s": ["x", 1, null, true]}, "descriptors": [{"key": "b", "rate_limit": {"unlimited": true}}, {"key": "b"}]}]}`,
		`{"domain": "api", "descriptors": [{"key": "a", "descriptors": [{"rate_limit": {"unit": "DAY", "requests_per_unit": 5}, "quota_mode": true}]}]}`, // without key
		`{"domain": "", "descriptors": [{"rate_limit": {"name": "n", "replaces": [{"name": "n"}, {}]}}]}`,
		// All units; no amount denies all.
		`{"name": "x", "domain": "api", "descriptors": [
			{"key": "a", "rate_limit": {"unit": "SECOND", "requests_per_unit": 1}}, {"key": "b", "rate_limit": {"unit": "MINUTE", "requests_per_unit": 2}},
			{"key": "c", "rate_limit": {"unit": "HOUR"}}, {"key": "d", "rate_limit": {"unit": "DAY", "requests_per_unit": 4}},
			{"key": "e", "rate_limit": {"unit": "WEEK", "requests_per_unit": 5}}, {"key": "f", "rate_limit": {"unit": "MONTH", "requests_per_unit": 6}},
			{"key": "g", "rate_limit": {"unit": "YEAR", "requests_per_unit": 4294967295}}, {"key": "h", "rate_limit": {"unlimited": true, "requests_per_unit": 5}}]}`,
		// Texts that look like something else.
		`{"domain": "12", "descriptors": [{"key": "true", "value": "null"}, {"key": "<<", "value": "~"}, {"key": "c", "value": "*"}, {"key": "d", "value": ""}]}`,
		`{"domain": "api", "descriptors": [
			{"key": "a", "shadow_mode": true, "rate_limit": {"unit": "DAY", "requests_per_unit": 1}},
			{"key": "b", "quota_mode": true, "detailed_metric": true, "rate_limit": {"unit": "DAY", "requests_per_unit": 1, "name": "n", "replaces": [{"name": "m"}, {"name": "o"}]}}]}`,
		`{"domain": "api", "descriptors": [{"key": "a", "metadata": {"s": "x", "n": -1.5, "big": 1e300, "i": 123456789012, "b": true, "z": null, "l": [1, "2", [], {}], "m": {"<<": {"x": 1}}, "e": {}}}, {"key": "b", "metadata": {}}]}`,
		// As Envoy Gateway writes it.
		`{"name": "default/eg/http", "domain": "default/eg/http", "descriptors": [{
			"key": "httproute/default/app/rule/0/match/0/*", "value": "httproute/default/app/rule/0/match/0/*", "descriptors": [
				{"key": "rule-0-match-0", "value": "rule-0-match-0", "descriptors": [
					{"key": "masked_remote_address", "value": "10.0.0.0/8", "descriptors": [{"key": "remote_address", "rate_limit": {"requests_per_unit": 3, "unit": "HOUR"}}]}]},
				{"key": "rule-1-match--1", "value": "rule-1-match--1", "rate_limit": {"requests_per_unit": 100, "unit": "MINUTE"}}]}]}`,
	} {
		m := new(ratelimit.RateLimitConfig)
		testenv.OK(f, protojson.Unmarshal([]byte(text), m))
		data := testenv.Must(proto.Marshal(m))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := LoadResources([]*anypb.Any{{TypeUrl: ResourceType, Value: data}}, Options{})
		if (tree == nil) == (err == nil) {
			t.Fatalf("got the tree %v and the error %v", tree, err)
		}
		m := new(ratelimit.RateLimitConfig)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		file, errOfFile := Load([]File{{"rules.yaml", []byte(asYAML(m))}}, Options{})
		if got, want := whatIsWrong(err), whatIsWrong(errOfFile); !slices.Equal(got, want) {
			t.Fatalf("got\n%q\nof a file\n%q\n%s", got, want, asYAML(m))
		}
		if err == nil && dump(t, tree) != dump(t, file) {
			t.Fatalf("got\n%s\nof a file\n%s\n%s", dump(t, tree), dump(t, file), asYAML(m))
		}
	})
}

// whatIsWrong are paths and messages of problems, without where they are in a file.
func whatIsWrong(err error) (list []string) {
	var problems Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			what, _, _ := strings.Cut(p.Message, " is already at ")
			list = append(list, p.Path+": "+what)
		}
	}
	slices.Sort(list)
	return list
}

// asYAML writes what a message says as a person would.
func asYAML(m *ratelimit.RateLimitConfig) string {
	return fmt.Sprintf("{name: %+q, domain: %+q, descriptors: %s}", m.GetName(), m.GetDomain(), descriptorsAsYAML(m.GetDescriptors()))
}

func descriptorsAsYAML(list []*ratelimit.RateLimitDescriptor) string {
	var items []string
	for _, d := range list {
		fields := []string{fmt.Sprintf("shadow_mode: %t, quota_mode: %t", d.GetShadowMode(), d.GetQuotaMode())}
		hasKey := d.GetKey() != "" // what is not set is left out, or has no meaning
		if hasKey {
			fields = append(fields, fmt.Sprintf("key: %+q", d.GetKey()))
		}
		if hasKey || d.GetValue() != "" {
			fields = append(fields, fmt.Sprintf("value: %+q", d.GetValue()))
		}
		if hasKey || d.GetDetailedMetric() {
			fields = append(fields, fmt.Sprintf("detailed_metric: %t", d.GetDetailedMetric()))
		}
		if hasKey || len(d.GetDescriptors()) > 0 {
			fields = append(fields, "descriptors: "+descriptorsAsYAML(d.GetDescriptors()))
		}
		if l := d.GetRateLimit(); l != nil {
			limit := fmt.Sprintf("name: %+q, unlimited: %t, requests_per_unit: %d", l.GetName(), l.GetUnlimited(), l.GetRequestsPerUnit())
			if l.GetUnit() != 0 {
				limit += fmt.Sprintf(", unit: %q", l.GetUnit())
			}
			var replaces []string
			for _, r := range l.GetReplaces() {
				replaces = append(replaces, fmt.Sprintf("{name: %+q}", r.GetName()))
			}
			fields = append(fields, fmt.Sprintf("rate_limit: {%s, replaces: [%s]}", limit, strings.Join(replaces, ", ")))
		}
		if d.GetMetadata() != nil {
			fields = append(fields, "metadata: "+structAsYAML(d.GetMetadata()))
		}
		items = append(items, "{"+strings.Join(fields, ", ")+"}")
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func structAsYAML(s *structpb.Struct) string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		fields = append(fields, fmt.Sprintf("? %+q : %s", name, valueAsYAML(s.GetFields()[name])))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func valueAsYAML(v *structpb.Value) string {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		return structAsYAML(kind.StructValue)
	case *structpb.Value_ListValue:
		var items []string
		for _, item := range kind.ListValue.GetValues() {
			items = append(items, valueAsYAML(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case *structpb.Value_StringValue:
		return fmt.Sprintf("%+q", kind.StringValue)
	case *structpb.Value_NumberValue:
		if text, ok := v.AsInterface().(string); ok { // of what JSON has no number for
			return fmt.Sprintf("%+q", text)
		}
		return fmt.Sprintf("!!float %q", fmt.Sprint(kind.NumberValue))
	case *structpb.Value_BoolValue:
		return fmt.Sprint(kind.BoolValue)
	default:
		return "null"
	}
}
