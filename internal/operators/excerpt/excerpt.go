// Package excerpt keeps of a descriptor what fits in a bounded number of bytes, to
// show it to people later. Requests may hold any bytes, and any number of them: JSON of
// an Entry is valid, short and exact where it is not cut.
package excerpt

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"weir/internal/limiter"
)

// How many bytes are kept of a key or a domain, and of a value.
const (
	MaxKey   = 64
	MaxValue = 128
)

// Descriptor is what is kept of a descriptor.
type Descriptor struct {
	Domain  string  `json:"-"`
	Entries []Entry `json:"entries"`
	More    int     `json:"more_entries,omitempty"` // that did not fit
	// Digest is of the counter's key where something is cut, in hexadecimal digits: it
	// tells apart descriptors whose texts begin alike.
	Digest string `json:"digest,omitempty"`
}

// Entry is a key and a value. Bytes that are no UTF-8 are U+FFFD in Key and Value, and
// then Base64 holds the exact ones. Bytes is the length of what is cut.
type Entry struct {
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
// fails if another server sent what is no base64.
func (e *Entry) Bytes() (limiter.Entry, error) {
	key, err := original(e.Key, e.KeyBase64)
	if err != nil {
		return limiter.Entry{}, err
	}
	value, err := original(e.Value, e.ValueBase64)
	return limiter.Entry{Key: key, Value: value}, err
}

// original returns the bytes that text stands for, which inBase64 holds if it is set.
func original(text, inBase64 string) (string, error) {
	if inBase64 == "" {
		return text, nil
	}
	b, err := base64.StdEncoding.DecodeString(inBase64)
	return string(b), err
}

// Source is a descriptor of a request.
type Source struct {
	Domain   string
	Entries  []limiter.Entry
	Patterns []string // instead of values where they are not empty; may be shorter than Entries
	Key      []byte   // of the counter
	Hashed   bool     // show digests instead of values
}

// What the flags of an entry say.
const (
	shared = 1 << iota
	hashed
)

// Append appends s in a form that Read understands, of at most size bytes, which must be
// 128 or more. It does not allocate if dst has room.
//
// The form is one byte with the number of entries that are kept, a uvarint with the
// number of all, and the domain; for each entry a byte of flags, key and value. Each text
// is a uvarint with its whole length, a byte with the kept one, and the bytes. If
// something is cut, eight bytes of a digest come last.
func (s *Source) Append(dst []byte, size int) []byte {
	start, kept := len(dst), 0
	end := start + size - digestSize
	dst = append(dst, 0)
	dst = binary.AppendUvarint(dst, uint64(len(s.Entries)))
	dst, cut := appendText(dst, s.Domain, MaxKey)
	for i, e := range s.Entries {
		const overhead = 1 + 2*(binary.MaxVarintLen32+1)
		room := end - len(dst) - overhead
		if room < min(len(e.Key), MaxKey)+minValue {
			break
		}
		var keyCut, valueCut bool
		flags := len(dst)
		dst = append(dst, 0)
		dst, keyCut = appendText(dst, e.Key, MaxKey)
		room -= min(len(e.Key), MaxKey)
		switch {
		case i < len(s.Patterns) && s.Patterns[i] != "":
			dst[flags] = shared
			dst, valueCut = appendText(dst, s.Patterns[i], min(MaxValue, room))
		case s.Hashed && e.Value != "":
			dst[flags] = hashed
			dst = appendHashed(dst, e.Value)
		default:
			dst, valueCut = appendText(dst, e.Value, min(MaxValue, room))
		}
		cut = cut || keyCut || valueCut
		kept++
	}
	dst[start] = byte(kept)
	if cut || kept < len(s.Entries) {
		digest := sha256.Sum256(s.Key)
		dst = append(dst, digest[:digestSize]...)
	}
	return dst
}

const (
	digestSize = 8
	minValue   = 24 // room for a digest of a value, or the begin of one
)

// appendText appends at most n bytes of s, and reports whether it is cut.
func appendText(dst []byte, s string, n int) (_ []byte, cut bool) {
	if len(s) <= n && len(s) < 0x80 { // as usual
		return append(append(dst, byte(len(s)), byte(len(s))), s...), false
	}
	kept := Begin(s, n)
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	dst = append(dst, byte(len(kept)))
	return append(dst, kept...), len(kept) < len(s)
}

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

// appendHashed appends the digest of value as a text.
func appendHashed(dst []byte, value string) []byte {
	start := len(dst)
	dst = append(dst, 0, 0) // the lengths, below 128
	dst = limiter.AppendDigest(dst, value)
	n := byte(len(dst) - start - 2)
	dst[start], dst[start+1] = n, n
	return dst
}

// Read returns what Append has written.
func Read(b []byte) (d Descriptor) {
	if len(b) == 0 {
		return Descriptor{}
	}
	kept := int(b[0])
	all, n := binary.Uvarint(b[1:])
	r := reader{b[1+n:]}
	domain, _ := r.text()
	d.Domain = strings.ToValidUTF8(string(domain), "\uFFFD")
	d.Entries = make([]Entry, kept)
	for i := range d.Entries {
		e := &d.Entries[i]
		flags := r.rest[0]
		r.rest = r.rest[1:]
		e.Shared, e.Hashed = flags&shared != 0, flags&hashed != 0
		text, bytes := r.text()
		e.Key, e.KeyBase64 = show(text)
		e.KeyBytes = ifCut(text, bytes)
		text, bytes = r.text()
		e.Value, e.ValueBase64 = show(text)
		e.ValueBytes = ifCut(text, bytes)
	}
	d.More = int(all) - kept
	d.Digest = hex.EncodeToString(r.rest)
	return d
}

type reader struct{ rest []byte }

// text returns what is kept of a text, and its whole length.
func (r *reader) text() (text []byte, all int) {
	whole, n := binary.Uvarint(r.rest)
	kept := int(r.rest[n])
	text, r.rest = r.rest[n+1:n+1+kept], r.rest[n+1+kept:]
	return text, int(whole)
}

func ifCut(text []byte, all int) int {
	if len(text) == all {
		return 0
	}
	return all
}

// show returns b as text and, if that is not exact, in base64.
func show(b []byte) (text, exact string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), base64.StdEncoding.EncodeToString(b)
}
