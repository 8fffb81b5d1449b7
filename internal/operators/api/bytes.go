package api

import (
	"encoding/base64"
	"unicode/utf8"
)

// KeyValue is an entry with the bytes that are in requests.
type KeyValue struct{ Key, Value string }

// Bytes returns the domain and the entries of d with the bytes that are in requests. The
// error is an ErrBadRequest that names a field that is no base64.
func (d Descriptor) Bytes() (domain string, entries []KeyValue, err error) {
	if domain, err = decode("domain", d.Domain, d.DomainBase64); err != nil {
		return "", nil, err
	}
	entries = make([]KeyValue, len(d.Entries))
	for i, e := range d.Entries {
		if entries[i].Key, err = decode("key", e.Key, e.KeyBase64); err == nil {
			entries[i].Value, err = decode("value", e.Value, e.ValueBase64)
		}
		if err != nil {
			return "", nil, Errorf(ErrBadRequest, "entries[%d]: %w", i, err)
		}
	}
	return domain, entries, nil
}

// NewDescriptor returns the Descriptor whose Bytes are domain and entries, which may be of
// another package.
func NewDescriptor[E ~struct{ Key, Value string }](domain string, entries []E) Descriptor {
	var d Descriptor
	d.Domain, d.DomainBase64 = encode(domain)
	d.Entries = make([]Entry, len(entries))
	for i, entry := range entries {
		e := KeyValue(entry)
		d.Entries[i].Key, d.Entries[i].KeyBase64 = encode(e.Key)
		d.Entries[i].Value, d.Entries[i].ValueBase64 = encode(e.Value)
	}
	return d
}

func decode(field, text, inBase64 string) (string, error) {
	if inBase64 == "" {
		return text, nil
	}
	data, err := base64.StdEncoding.Strict().DecodeString(inBase64)
	if err != nil {
		return "", Errorf(ErrBadRequest, "%s_base64 is no base64 (with + and /, and = at its end)", field)
	}
	return string(data), nil
}

func encode(data string) (text, inBase64 string) {
	if utf8.ValidString(data) {
		return data, ""
	}
	return "", base64.StdEncoding.EncodeToString([]byte(data))
}
