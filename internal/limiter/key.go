package limiter

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// Entry is one key and value of a descriptor. Both may contain any bytes.
type Entry struct {
	Key, Value string
}

// Keys builds the keys of counters:
//
//	<prefix>w1|<domain>|<key>=<value>|...|<kind><period>
//
// for example "w1|api|user=alice|path=/login|1m". The period is a whole number of days, hours,
// minutes or seconds, in the largest of these units that divides it, since every byte of a key
// takes memory in Redis. The kind is the letter of the algorithm; a fixed window has none. For a
// calendar window, the period is in units of the calendar, such as 1M for a month, followed by @
// and, unless it is UTC, the time zone. If several limits of a rule would have the same key, the
// kind of the second begins with 2: and the kind of the third with 3:. The key does not contain the
// mode, so a limit in shadow mode keeps its count when it becomes enforced. An x precedes the kind
// of a limit that denies for an exception or an invalid value. Different inputs never have the same
// key, whatever bytes they contain:
//
//   - The bytes % | = ~ # { }, blanks and control characters are written as %XX.
//   - A long key or value is written as # and a 128-bit SHA-256 digest.
//   - If a wildcard's pattern replaces a value, ~ replaces =.
//   - The key of a reservation's record is the key of its counter, # and the reservation's name.
//   - In a key that is still too long, # and one digest replace all parts between w1| and the kind.
//
// In a cluster, a hash tag follows the first entry, {00} to {7F}: the counter's bucket, derived
// from the text between the prefix and the tag. Counters of one bucket share a hash slot and are
// decided in one call. If the first entry names a tenant, the counters of a tenant share a bucket.
//
// w1 is the version of this format and of the stored state. The key does not contain the amount, so
// a counter keeps its count when the amount changes.
type Keys struct {
	Prefix  string // separates deployments on one Redis; must not contain '|'
	Digests bool   // write digests instead of values, for privacy
	Cluster bool   // add hash tags; if set, the prefix must not contain '{'
}

const (
	formatVersion = "w1"
	vetoLetter    = 'x' // different from the letters of algorithms
	nthEnd        = ':'

	maxPart = 64  // longest key or value that is not digested, in bytes
	maxKey  = 512 // longest key between prefix and kind, in bytes

	// buckets is a compromise: fewer buckets let more requests share a call, more buckets load a
	// cluster more evenly. With 32, three primaries would use up to a quarter less CPU, but the
	// busiest of ten would get a quarter more than its share, and no more than 32 primaries would
	// get any requests.
	buckets = 128
)

// Check returns an error if the prefix contains a character that is not allowed.
func (k Keys) Check() error {
	if strings.Contains(k.Prefix, "|") {
		return fmt.Errorf("cache key prefix %q: '|' is not allowed", k.Prefix)
	}
	if k.Cluster && strings.Contains(k.Prefix, "{") {
		return fmt.Errorf("cache key prefix %q: '{' is not allowed in a cluster", k.Prefix)
	}
	return nil
}

// ProbeKey returns the key of a counter that no request uses, for testing a user's permissions
// on keys that start with prefix.
func ProbeKey(prefix string) string { return prefix + formatVersion + "|probe" }

// SharedKey returns the key of shared data other than counters, such as "servers". No counter has
// this key, because the key of a counter has a second |. Keys with the same tag share a hash slot.
func SharedKey(prefix, tag, name string) string {
	return prefix + formatVersion + "|{weir" + tag + "}" + name
}

// SharesSince returns the key at which a Redis stores the time of its first share. In a cluster,
// this key is in the same hash slot as parameter share, the key of a share.
func SharesSince(prefix, share string) string {
	tag := "{weir}"
	if _, rest, ok := strings.Cut(strings.TrimPrefix(share, prefix), "{"); ok { // in a cluster
		tag = "{" + rest[:strings.IndexByte(rest, '}')+1]
	}
	return prefix + formatVersion + "|" + tag + "shares"
}

// Append appends the common beginning of the keys of a descriptor's counters; Spec.AppendKind
// appends the rest. If patterns[i] is not empty, it replaces the value of entries[i]. patterns may
// be shorter than entries, or have one element more, which stands for all further entries.
func (k Keys) Append(dst []byte, domain string, entries []Entry, patterns []string) []byte {
	dst = append(dst, k.Prefix...)
	start, bucket := len(dst), uint32(0)
	dst = append(dst, formatVersion...)
	dst = appendPart(append(dst, '|'), domain, false)
	for i := range max(len(entries), len(patterns)) {
		var e Entry // stands for the extra pattern: no entry of a request has an empty key
		if i < len(entries) {
			e = entries[i]
		}
		dst = appendPart(append(dst, '|'), e.Key, false)
		if i < len(patterns) && patterns[i] != "" {
			dst = appendPart(append(dst, '~'), patterns[i], false)
		} else {
			dst = appendPart(append(dst, '='), e.Value, k.Digests)
		}
		if i == 0 && k.Cluster {
			bucket = crc32.ChecksumIEEE(dst[start:]) % buckets
			dst = appendTag(dst, bucket)
		}
	}
	if len(dst)-start > maxKey {
		digest := sha256.Sum256(dst[start:])
		dst = append(dst[:start], formatVersion+"|#"...)
		dst = appendDigest(dst, digest)
		if k.Cluster {
			dst = appendTag(dst, bucket)
		}
	}
	return append(dst, '|')
}

