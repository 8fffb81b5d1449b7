package descriptors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

const schemaFile = "../../docs/rules.schema.json"

func TestSchemaFileIsCurrent(t *testing.T) {
	testenv.Golden(t, schemaFile, string(Schema))
}

// compiled returns the schema after validating it with the schema of its draft.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text := testenv.Must(jsonschema.UnmarshalJSON(bytes.NewReader(Schema)))(t)
	c := jsonschema.NewCompiler()
	testenv.OK(t, c.AddResource("rules.schema.json", text))
	return testenv.Must(c.Compile("rules.schema.json"))(t)
}

// textOfEditors matches numbers with underscores, and dates, which are text for editors but not
// in YAML 1.1, the version of rule files.
var textOfEditors = regexp.MustCompile(`\b[0-9]+(_[0-9]+)+\b|\b[0-9]{4}-[0-9]{2}-[0-9]{2}\b`)

// asEditor returns the value that an editor reads from a file. ok is false unless the file is a
// single valid document.
func asEditor(data []byte) (value any, ok bool) {
	decoder := yaml.NewDecoder(bytes.NewReader(textOfEditors.ReplaceAll(data, []byte(`"$0"`))))
	err := decoder.Decode(&value)
	return value, err == nil && errors.Is(decoder.Decode(new(any)), io.EOF)
}

func TestSchemaTakesGoodFiles(t *testing.T) {
	schema, files := compiled(t), goodFiles(t, "testdata/good", "testdata/warned")
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

// beyondSchema are the bad files that the schema accepts, by reason.
var beyondSchema = map[string][]string{
	"it does not calculate with two fields":          {"amount_too_large.yaml", "calendar_multiplier.yaml", "override_too_large.yaml", "notify_order.yaml", "notify_second.yaml", "period_too_long.yaml"},
	"it does not count steps of regular expressions": {"regex_too_long.yaml"},
	"it does not count levels":                       {"nested_too_deep.yaml"},
	"it does not know Envoy's filters":               {"quota_service.yaml"},
	"it does not know the tags of YAML":              {"value_custom_tag.yaml"},
	"it does not compare a place with others in its file": {
		"duplicate_key.yaml", "duplicate_key_and_value.yaml", "hold_differs.yaml", "hold_is_a_level.yaml", "networks_twice.yaml", "regex_twice.yaml",
		"replaces_self.yaml", "value_twice.yaml",
	},
	"it knows one file only": {
		"domain_twice/1.yaml", "domain_twice/2.yaml", "merged_duplicate/1.yaml", "merged_duplicate/2.yaml", "merged_hold/a.yaml", "merged_hold/b.yaml",
		"merged_list/1.yaml", "merged_list/2.yaml", "merged_keyless/1.yaml", "merged_keyless/2.yaml",
	},
}

func TestSchemaRefusesBadFiles(t *testing.T) {
	schema := compiled(t)
	var taken []string
	for _, f := range readBelow(t, "testdata/bad", "testdata/bad") {
		if value, ok := asEditor(f.Data); ok && schema.Validate(value) == nil { // editors refuse the other files as invalid YAML
			taken = append(taken, f.Name)
		}
	}
	testenv.EqualLists(t, taken, slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(beyondSchema))...))), "bad files that the schema takes")
}

// samples are valid and invalid values for fields of every kind.
var samples = []string{
	"true", "false", "yes", "Off", "0", "1", "5", "-1", "0.5", "1.5", "1125899906842624", "1125899906842625", "4294967296", "1_000", `"5"`, `"1_000x"`,
	`""`, "text", "a*", "second", "MONTH", `"Year"`, "fixed_window", "token_bucket", "concurrency", "epoch", "calendar", "always", "deny", "UTC", "10m", "1h30m", "-10m", "10.0.0.0/8",
	"[]", "[a]", "[a, 5]", "[10.0.0.0/8]", `[""]`, "[a*]", "{}", "{name: a}", "[{name: a}]", "[{}]",
	"{unit: day, requests_per_unit: 1}", "[{unit: day, requests_per_unit: 1}]", "{unlimited: true}", "[{key: a}]", "{max_requests_per_unit: 5}", "{burst_ratio: 0.5}",
}

// schemaCases are files for fields of a table, with the required siblings of the fields.
var schemaCases = []struct {
	fields []string
	format string
	beside map[string]string // values of siblings that complete the file
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

// onlyDecoderKnows matches problems that a schema cannot find.
var onlyDecoderKnows = regexp.MustCompile("cannot be counted exactly|at most 100 years|time zone|quota_service")

// For one field with any value, the schema and the decoder agree, except on combinations of
// numbers. So the decoder reads every field. For several fields, the schema accepts every file that the decoder accepts, so that
// editors show no false alarms.
func TestSchemaAgreesWithDecoder(t *testing.T) {
	schema, random, known, good := compiled(t), rand.New(rand.NewPCG(1, 2)), 0, 0
	judge := func(format string, fields map[string]string, o Options) (text string, err, refused error) {
		var list []string
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			list = append(list, name+": "+fields[name])
		}
		text = fmt.Sprintf(format, strings.Join(list, ", "))
		_, err = Load([]File{{"", []byte(text)}}, o)
		read, _ := asEditor([]byte(text))
		return text, err, schema.Validate(read)
	}
	with := func(beside map[string]string, field, value string) map[string]string {
		fields := map[string]string{}
		maps.Copy(fields, beside)
		fields[field] = value
		return fields
	}
	words := slices.Concat(samples, []string{"null"}, limiter.AlgorithmNames(), limiter.UnitNames(), limiter.FailureModeNames(), charges)
	for _, place := range schemaCases {
		for _, f := range place.fields {
			for _, value := range words {
				text, err, refused := judge(place.format, with(place.beside, f, value), Options{})
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
	for range 6_000 {
		place := schemaCases[random.IntN(len(schemaCases))]
		fields := place.beside
		for range 1 + random.IntN(3) {
			fields = with(fields, place.fields[random.IntN(len(place.fields))], samples[random.IntN(len(samples))])
		}
		text, err, refused := judge(place.format, fields, Options{CalendarMonths: random.IntN(2) == 0})
		if err == nil && refused != nil {
			t.Errorf("%s: %v", text, refused)
		} else if err == nil {
			good++
		}
	}
	if known > 40 || good < 100 {
		t.Errorf("%d differences of known kinds, %d files of several fields were good", known, good)
	}
}
