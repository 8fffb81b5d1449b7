package descriptors

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

var update = flag.Bool("update", false, "write docs/rules.schema.json and the expectations in testdata anew")

const schemaFile = "../../docs/rules.schema.json"

func TestSchemaFileIsCurrent(t *testing.T) {
	if *update {
		testenv.OK(t, os.WriteFile(schemaFile, Schema, 0o644))
	}
	text := testenv.Must(os.ReadFile(schemaFile))(t)
	if !bytes.Equal(text, Schema) {
		t.Errorf("%s is not that of internal/descriptors; run: go test ./internal/descriptors -update", schemaFile)
	}
}

// compiled is the schema, itself checked by that of its draft.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text := testenv.Must(jsonschema.UnmarshalJSON(bytes.NewReader(Schema)))(t)
	c := jsonschema.NewCompiler()
	testenv.OK(t, c.AddResource("rules.schema.json", text))
	return testenv.Must(c.Compile("rules.schema.json"))(t)
}

// asEditor returns what an editor makes of a file, by the core schema of YAML 1.2 and
// with merge keys. It is not ok if there is no single document to judge.
func asEditor(data []byte) (value any, ok bool) {
	var first, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if decoder.Decode(&first) != nil || !errors.Is(decoder.Decode(&second), io.EOF) {
		return nil, false
	}
	nodes := 1 << 16
	value = editorValue(first.Content[0], &nodes)
	return value, nodes > 0
}

var (
	wholeNumber = regexp.MustCompile(`^[-+]?[0-9]+$`)
	otherNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

func editorValue(n *yaml.Node, nodes *int) any {
	if *nodes--; *nodes <= 0 {
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return editorValue(n.Alias, nodes)
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, editorValue(item, nodes))
		}
		return list
	case yaml.MappingNode:
		return editorMapping(n, nodes)
	}
	if n.Style&^yaml.FlowStyle != 0 { // quotes, a tag, or a block
		return n.Value
	}
	return editorScalar(n.Value)
}

// editorScalar returns what text without quotes is by the core schema of YAML 1.2.
func editorScalar(text string) any {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	if strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0o") {
		if i, err := strconv.ParseInt(text, 0, 64); err == nil && !strings.Contains(text, "_") {
			return float64(i)
		}
	}
	if wholeNumber.MatchString(text) || otherNumber.MatchString(text) {
		f, _ := strconv.ParseFloat(text, 64)
		return f
	}
	return text
}

func editorMapping(n *yaml.Node, nodes *int) any {
	m, merged := map[string]any{}, map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], editorValue(n.Content[i+1], nodes)
		if key.Tag != "!!merge" {
			m[key.Value] = value
			continue
		}
		list, several := value.([]any)
		if !several {
			list = []any{value}
		}
		for _, item := range list {
			from, isMapping := item.(map[string]any)
			if !isMapping {
				m["<<"] = item // as it stands
			}
			for key, value := range from {
				if _, has := merged[key]; !has {
					merged[key] = value
				}
			}
		}
	}
	maps.Copy(merged, m)
	return merged
}

func filesBelow(t *testing.T, dir string, wanted func(name string) bool) (files []File) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !wanted(path) {
			return err
		}
		data, err := os.ReadFile(path)
		files = append(files, File{path, data})
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(files), err)
	}
	return files
}

func isRules(name string) bool { return holdsRules(name) && !strings.HasSuffix(name, "_test.yaml") }

