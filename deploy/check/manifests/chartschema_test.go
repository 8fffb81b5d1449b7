package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/testenv"
)

var update = flag.Bool("update", false, "write the schema of rules in deploy/chart/values.schema.json anew")

// TestChartSchemaHasThatOfRules keeps the end of the chart's schema and
// docs/rules.schema.json the same, but for textsOnly. Helm reads no other file.
func TestChartSchemaHasThatOfRules(t *testing.T) {
	var rules struct {
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	var whole map[string]json.RawMessage
	text := []byte(readFile(t, "../../../docs/rules.schema.json"))
	testenv.OK(t, errors.Join(json.Unmarshal(text, &rules), json.Unmarshal(text, &whole)))
	delete(whole, "$schema")
	delete(whole, "definitions")
	root := testenv.Must(json.Marshal(whole))(t)
	definitions := []string{`    "rules": ` + textsOnly(t, root)}
	for _, name := range slices.Sorted(maps.Keys(rules.Definitions)) {
		definitions = append(definitions, fmt.Sprintf("    %q: %s", name, textsOnly(t, rules.Definitions[name])))
	}
	want := strings.Join(definitions, ",\n") + "\n  }\n}\n"
	file := filepath.Join(chart, "values.schema.json")
	own, _, found := strings.Cut(readFile(t, file), "    \"rules\": {\"")
	schema := own + want
	if !found {
		t.Fatal("the chart's schema has no definition of rules")
	}
	if *update {
		testenv.OK(t, os.WriteFile(file, []byte(schema), 0o644))
	}
	if readFile(t, file) != schema {
		t.Error("it is not that of docs/rules.schema.json; run: go -C deploy/check test ./manifests -run Schema -update")
	}
}

// textsOnly returns a schema of rules that takes no numbers and booleans where Weir takes
// them as text: Helm reads them before the chart does, so that 01234 would be 668, 1.10
// would be 1.1, and off would be false.
func textsOnly(t *testing.T, schema []byte) string {
	t.Helper()
	var value any
	decoder := json.NewDecoder(bytes.NewReader(schema))
	decoder.UseNumber()
	testenv.OK(t, decoder.Decode(&value))
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			if types, is := v["type"].([]any); is && slices.Contains(types, any("string")) {
				v["type"] = slices.DeleteFunc(types, func(of any) bool { return of == "number" || of == "boolean" })
			}
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(value)
	var short bytes.Buffer
	encoder := json.NewEncoder(&short)
	encoder.SetEscapeHTML(false)
	testenv.OK(t, encoder.Encode(value))
	return strings.TrimSpace(short.String())
}
