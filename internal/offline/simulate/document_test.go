package simulate

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// fieldsOf adds to names the JSON fields of a type and of the types in it, by the name of the field that contains them.
func fieldsOf(of reflect.Type, object string, names map[string][]string) {
	if of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		fieldsOf(of.Elem(), object, names)
		return
	}
	if of.Kind() != reflect.Struct || of.PkgPath() == "time" {
		return
	}
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			fieldsOf(f.Type, object, names)
		case f.IsExported() && name != "-":
			names[object] = append(names[object], name)
			fieldsOf(f.Type, name, names)
		}
	}
	slices.Sort(names[object])
	names[object] = slices.Compact(names[object])
}

// docs/simulate.md lists all JSON fields of the report, and no others.
func TestFieldsInDocument(t *testing.T) {
	want, got := map[string][]string{}, map[string][]string{}
	fieldsOf(reflect.TypeFor[Report](), "", want)
	text := testenv.Must(os.ReadFile(testenv.Repository(t) + "/docs/simulate.md"))(t)
	_, table, _ := strings.Cut(string(text), "|object|fields|\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	quoted := regexp.MustCompile("`([^`]*)`")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		objects := quoted.FindAllStringSubmatch(cells[1], -1)
		if objects == nil {
			objects = [][]string{{"", ""}}
		}
		for _, object := range objects {
			for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
				got[object[1]] = append(got[object[1]], m[1])
			}
			slices.Sort(got[object[1]])
		}
	}
	testenv.EqualDeep(t, got, want, "the fields")
}
