package adminclient

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"weir/internal/adminapi"
	"weir/internal/limiter"
)

// NewDescriptor returns a descriptor as JSON holds it.
func NewDescriptor(domain string, entries []limiter.Entry) adminapi.Descriptor {
	var d adminapi.Descriptor
	d.Domain, d.DomainBase64 = encode(domain)
	for _, e := range entries {
		var entry adminapi.Entry
		entry.Key, entry.KeyBase64 = encode(e.Key)
		entry.Value, entry.ValueBase64 = encode(e.Value)
		d.Entries = append(d.Entries, entry)
	}
	return d
}

// encode returns s as text and, if that is not exact, in base64.
func encode(s string) (text, exact string) {
	if utf8.ValidString(s) {
		return s, ""
	}
	return strings.ToValidUTF8(s, "\uFFFD"), base64.StdEncoding.EncodeToString([]byte(s))
}

// Exact returns the bytes of a text of JSON, which are in base64 if they are no UTF-8.
func Exact(text, inBase64 string) (string, error) {
	if inBase64 == "" {
		return text, nil
	}
	b, err := base64.StdEncoding.DecodeString(inBase64)
	if err != nil {
		return "", fmt.Errorf("%q is not base64", inBase64)
	}
	return string(b), nil
}

// ReadDescriptor is the inverse of NewDescriptor.
func ReadDescriptor(d adminapi.Descriptor) (domain string, entries []limiter.Entry, err error) {
	read := func(text, inBase64 string) string {
		s, wrong := Exact(text, inBase64)
		if err == nil {
			err = wrong
		}
		return s
	}
	domain = read(d.Domain, d.DomainBase64)
	for _, e := range d.Entries {
		entries = append(entries, limiter.Entry{Key: read(e.Key, e.KeyBase64), Value: read(e.Value, e.ValueBase64)})
	}
	return domain, entries, err
}