func TestSchemaTakesGoodFiles(t *testing.T) {
	schema := compiled(t)
	files := slices.Concat(
		filesBelow(t, "testdata/good", isRules), filesBelow(t, "testdata/warned", isRules), filesBelow(t, "../../config", isRules),
		filesBelow(t, "../../examples", func(name string) bool { return isRules(name) && filepath.Base(filepath.Dir(name)) == "rules" }),
	)
	text := testenv.Must(os.ReadFile("../../docs/rules.md"))(t)
	for i, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(text, -1) {
		files = append(files, File{fmt.Sprintf("block %d of docs/rules.md", i), block[1]})
	}
	for _, f := range files {
		value, ok := asEditor(f.Data)
		if !ok {
			t.Errorf("%s is not one document", f.Name)
		} else if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

// Why the schema takes bad files.
const (
	numbersTogether = "it does not calculate with two fields"
	otherPlaces     = "it does not compare a place with others"
	otherFiles      = "it knows one file only"
	beforeValues    = "tags, directives and repeated fields are YAML's, before there are values"
)

// beyondSchema are the bad files that the schema takes, and why.
var beyondSchema = map[string]string{
	"amount_too_large.yaml":        numbersTogether,
	"calendar_multiplier.yaml":     numbersTogether,
	"override_too_large.yaml":      numbersTogether,
	"period_too_long.yaml":         numbersTogether,
	"regex_too_long.yaml":          "it does not count the steps of regular expressions",
	"nested_too_deep.yaml":         "it does not count levels",
	"duplicate_key.yaml":           otherPlaces,
	"duplicate_key_and_value.yaml": otherPlaces,
	"hold_differs.yaml":            otherPlaces,
	"hold_is_a_level.yaml":         otherPlaces,
	"networks_twice.yaml":          otherPlaces,
	"regex_twice.yaml":             otherPlaces,
	"replaces_self.yaml":           otherPlaces,
	"value_twice.yaml":             otherPlaces,
	"domain_twice/1.yaml":          otherFiles,
	"domain_twice/2.yaml":          otherFiles,
	"merged_duplicate/1.yaml":      otherFiles,
	"merged_duplicate/2.yaml":      otherFiles,
	"merged_hold/a.yaml":           otherFiles,
	"merged_hold/b.yaml":           otherFiles,
	"merged_list/1.yaml":           otherFiles,
	"merged_list/2.yaml":           otherFiles,
	"merged_keyless/1.yaml":        otherFiles,
	"merged_keyless/2.yaml":        otherFiles,
	"binary_invalid.yaml":          beforeValues,
	"field_repeated.yaml":          beforeValues,
	"metadata_not_json.yaml":       beforeValues,
	"metadata_repeated.yaml":       beforeValues,
	"value_custom_tag.yaml":        beforeValues,
}

func TestSchemaRefusesBadFiles(t *testing.T) {
	schema, taken := compiled(t), map[string]bool{}
	for _, f := range filesBelow(t, "testdata/bad", isRules) {
		name := strings.TrimPrefix(filepath.ToSlash(f.Name), "testdata/bad/")
		value, ok := asEditor(f.Data)
		if !ok {
			continue // what is no YAML an editor refuses without a schema
		}
		if taken[name] = schema.Validate(value) == nil; taken[name] != (beyondSchema[name] != "") {
			t.Errorf("%s: taken %v, known reason %q", name, taken[name], beyondSchema[name])
		}
	}
	for name := range beyondSchema {
		if !taken[name] {
			t.Errorf("%s is not taken", name)
		}
	}
}

// samples are values for fields of every kind, right ones and wrong ones.
var samples = []string{
	"true", "false", "yes", "Off", "0", "1", "5", "-1", "0.5", "1.5", "1125899906842624", "1125899906842625", "4294967296", "1_000", `"5"`, `"1_000x"`,
	`""`, "text", "a*", "second", "MONTH", `"Year"`, "fixed_window", "token_bucket", "concurrency", "epoch", "calendar", "always", "deny", "UTC", "10m", "1h30m", "-10m", "10.0.0.0/8",
	"[]", "[a]", "[a, 5]", "[10.0.0.0/8]", `[""]`, "[a*]", "{}", "{name: a}", "[{name: a}]", "[{}]",
	"{unit: day, requests_per_unit: 1}", "[{unit: day, requests_per_unit: 1}]", "{unlimited: true}", "[{key: a}]", "{max_requests_per_unit: 5}", "{burst_ratio: 0.5}",
}

// schemaPlaces are files with a place for fields of a table, and what is beside these.
var schemaPlaces = []struct {
	fields []string
	format string
	beside map[string]string // makes a file whole
}{
	{format.file.names, "{%s}", map[string]string{"domain": "api"}},
	{format.descriptor.names, "{domain: api, descriptors: [{%s}]}", map[string]string{"key": "user", "rate_limit": "{unit: day, requests_per_unit: 1}"}},
	{format.descriptor.names, "{domain: api, descriptors: [{%s}]}", map[string]string{"key": "user", "value": "a*"}},
	{format.descriptor.names, "{domain: api, descriptors: [{%s}]}", map[string]string{"rate_limit": "{unit: day, requests_per_unit: 1}"}},
	{keylessFields, "{domain: api, descriptors: [{%s}]}", map[string]string{"rate_limit": "{unit: day, requests_per_unit: 1}"}},
	{format.limit.names, "{domain: api, descriptors: [{key: user, rate_limit: {%s}}]}", map[string]string{"unit": "minute", "requests_per_unit": "5"}},
	{format.limit.names, "{domain: api, descriptors: [{key: user, rate_limit: {%s}}]}", map[string]string{"unit": "minute", "requests_per_unit": "5", "algorithm": "token_bucket"}},
	{format.limit.names, "{domain: api, descriptors: [{key: user, rate_limit: {%s}}]}", map[string]string{"unit": "month", "requests_per_unit": "5", "algorithm": "concurrency"}},
	{format.limit.names, "{domain: api, descriptors: [{key: user, rate_limit: {%s}}]}", map[string]string{"unlimited": "true"}},
	{[]string{"name"}, "{domain: api, descriptors: [{key: user, rate_limit: {unlimited: true, replaces: [{%s}]}}]}", nil},
	{format.override.names, "{domain: api, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}, override: {%s}}]}", nil},
}

// inPlace spells a mapping within a place.
func inPlace(format string, fields map[string]string) string {
	var text []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text = append(text, name+": "+fields[name])
	}
	return fmt.Sprintf(format, strings.Join(text, ", "))
}

// onlyDecoderKnows are the problems that the schema does not see.
var onlyDecoderKnows = regexp.MustCompile("cannot be counted exactly|at most 100 years|time zone")

// One field with any value is right for the schema if it is for the decoder, but for
// what only numbers together show.
func TestSchemaAgreesWithDecoder(t *testing.T) {
	schema := compiled(t)
	known := 0
	words := slices.Concat(samples, []string{"null"}, limiter.AlgorithmNames(), limiter.UnitNames(), limiter.FailureModeNames(), charges)
	slices.Sort(words)
	words = slices.Compact(words)
	for _, place := range schemaPlaces {
		for _, f := range place.fields {
			for _, value := range words {
				fields := maps.Clone(place.beside)
				if fields == nil {
					fields = map[string]string{}
				}
				fields[f] = value
				text := inPlace(place.format, fields)
				_, err := Load([]File{{"", []byte(text)}}, Options{})
				read, _ := asEditor([]byte(text))
				refused := schema.Validate(read)
				switch {
				case (err == nil) == (refused == nil):
				case err != nil && onlyDecoderKnows.MatchString(err.Error()):
					known++
				default:
					t.Errorf("%s: Load returns %v, the schema says %v", text, err, refused)
				}
			}
		}
	}
	if known > 40 {
		t.Errorf("%d differences of known kinds", known)
	}
}

// What the decoder takes the schema takes, too: an editor shows no false alarm.
func TestSchemaRefusesNothingGood(t *testing.T) {
	schema, random, good := compiled(t), rand.New(rand.NewPCG(1, 2)), 0
	for range 6_000 {
		place := schemaPlaces[random.IntN(len(schemaPlaces))]
		fields := maps.Clone(place.beside)
		if fields == nil {
			fields = map[string]string{}
		}
		for range 1 + random.IntN(3) {
			fields[place.fields[random.IntN(len(place.fields))]] = samples[random.IntN(len(samples))]
		}
		text := inPlace(place.format, fields)
		if _, err := Load([]File{{"", []byte(text)}}, Options{CalendarMonths: random.IntN(2) == 0}); err != nil {
			continue
		}
		good++
		read, _ := asEditor([]byte(text))
		if err := schema.Validate(read); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if good < 100 {
		t.Errorf("only %d files were good", good)
	}
}
