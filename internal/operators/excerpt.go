package operators

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"weir/internal/limiter"
	"weir/internal/offline/explain"
)

// How many bytes are kept of a key or a domain, and of a value.
const (
	MaxKey   = 64
	MaxValue = 128
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

// ExcerptEntry is a key and a value. Bytes that are no UTF-8 are U+FFFD in Key and Value, and
// then Base64 holds the exact ones. Bytes is the length of what is cut.
type ExcerptEntry struct {
	Key         string `json:"key"`
	KeyBase64   string `json:"key_base64,omitempty"`
	KeyBytes    int    `json:"key_bytes,omitempty"`
	Value       string `json:"value"`
	ValueBase64 string `json:"value_base64,omitempty"`
	ValueBytes  int    `json:"value_bytes,omitempty"`
	// Shared reports whether Value is the wildcard of a rule whose values share one counter.
	Shared bool `json:"shared,omitempty"`
	// Hashed reports whether Value is a digest, spelled as in the keys of counters.
	Hashed bool `json:"hashed,omitempty"`
}

// Bytes returns what is kept of the key and the value, with the bytes of the request. It
// fails if another server sent invalid base64.
func (e *ExcerptEntry) Bytes() (limiter.Entry, error) {
	key, err := decodeBytes("key", e.Key, e.KeyBase64)
	if err != nil {
		return limiter.Entry{}, err
	}
	value, err := decodeBytes("value", e.Value, e.ValueBase64)
	return limiter.Entry{Key: key, Value: value}, err
}

// Spell returns x as commands take it, and what keeps it from being the descriptor that was
// asked for: "cut", if only the start is known; "hash", if a value is a digest; "all", if the
// counter is that of all descriptors that no other rule matches; "shared", if it is that of
// all values that match; "" if it is that descriptor.
func (x *Excerpt) Spell() (text, lacks string) {
	entries := make([]limiter.Entry, len(x.Entries))
	cut, hash, shared := x.More > 0 || x.Digest != "", false, false
	for i := range x.Entries {
		e := &x.Entries[i]
		var err error
		entries[i], err = e.Bytes()
		cut = cut || err != nil || e.KeyBytes > 0 || e.ValueBytes > 0
		hash, shared = hash || e.Hashed, shared || e.Shared
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

// Asked is a descriptor of a request.
type Asked struct {
	Domain   string
	Entries  []limiter.Entry
	Patterns []string // instead of values where they are not empty; may be shorter than Entries, and longer for a rule without key
	Key      []byte   // of the counter
	Hashed   bool     // show digests instead of values
}

const (
	// entryBytes is what an entry takes besides its text.
	entryBytes = 12
	// minValue is room for a digest of a value, or the start of one.
	minValue = 24
)

// Excerpt returns what fits in size bytes, 128 or more. It holds nothing of the request.
func (a *Asked) Excerpt(size int) Excerpt {
	x := Excerpt{All: len(a.Patterns) > len(a.Entries), Domain: validUTF8(Begin(a.Domain, MaxKey)), Entries: make([]ExcerptEntry, 0, min(len(a.Entries), size/(entryBytes+minValue)))}
	cut := len(a.Domain) > MaxKey
	room := size - entryBytes - min(len(a.Domain), MaxKey)
	for i, from := range a.Entries {
		var e ExcerptEntry
		room -= entryBytes
		if room < min(len(from.Key), MaxKey)+minValue {
			break
		}
		e.Key, e.KeyBase64, e.KeyBytes = keep(from.Key, MaxKey)
		room -= min(len(from.Key), MaxKey)
		value := from.Value
		switch {
		case i < len(a.Patterns) && a.Patterns[i] != "":
			e.Shared, value = true, a.Patterns[i]
		case a.Hashed && value != "":
			e.Hashed, value = true, string(limiter.AppendDigest(nil, value))
		}
		e.Value, e.ValueBase64, e.ValueBytes = keep(value, min(MaxValue, room))
		room -= min(len(value), MaxValue)
		cut = cut || e.KeyBytes > 0 || e.ValueBytes > 0
		x.Entries = append(x.Entries, e)
	}
	x.More = len(a.Entries) - len(x.Entries)
	if cut || x.More > 0 {
		digest := sha256.Sum256(a.Key)
		x.Digest = hex.EncodeToString(digest[:8])
	}
	return x
}

// keep returns at most n bytes of s as text, in base64 if that is not exact, and how long s is
// if it is cut.
func keep(s string, n int) (text, exact string, all int) {
	kept := Begin(s, n)
	if len(kept) < len(s) {
		all = len(s)
	}
	if utf8.ValidString(kept) {
		return strings.Clone(kept), "", all
	}
	return validUTF8(kept), base64.StdEncoding.EncodeToString([]byte(kept)), all
}

func validUTF8(s string) string { return strings.ToValidUTF8(strings.Clone(s), "\uFFFD") }

// Begin returns at most n bytes of s, whole characters only.
func Begin(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n]
	for i := len(s) - 1; i >= max(0, len(s)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i]
			}
			break
		}
	}
	return s
}
