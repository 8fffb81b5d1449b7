package plan

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"weir/internal/limiter"
)

// JSONEntry is an entry of a descriptor. If the key or the value is not valid UTF-8, Key or Value has
// U+FFFD for the invalid bytes, and KeyBase64 or ValueBase64 has the exact bytes and takes precedence.
type JSONEntry struct {
	Key         string `json:"key"`
	KeyBase64   []byte `json:"key_base64,omitempty"`
	Value       string `json:"value"`
	ValueBase64 []byte `json:"value_base64,omitempty"`
}

// NewJSONEntry returns the JSONEntry whose Bytes are key and value. It copies them.
func NewJSONEntry(key, value string) (e JSONEntry) {
	e.Key, e.KeyBase64 = encode(key)
	e.Value, e.ValueBase64 = encode(value)
	return e
}

// Bytes returns the exact key and value.
func (e *JSONEntry) Bytes() limiter.Entry {
	return limiter.Entry{Key: decode(e.Key, e.KeyBase64), Value: decode(e.Value, e.ValueBase64)}
}

// JSONDescriptor is a descriptor with its domain.
type JSONDescriptor struct {
	Domain       string      `json:"domain"`
	DomainBase64 []byte      `json:"domain_base64,omitempty"`
	Entries      []JSONEntry `json:"entries"`
}

// NewJSONDescriptor returns the JSONDescriptor whose Bytes are domain and entries. It copies them.
func NewJSONDescriptor(domain string, entries []limiter.Entry) JSONDescriptor {
	d := JSONDescriptor{Entries: make([]JSONEntry, len(entries))}
	d.Domain, d.DomainBase64 = encode(domain)
	for i, e := range entries {
		d.Entries[i] = NewJSONEntry(e.Key, e.Value)
	}
	return d
}

// Bytes returns the exact domain and entries.
func (d *JSONDescriptor) Bytes() (domain string, entries []limiter.Entry) {
	for i := range d.Entries {
		entries = append(entries, d.Entries[i].Bytes())
	}
	return decode(d.Domain, d.DomainBase64), entries
}

// decode returns exact, or text if there are no exact bytes.
func decode(text string, exact []byte) string { return cmp.Or(string(exact), text) }

// encode returns a copy of data as text, and its exact bytes if it is not valid UTF-8.
func encode(data string) (text string, exact []byte) {
	if utf8.ValidString(data) {
		return strings.Clone(data), nil
	}
	return strings.ToValidUTF8(data, "\uFFFD"), []byte(data)
}
