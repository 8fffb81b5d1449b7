package strictyaml

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// IsNull reports whether a node is null, like the value of an empty field.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Text returns a scalar as written, even a number or a boolean, or "" for null. If n is anything
// else, Text reports a problem and returns false.
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

// Bytes is like Text, but also decodes base64 (!!binary), because YAML text cannot contain every
// byte.
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

// The spellings of booleans in YAML 1.1, which envoyproxy/ratelimit accepts.
var (
	trues  = strings.Fields("true True TRUE yes Yes YES on On ON y Y")
	falses = strings.Fields("false False FALSE no No NO off Off OFF n N")
)

// Boolean returns the value of a YAML 1.1 boolean without quotes or tag. ok reports whether n is
// such a boolean.
func Boolean(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style != 0 {
		return false, false
	}
	value = slices.Contains(trues, n.Value)
	return value, value || slices.Contains(falses, n.Value)
}

// Flag returns the value of a YAML 1.1 boolean, as envoyproxy/ratelimit reads it. It returns false
// for null, and after reporting a problem for any other node.
func (d *Decoder) Flag(n *yaml.Node) bool {
	value, ok := Boolean(n)
	if !ok && !IsNull(n) {
		d.Problem(At(n), "%s is not allowed; use true or false", describeNoText(n))
	}
	return value
}

// Whole returns the integer n if it is from least to most. Otherwise, it reports a problem and returns least.
func (d *Decoder) Whole(n *yaml.Node, least, most uint64) uint64 {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" {
		digits := strings.TrimPrefix(strings.ReplaceAll(n.Value, "_", ""), "+")
		if v, err := strconv.ParseUint(digits, 0, 64); err == nil && least <= v && v <= most {
			if decimal, err := strconv.ParseUint(digits, 10, 64); err == nil && decimal != v {
				d.Warn(At(n), "%s is %d, because YAML reads a number that begins with 0 as octal; write %[2]d or %d", Describe(n), v, decimal)
			}
			return v
		}
	}
	d.Problem(At(n), "%s is not allowed; use a whole number from %d to %d", describeNoText(n), least, most)
	return least
}

// Word returns the index of a text in words, or -1 after reporting a problem.
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

// describeNoText is Describe for a place where a number or a boolean is required. It says whether
// the value is in quotes in the file, because Describe quotes every value.
func describeNoText(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return "the text " + Describe(n) + " (in quotes)"
	}
	return Describe(n)
}

// Describe returns a short description of a node for a problem.
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
