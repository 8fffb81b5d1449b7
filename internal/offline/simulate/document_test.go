package simulate

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// fill sets all fields to something, and lists to one item.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fill(f)
			}
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	}
}

// namesIn lists the fields of all objects in a value, by the name of the field that holds the object.
func namesIn(value any, of string, names map[string][]string) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			namesIn(item, of, names)
		}
	case map[string]any:
		for name, field := range value {
			if !slices.Contains(names[of], name) {
				names[of] = append(names[of], name)
			}
			namesIn(field, name, names)
		}
	}
	slices.Sort(names[of])
}

// docs/simulate.md names all fields of the report in JSON, and no others.
func TestFieldsInDocument(t *testing.T) {
	var r Report
	fill(reflect.ValueOf(&r).Elem())
	data, err := json.Marshal(r)
	var decoded any
	if err == nil {
		err = json.Unmarshal(data, &decoded)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	namesIn(decoded, "", want)

	text, err := os.ReadFile(testenv.Repository(t) + "/docs/simulate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "|object|fields|\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	quoted, got := regexp.MustCompile("`([^`]*)`"), map[string][]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		var fields []string
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			fields = append(fields, m[1])
		}
		slices.Sort(fields)
		objects := quoted.FindAllStringSubmatch(cells[1], -1)
		if objects == nil {
			got[""] = fields
		}
		for _, m := range objects {
			got[m[1]] = fields
		}
	}
	for of := range want {
		if len(want[of]) > 0 && !slices.Equal(got[of], want[of]) {
			t.Errorf("the fields of %q are %q, want %q", of, got[of], want[of])
		}
		delete(got, of)
	}
	if len(got) > 0 {
		t.Errorf("there are no objects %v", got)
	}
}
