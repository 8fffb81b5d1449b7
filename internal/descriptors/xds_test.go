package descriptors

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"weir/internal/testenv"
)

// messages reads the files of testdata/resources, which are lists of RateLimitConfigs in JSON.
func messages(t testing.TB) map[string][]*anypb.Any {
	t.Helper()
	all := map[string][]*anypb.Any{}
	for _, f := range readBelow(t, "testdata/resources", "testdata/resources") {
		var list []json.RawMessage
		testenv.OK(t, json.Unmarshal(f.Data, &list))
		all[f.Name] = nil
		for _, text := range list {
			m := new(ratelimit.RateLimitConfig)
			testenv.OK(t, protojson.Unmarshal(text, m))
			all[f.Name] = append(all[f.Name], testenv.Must(anypb.New(m))(t))
		}
	}
	return all
}

// TestResources compares the rules or problems of each file's messages with
// testdata/resources.txt, which -update writes.
func TestResources(t *testing.T) {
	var got strings.Builder
	all := messages(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tree, err := LoadResources(all[name], Options{MergeDomains: name == "merged.json"})
		if (tree == nil) == (err == nil) {
			t.Fatalf("%s: got the tree %v and the error %v", name, tree, err)
		}
		fmt.Fprintf(&got, "%s\n", name)
		if err != nil {
			fmt.Fprintln(&got, err)
		} else {
			got.WriteString(dump(t, tree))
		}
	}
	testenv.Golden(t, "testdata/resources.txt", got.String())
}

func TestBytesThatAreNoRules(t *testing.T) {
	deepest := &ratelimit.RateLimitDescriptor{Key: "k"}
	for range 5000 { // protobuf allows this depth
		deepest = &ratelimit.RateLimitDescriptor{Key: "k", Descriptors: []*ratelimit.RateLimitDescriptor{deepest}}
	}
	deep := testenv.Must(anypb.New(&ratelimit.RateLimitConfig{Name: "x", Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{deepest}}))(t)
	const broken = "resources[1]: the resource is not a valid RateLimitConfig: "
	for want, resource := range map[string]*anypb.Any{
		`resources[1]: the type "type.googleapis.com/google.protobuf.Duration" is not allowed; use ` + ResourceType:                    {TypeUrl: "type.googleapis.com/google.protobuf.Duration"},
		`resources[1]: the type "" is not allowed; use ` + ResourceType:                                                                nil,
		broken + "cannot parse invalid wire-format data":                                                                               {TypeUrl: ResourceType, Value: []byte{0x0a, 5, 'a'}},
		broken + "string field contains invalid UTF-8":                                                                                 {TypeUrl: ResourceType, Value: []byte("\x12\x01\xff")},
		"resource \"x\": descriptors[0]" + strings.Repeat(".descriptors[0]", 49) + ": nested too deep, at most 100 levels are allowed": deep,
	} {
		_, err := LoadResources([]*anypb.Any{messages(t)["wildcard.json"][0], resource}, Options{MergeDomains: true})
		testenv.Equal(t, fmt.Sprint(err), want, "error")
	}
}

func TestUnknownFieldsOfMessages(t *testing.T) {
	m := new(ratelimit.RateLimitConfig)
	testenv.OK(t, protojson.Unmarshal([]byte(`{"name": "x", "domain": "api", "descriptors": [{"key": "b", "rate_limit": {"unit": "DAY", "replaces": [{"name": "n"}]}}]}`), m))
	unknown := func(m proto.Message, numbers ...protowire.Number) {
		var raw []byte
		for _, n := range numbers {
			raw = protowire.AppendString(protowire.AppendTag(raw, n, protowire.BytesType), "new")
		}
		m.ProtoReflect().SetUnknown(raw)
	}
	unknown(m, 20, 21)
	unknown(m.Descriptors[0], 22, 22)
	unknown(m.Descriptors[0].RateLimit, 23)
	unknown(m.Descriptors[0].RateLimit.Replaces[0], 24)
	const want = `resource "x": field 20 of RateLimitConfig is unknown and ignored
resource "x": field 21 of RateLimitConfig is unknown and ignored
resource "x": descriptors[0]: field 22 of RateLimitDescriptor is unknown and ignored
resource "x": descriptors[0].rate_limit: field 23 of RateLimitPolicy is unknown and ignored
resource "x": descriptors[0].rate_limit.replaces[0]: field 24 of RateLimitReplace is unknown and ignored
`
	tree, err := LoadResources([]*anypb.Any{testenv.Must(anypb.New(m))(t)}, Options{})
	testenv.OK(t, err)
	if got := tree.Warnings().Error(); !strings.HasPrefix(got, want) || tree.Rules() != 1 {
		t.Errorf("got\n%v\nwant\n%s", got, want)
	}
	// The paths of unknown fields in a large message must not exhaust memory.
	for i := range 1000 {
		d := &ratelimit.RateLimitDescriptor{Key: fmt.Sprint(i)}
		unknown(d, 20)
		m.Descriptors = append(m.Descriptors, d)
	}
	tree = testenv.Must(LoadResources([]*anypb.Any{testenv.Must(anypb.New(m))(t)}, Options{}))(t)
	testenv.Equal(t, strings.Count(tree.Warnings().Error(), "is unknown and ignored"), mostUnknown, "warnings of unknown fields")
}

// FuzzLoadResources loads arbitrary bytes as a resource. The tree or the problems must be the
// same as for an equivalent file.
func FuzzLoadResources(f *testing.F) {
	for _, resources := range messages(f) {
		for _, resource := range resources {
			f.Add(resource.Value)
		}
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
		text, ok := asFile(m)
		if !ok {
			return
		}
		file, errOfFile := Load([]File{{"rules.json", text}}, Options{})
		if errOfFile != nil && strings.Contains(errOfFile.Error(), "invalid YAML") { // YAML limits keys to 1,024 bytes
			return
		}
		if got, want := whatIsWrong(err), whatIsWrong(errOfFile); !slices.Equal(got, want) {
			t.Fatalf("got\n%q\nof a file\n%q\n%s", got, want, text)
		}
		if err == nil && dump(t, tree) != dump(t, file) {
			t.Fatalf("got\n%s\nof a file\n%s\n%s", dump(t, tree), dump(t, file), text)
		}
	})
}

// whatIsWrong returns the paths and messages of problems, without lines and columns.
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

var limits = regexp.MustCompile(`"rate_limit":\s*\{`)

// asFile returns a message as a JSON file of rules, which is also YAML. ok is false if there is
// no equivalent file. An unset amount becomes 0.
func asFile(m *ratelimit.RateLimitConfig) (text []byte, ok bool) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil { // metadata has a number that JSON does not have
		return nil, false
	}
	var escaped []byte
	for _, r := range limits.ReplaceAllString(string(text), "$0<<: {requests_per_unit: 0}, ") {
		if r < 0x7f {
			escaped = append(escaped, byte(r))
		} else {
			escaped = fmt.Appendf(escaped, "\\U%08x", r)
		}
	}
	return escaped, true
}
