package strictyaml

import "gopkg.in/yaml.v3"

// Given has a mapping and the fields that were read from it, in order.
type Given struct {
	Mapping *yaml.Node
	Fields  []GivenField
}

// GivenField has the name and value of a field.
type GivenField struct {
	Name  string
	Value *yaml.Node
}

// Add adds a field.
func (g *Given) Add(name string, value *yaml.Node) {
	g.Fields = append(g.Fields, GivenField{name, value})
}

// Value returns the value of a field, or nil if the field was not read.
func (g *Given) Value(name string) *yaml.Node {
	for i := range g.Fields {
		if g.Fields[i].Name == name {
			return g.Fields[i].Value
		}
	}
	return nil
}

// Has reports whether a field was read.
func (g *Given) Has(name string) bool { return g.Value(name) != nil }

// At returns the position of a field's value, or of the mapping if the field was not read.
func (g *Given) At(name string) Position {
	if value := g.Value(name); value != nil {
		return At(value)
	}
	return At(g.Mapping)
}
