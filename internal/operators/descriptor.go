package operators

import (
	"encoding/base64"
	"unicode/utf8"

	"weir/internal/limiter"
)

// Entry is an entry of a descriptor. Key and Value are text; bytes that are no UTF-8 are in
// KeyBase64 and ValueBase64, which hold all of the key or value, and count if they are set.
type Entry struct {
	Key         string `json:"key"`
	KeyBase64   string `json:"key_base64,omitempty"`
	Value       string `json:"value"`
	ValueBase64 string `json:"value_base64,omitempty"`
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
		d.Entries[i].Key, d.Entries[i].KeyBase64 = encodeBytes(e.Key)
		d.Entries[i].Value, d.Entries[i].ValueBase64 = encodeBytes(e.Value)
	}
	return d
}

// Bytes returns the domain and the entries of d with the bytes that are in requests. The
// error is an ErrBadRequest that names a field that is not valid base64.
func (d Descriptor) Bytes() (domain string, entries []limiter.Entry, err error) {
	if domain, err = decodeBytes("domain", d.Domain, d.DomainBase64); err != nil {
		return "", nil, err
	}
	entries = make([]limiter.Entry, len(d.Entries))
	for i, e := range d.Entries {
		if entries[i].Key, err = decodeBytes("key", e.Key, e.KeyBase64); err == nil {
			entries[i].Value, err = decodeBytes("value", e.Value, e.ValueBase64)
		}
		if err != nil {
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

func encodeBytes(data string) (text, inBase64 string) {
	if utf8.ValidString(data) {
		return data, ""
	}
	return "", base64.StdEncoding.EncodeToString([]byte(data))
}
