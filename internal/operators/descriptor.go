package operators

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"weir/internal/limiter"
)

// Entry is an entry of a descriptor. Bytes that are no UTF-8 are U+FFFD in Key and Value, and
// then KeyBase64 and ValueBase64 have the exact ones, and count.
type Entry struct {
	Key         string `json:"key"`
	KeyBase64   string `json:"key_base64,omitempty"`
	Value       string `json:"value"`
	ValueBase64 string `json:"value_base64,omitempty"`
}

func newEntry(key, value string) (e Entry) {
	e.Key, e.KeyBase64 = encodeBytes(key)
	e.Value, e.ValueBase64 = encodeBytes(value)
	return e
}

// Bytes returns the key and the value with the bytes that are in requests. The error is an
// ErrBadRequest that names a field that is not valid base64.
func (e *Entry) Bytes() (limiter.Entry, error) {
	key, err := decodeBytes("key", e.Key, e.KeyBase64)
	if err != nil {
		return limiter.Entry{}, err
	}
	value, err := decodeBytes("value", e.Value, e.ValueBase64)
	return limiter.Entry{Key: key, Value: value}, err
}

// Descriptor names a descriptor of a domain. It is the body of POST /peek and POST /reset.
type Descriptor struct {
	Domain       string  `json:"domain"`
	DomainBase64 string  `json:"domain_base64,omitempty"`
	Entries      []Entry `json:"entries"`
}

// NewDescriptor returns the Descriptor whose Bytes are domain and entries.
func NewDescriptor(domain string, entries []limiter.Entry) Descriptor {
	d := Descriptor{Entries: make([]Entry, len(entries))}
	d.Domain, d.DomainBase64 = encodeBytes(domain)
	for i, e := range entries {
		d.Entries[i] = newEntry(e.Key, e.Value)
	}
	return d
}

// Bytes returns the domain and the entries of d as Entry.Bytes does.
func (d Descriptor) Bytes() (domain string, entries []limiter.Entry, err error) {
	if domain, err = decodeBytes("domain", d.Domain, d.DomainBase64); err != nil {
		return "", nil, err
	}
	entries = make([]limiter.Entry, len(d.Entries))
	for i := range d.Entries {
		if entries[i], err = d.Entries[i].Bytes(); err != nil {
			return "", nil, Errorf(ErrBadRequest, "entries[%d]: %w", i, err)
		}
	}
	return domain, entries, nil
}

func decodeBytes(field, text, inBase64 string) (string, error) {
	if inBase64 == "" {
		return text, nil
	}
	data, err := base64.StdEncoding.Strict().DecodeString(inBase64)
	if err != nil {
		return "", Errorf(ErrBadRequest, "%s_base64 is not valid base64 (standard alphabet, padded)", field)
	}
	return string(data), nil
}

// encodeBytes returns a copy of data as text, and in base64 if the text is not exact.
func encodeBytes(data string) (text, inBase64 string) {
	if utf8.ValidString(data) {
		return strings.Clone(data), ""
	}
	return validUTF8(data), base64.StdEncoding.EncodeToString([]byte(data))
}

func validUTF8(s string) string { return strings.ToValidUTF8(strings.Clone(s), "\uFFFD") }

// Begin returns at most n bytes of s, whole characters only.
func Begin(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for end := n; end > n-utf8.UTFMax && end > 0; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:n] // which is no UTF-8
}
