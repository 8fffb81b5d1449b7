package strictyaml

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// IsNull reports whether a node is null, which an empty field is, too.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Text returns the text of a scalar as it is written, also of a number or a
// boolean; of null it is "".
func (d *Decoder) Text(n *yaml.Node) (s string, ok bool) {
	if n.Kind == yaml.ScalarNode {
		switch n.ShortTag() {
		case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
			return n.Value, true
		case "!!null":
			return "", true
		}
	}
	d.Problem(At(n), "%s is not allowed; use text", Describe(n))
	return "", false
}

// Bytes is text that may be given in base64, as !!binary, because not every
// byte can be written in YAML.
func (d *Decoder) Bytes(n *yaml.Node) (s string, ok bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!binary" {
		return d.Text(n)
	}
	raw, err := base64.StdEncoding.DecodeString(n.Value)
	if err != nil {
		d.Problem(At(n), "%s is not base64, which !!binary needs", Describe(n))
		return "", false
	}
	return string(raw), true
}

// booleans are the spellings of YAML 1.1, as the library of the reference knows them.
var booleans = map[string]bool{
	"true": true, "True": true, "TRUE": true, "yes": true, "Yes": true, "YES": true,
	"on": true, "On": true, "ON": true, "y": true, "Y": true,
	"false": false, "False": false, "FALSE": false, "no": false, "No": false, "NO": false,
	"off": false, "Off": false, "OFF": false, "n": false, "N": false,
}

// Boolean returns what a scalar without quotes and tag means as a boolean of YAML
// 1.1, and whether it is one.
func Boolean(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style != 0 {
		return false, false
	}
	value, ok = booleans[n.Value]
	return value, ok
}

// Flag returns a boolean, in the words of YAML 1.1 as the reference does; null
// is false.
func (d *Decoder) Flag(n *yaml.Node) bool {
	value, ok := Boolean(n)
	if !ok && !IsNull(n) {
		d.Problem(At(n), "%s is not allowed; use true or false", describeNoText(n))
	}
	return value
}

// Whole returns a whole number from least to most; of anything else it is least.
func (d *Decoder) Whole(n *yaml.Node, least, most uint64) uint64 {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" {
		digits := strings.TrimPrefix(strings.ReplaceAll(n.Value, "_", ""), "+")
		if v, err := strconv.ParseUint(digits, 0, 64); err == nil && least <= v && v <= most {
			return v
		}
	}
	d.Problem(At(n), "%s is not allowed; use a whole number from %d to %d", describeNoText(n), least, most)
	return least
}

// Word returns the place of a text among words, or -1.
func (d *Decoder) Word(n *yaml.Node, words []string) int {
	if i := slices.Index(words, n.Value); n.Kind == yaml.ScalarNode && i >= 0 {
		return i
	}
	hint := ""
	if n.Kind == yaml.ScalarNode {
		hint = d.DidYouMean(n.Value, words)
	}
	d.Problem(At(n), "%s is not allowed%s; use %s", Describe(n), hint, OneOf(words))
	return -1
}

// describeNoText names a node where a number or a boolean is needed. Its quotes
// are named, too: in a problem they look like those around any value.
func describeNoText(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return "the text " + Describe(n) + " (in quotes)"
	}
	return Describe(n)
}

// Describe names a node in a problem.
func Describe(n *yaml.Node) string {
	const longest = 50
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case IsNull(n):
		return "null"
	case len(n.Value) > longest:
		return strconv.Quote(strings.ToValidUTF8(n.Value[:longest], "")) + "..."
	case n.Style&yaml.TaggedStyle != 0:
		return n.ShortTag() + " " + strconv.Quote(n.Value)
	default:
		return strconv.Quote(n.Value)
	}
}