// appendTag appends the hash tag of a bucket. Two hexadecimal digits spread the buckets more
// evenly over the slots of a cluster than a decimal number does.
func appendTag(dst []byte, bucket uint32) []byte {
	return append(dst, '{', hex[bucket>>4], hex[bucket&15], '}')
}

const hex = "0123456789ABCDEF"

// AppendKind appends the end of the keys of a limit's counters. Limits that must not share a
// counter of one descriptor have different ends.
func (s *Spec) AppendKind(dst []byte) []byte {
	if s.Nth > 0 {
		dst = append(strconv.AppendUint(dst, uint64(s.Nth), 10), nthEnd)
	}
	if s.Veto {
		dst = append(dst, vetoLetter)
	}
	dst = append(dst, algorithms[s.Algorithm].letter...)
	if s.Algorithm == ByCalendar {
		dst = strconv.AppendUint(dst, uint64(max(s.UnitMultiplier, 1)), 10)
		dst = append(dst, "-smhdwMy"[s.Unit], '@') // no other kind has an @
		if s.TimeZone != "UTC" {
			dst = appendPart(dst, s.TimeZone, false)
		}
		return dst
	}
	n, letter := uint64(s.Period()/time.Second), byte('s')
	switch {
	case n%(24*60*60) == 0:
		n, letter = n/(24*60*60), 'd'
	case n%(60*60) == 0:
		n, letter = n/(60*60), 'h'
	case n%60 == 0:
		n, letter = n/60, 'm'
	}
	return append(strconv.AppendUint(dst, n, 10), letter)
}

// AppendShareKind appends the end of the key of a limit whose shares are stored instead of a counter.
func (s *Spec) AppendShareKind(dst []byte) []byte { return append(s.AppendKind(dst), 'q') }

// AppendReservation appends the end of the key of a reservation's record. dst must be the key of
// the counter. name has HoldSize bytes.
func AppendReservation(dst, name []byte) []byte {
	return base64.RawURLEncoding.AppendEncode(append(dst, '#'), name)
}

// isEscaped is true for the bytes that are written as %XX.
var isEscaped = func() (is [256]bool) {
	for c := range is {
		is[c] = c <= ' ' || strings.IndexByte("%|=~#{}\x7f", byte(c)) >= 0
	}
	return is
}()

func appendPart(dst []byte, s string, digest bool) []byte {
	if digest && s != "" || len(s) > maxPart {
		return AppendDigest(dst, s)
	}
	written := 0
	for i := range len(s) {
		if c := s[i]; isEscaped[c] {
			dst = append(append(dst, s[written:i]...), '%', hex[c>>4], hex[c&15])
			written = i + 1
		}
	}
	return append(dst, s[written:]...)
}

// AppendDigest appends the digest that replaces a text in a key.
func AppendDigest(dst []byte, s string) []byte {
	// This avoids a copy of s, whose length may be chosen by a client. The bytes of s are only
	// read.
	return appendDigest(dst, sha256.Sum256(unsafe.Slice(unsafe.StringData(s), len(s))))
}

func appendDigest(dst []byte, digest [sha256.Size]byte) []byte {
	return base64.RawURLEncoding.AppendEncode(append(dst, '#'), digest[:16])
}

// Slots is the number of hash slots of a Redis cluster.
const Slots = 16384

// Slot returns the hash slot of a key in a Redis cluster: the CRC16 of its hash tag, the text
// between the first { and the next }, or of the full key if that text is missing or empty
// (Redis cluster specification, "Hash tags").
func Slot(key []byte) int {
	if _, rest, ok := bytes.Cut(key, []byte("{")); ok {
		if tag, _, ok := bytes.Cut(rest, []byte("}")); ok && len(tag) > 0 {
			key = tag
		}
	}
	return int(crc16(key)) % Slots
}

// crc16 returns the CRC-16/XMODEM checksum: polynomial 0x1021, no reflection, initial value 0.
func crc16(data []byte) uint16 {
	var sum uint16
	for _, b := range data {
		sum ^= uint16(b) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			sum <<= 1
			if carry {
				sum ^= 0x1021
			}
		}
	}
	return sum
}
