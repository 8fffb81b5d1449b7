package operators

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

func validUTF8(s string) string { return strings.ToValidUTF8(strings.Clone(s), "\uFFFD") }

// Begin returns at most the first n bytes of s. It does not split a UTF-8 character.
func Begin(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for end := n; end > n-utf8.UTFMax && end > 0; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:n] // not valid UTF-8
}

// Maximum sizes of texts in an Excerpt, in bytes.
const (
	keptKey   = 64 // of a key or a domain
	keptValue = 128
)

// Excerpt is a request's descriptor, cut to a bounded size, to be shown to people later.
type Excerpt struct {
	Domain  string         `json:"-"`
	Entries []ExcerptEntry `json:"entries"`
	More    int            `json:"more_entries,omitempty"` // number of entries that did not fit
	// All reports whether all descriptors that begin with these entries and match no other rule share the counter.
	All bool `json:"all,omitempty"`
	// Digest is a digest of the counter's key in hexadecimal digits, or empty if nothing is cut.
	// It distinguishes descriptors that are equal up to the cut.
	Digest string `json:"digest,omitempty"`
}

// ExcerptEntry is an entry of an Excerpt.
type ExcerptEntry struct {
	plan.JSONEntry
	Shared bool `json:"shared,omitempty"` // Value is a rule's pattern, and all values that match it share one counter
	Hashed bool `json:"hashed,omitempty"` // Value is a digest, as in the keys of counters
}

// Spell returns x in the syntax of commands. If text is not the request's exact descriptor, lacks says why:
// "cut" if the descriptor was too long, "hash" if a value is a digest, "all" if all descriptors that match
// no other rule share the counter, or "shared" if all values of a pattern share the counter.
func (x *Excerpt) Spell() (text, lacks string) {
	entries := make([]limiter.Entry, len(x.Entries))
	hash, shared := false, false
	for i, e := range x.Entries {
		entries[i], hash, shared = e.Bytes(), hash || e.Hashed, shared || e.Shared
	}
	switch {
	case x.Digest != "":
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

// id returns a text that distinguishes x from other excerpts in the same domain.
func (x *Excerpt) id() string {
	text, _ := json.Marshal(x) // cannot fail: it has only plain fields
	return string(text)
}

// MayHave reports whether the request's descriptor has, or may have, the entry e. The values that matched a
// pattern, and texts that were cut off, are unknown.
func (x *Excerpt) MayHave(e limiter.Entry) bool {
	return slices.ContainsFunc(x.Entries, func(kept ExcerptEntry) bool { return x.mayBe(kept, e) })
}

// mayBe reports whether kept, an entry of x, shows e or may show e.
func (x *Excerpt) mayBe(kept ExcerptEntry, e limiter.Entry) bool {
	got := kept.Bytes()
	return got == e || got.Key == e.Key && (kept.Shared ||
		kept.Hashed && got.Value == string(limiter.AppendDigest(nil, e.Value)) ||
		x.Digest != "" && strings.HasPrefix(e.Value, got.Value))
}

// extends reports whether the request's descriptor begins, or may begin, with the given entries and has more.
func (x *Excerpt) extends(entries []limiter.Entry) bool {
	return len(x.Entries)+x.More > len(entries) && slices.EqualFunc(x.Entries[:min(len(entries), len(x.Entries))], entries, x.mayBe)
}

// Asked is a request's descriptor with the key of its counter.
type Asked struct {
	Domain   string
	Entries  []limiter.Entry
	Patterns []string // shown instead of values, as in limiter.Keys.Append
	Key      []byte   // key of the counter
	Hashed   bool     // show digests instead of values
}

const (
	entryBytes = 12 // size of an entry without its texts
	minValue   = 24 // minimum space for a value, enough for a digest
)

// Excerpt returns an Excerpt of at most size bytes, which must be at least 128. It copies all texts.
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
		x.Entries = append(x.Entries, ExcerptEntry{JSONEntry: plan.NewJSONEntry(key, kept), Shared: shared, Hashed: hashed})
	}
	x.More = len(a.Entries) - len(x.Entries)
	if cut || x.More > 0 {
		digest := sha256.Sum256(a.Key)
		x.Digest = hex.EncodeToString(digest[:8])
	}
	return x
}
