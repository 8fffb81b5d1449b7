package operators

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/limiter"
	"weir/internal/plan/explain"
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

// How many bytes are kept of a key or a domain, and of a value.
const (
	keptKey   = 64
	keptValue = 128
)

// Excerpt is what is kept of a descriptor of a request, which may hold any bytes and any
// number of them, to show it to people later.
type Excerpt struct {
	Domain  string         `json:"-"`
	Entries []ExcerptEntry `json:"entries"`
	More    int            `json:"more_entries,omitempty"` // that did not fit
	// All reports whether all descriptors that begin with Entries, and that no other rule
	// matches, share the counter.
	All bool `json:"all,omitempty"`
	// Digest is of the counter's key where something is cut, in hexadecimal digits: it
	// tells apart descriptors whose texts begin alike.
	Digest string `json:"digest,omitempty"`
}

// ExcerptEntry is what is kept of an entry.
type ExcerptEntry struct {
	Entry
	Shared bool `json:"shared,omitempty"` // Value is the wildcard of a rule whose values share one counter
	Hashed bool `json:"hashed,omitempty"` // Value is a digest, spelled as in the keys of counters
}

// Spell returns x as commands take it, and what keeps it from being the descriptor that was
// asked for: "cut", if only the start is known; "hash", if a value is a digest; "all", if the
// counter is that of all descriptors that no other rule matches; "shared", if it is that of
// all values that match; "" if it is that descriptor.
func (x *Excerpt) Spell() (text, lacks string) {
	entries := make([]limiter.Entry, len(x.Entries))
	cut, hash, shared := x.Digest != "", false, false
	for i := range x.Entries {
		e := &x.Entries[i]
		var err error
		entries[i], err = e.Bytes()
		cut, hash, shared = cut || err != nil, hash || e.Hashed, shared || e.Shared
	}
	switch {
	case cut:
		lacks = "cut"
	case hash:
		lacks = "hash"
	case x.All || len(entries) == 0:
		lacks = "all"
	case shared:
		lacks = "shared"
	}
	return explain.FormatDescriptor(entries), lacks
}

// MayHave reports whether the descriptor that was asked for may have an entry: where a value is
// shared by all that match, or the excerpt is cut, nobody knows.
func (x *Excerpt) MayHave(e limiter.Entry) bool {
	return slices.ContainsFunc(x.Entries, func(kept ExcerptEntry) bool {
		got, _ := kept.Bytes() // as far as it can be read
		return got == e || got.Key == e.Key && (kept.Shared ||
			kept.Hashed && got.Value == string(limiter.AppendDigest(nil, e.Value)) ||
			x.Digest != "" && strings.HasPrefix(e.Value, got.Value))
	})
}

// Asked is a descriptor of a request.
type Asked struct {
	Domain   string
	Entries  []limiter.Entry
	Patterns []string // instead of values where they are not empty; may be shorter than Entries, and longer for a rule without key
	Key      []byte   // of the counter
	Hashed   bool     // show digests instead of values
}

const (
	entryBytes = 12 // that an entry takes besides its text
	minValue   = 24 // room for a digest of a value, or the start of one
)

// Excerpt returns what fits in size bytes, 128 or more. It holds nothing of the request.
func (a *Asked) Excerpt(size int) Excerpt {
	x := Excerpt{
		Domain: validUTF8(Begin(a.Domain, keptKey)), All: len(a.Patterns) > len(a.Entries),
		Entries: make([]ExcerptEntry, 0, min(len(a.Entries), size/(entryBytes+minValue))),
	}
	cut := len(a.Domain) > keptKey
	room := size - entryBytes - min(len(a.Domain), keptKey)
	for i, from := range a.Entries {
		key, value := Begin(from.Key, keptKey), from.Value
		if room -= entryBytes + len(key); room < minValue {
			break
		}
		shared := i < len(a.Patterns) && a.Patterns[i] != ""
		hashed := !shared && a.Hashed && value != ""
		if shared {
			value = a.Patterns[i]
		} else if hashed {
			value = string(limiter.AppendDigest(nil, value))
		}
		kept := Begin(value, min(keptValue, room))
		room -= len(kept)
		cut = cut || len(key) < len(from.Key) || len(kept) < len(value)
		x.Entries = append(x.Entries, ExcerptEntry{Entry: newEntry(key, kept), Shared: shared, Hashed: hashed})
	}
	x.More = len(a.Entries) - len(x.Entries)
	if cut || x.More > 0 {
		digest := sha256.Sum256(a.Key)
		x.Digest = hex.EncodeToString(digest[:8])
	}
	return x
}
