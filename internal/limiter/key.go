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

// Entry is one key and value of a descriptor, any bytes.
type Entry struct {
	Key, Value string
}

// Keys spells the keys of counters:
//
//	<prefix>w1|<domain>|<key>=<value>|...|<kind><period>
//
// for example "w1|api|user=alice|path=/login|1m". The period is a number of days, hours,
// minutes or seconds, the first of these that it is whole of, since in Redis' memory every byte
// of a key counts. The kind is the letter of the algorithm, which a fixed window does not have.
// A window of a calendar has units of the calendar instead, as in 1M for a month, a @ and the
// time zone unless that is UTC. Of the limits of a rule that count alike, the second has 2:
// before all that, the third 3:, whatever their modes are: so a trial that is enforced, or
// takes the place of the first, keeps a count. A denial by an exception or an invalid value has an
// x. No two different inputs meet in one key, whatever bytes they hold:
//
//   - The bytes % | = ~ # { }, blanks and control characters are written as %XX.
//   - A long key or value is written as # and a 128-bit SHA-256 digest.
//   - Where a wildcard's pattern stands for all its values, ~ stands for =.
//   - A key that is still long holds # and one digest of all its parts but prefix and kind.
//
// In a cluster the first entry is followed by a hash tag, {00} to {7F}: the
// bucket of the counter, which follows from all that stands before the tag but
// the prefix. Counters of one bucket are on one hash slot and decided in one
// call; so are all counters of a tenant whose name is the first entry.
//
// w1 is the version of this spelling and of the state stored under it. The
// amount of a limit is not in its key: a changed amount keeps the count.
type Keys struct {
	prefix string
	digest bool
	tagged bool // for a cluster
}

const (
	formatVersion = "w1"
	vetoLetter    = 'x' // beside those of algorithms
	nthEnd        = ':'

	maxPart = 64  // longest key or value that is spelled out, in bytes
	maxKey  = 512 // longest key between prefix and kind, in bytes

	// buckets is a compromise: the fewer there are, the more requests share a
	// call; the more, the more evenly a cluster is loaded. With 32, three primaries
	// would use up to a quarter less CPU, but the busiest of ten would get a quarter
	// more than its share, and no more than 32 would get any.
	buckets = 128
)

// NewKeys spells keys that start with prefix, which keeps deployments apart that share a Redis
// and may not contain '|'. With digestValues no value is readable in a key, for privacy.
func NewKeys(prefix string, digestValues bool) (Keys, error) {
	if strings.Contains(prefix, "|") {
		return Keys{}, fmt.Errorf("cache key prefix %q: '|' is not allowed", prefix)
	}
	return Keys{prefix: prefix, digest: digestValues}, nil
}

// ProbeKey is the key of a counter that no request has: it tries what a user may do
// with keys that start with prefix.
func ProbeKey(prefix string) string { return prefix + formatVersion + "|probe" }

// SharedKey is a key of what processes share beside counters, such as "servers". No counter has
// it: the keys of those have another |. All of these keys have one slot of a cluster.
func SharedKey(prefix, name string) string { return prefix + formatVersion + "|{weir}" + name }

// InBuckets returns k with hash tags, for a cluster. The prefix may not hold a tag of its own.
func (k Keys) InBuckets() (Keys, error) {
	if strings.Contains(k.prefix, "{") {
		return Keys{}, fmt.Errorf("cache key prefix %q: '{' is not allowed in a cluster", k.prefix)
	}
	k.tagged = true
	return k, nil
}

// DigestsValues reports whether keys hold digests instead of values.
func (k Keys) DigestsValues() bool { return k.digest }

// Append appends what the keys of all counters of a descriptor begin with; the kind of a
// limit ends them, see Spec.AppendKind. Where patterns[i] is not empty, it replaces the value of
// entries[i]; patterns may be shorter than entries, or have one more, which stands for all
// further entries.
func (k Keys) Append(dst []byte, domain string, entries []Entry, patterns []string) []byte {
	dst = append(dst, k.prefix...)
	start, bucket := len(dst), uint32(0)
	dst = append(dst, formatVersion...)
	dst = appendPart(append(dst, '|'), domain, false)
	for i := range max(len(entries), len(patterns)) {
		var e Entry // no entry of a request has an empty key
		if i < len(entries) {
			e = entries[i]
		}
		dst = appendPart(append(dst, '|'), e.Key, false)
		if i < len(patterns) && patterns[i] != "" {
			dst = appendPart(append(dst, '~'), patterns[i], false)
		} else {
			dst = appendPart(append(dst, '='), e.Value, k.digest)
		}
		if i == 0 && k.tagged {
			bucket = crc32.ChecksumIEEE(dst[start:]) % buckets
			dst = appendTag(dst, bucket)
		}
	}
	if len(dst)-start > maxKey {
		digest := sha256.Sum256(dst[start:])
		dst = append(dst[:start], formatVersion+"|#"...)
		dst = appendDigest(dst, digest)
		if k.tagged {
			dst = appendTag(dst, bucket)
		}
	}
	return append(dst, '|')
}

// appendTag appends the hash tag of a bucket. Two hexadecimal digits spread the
// buckets more evenly over the slots of a cluster than a plain number does.
func appendTag(dst []byte, bucket uint32) []byte {
	return append(dst, '{', hex[bucket>>4], hex[bucket&15], '}')
}

const hex = "0123456789ABCDEF"

// AppendKind appends the end of the keys of a limit's counters. It distinguishes
// counters of one descriptor that cannot be read as each other.
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
		dst = append(dst, "-smhdwMy"[s.Unit], '@') // other kinds have no @
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

// isEscaped has the bytes that are written as %XX.
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

// AppendDigest appends what stands for a text in a key that does not show it.
func AppendDigest(dst []byte, s string) []byte {
	// The bytes of s are only read: a copy would be as long as the request likes.
	return appendDigest(dst, sha256.Sum256(unsafe.Slice(unsafe.StringData(s), len(s))))
}

func appendDigest(dst []byte, digest [sha256.Size]byte) []byte {
	return base64.RawURLEncoding.AppendEncode(append(dst, '#'), digest[:16])
}

// Slots is the number of hash slots of a Redis cluster.
const Slots = 16384

// Slot returns the hash slot of a key in a Redis cluster: the CRC16 of its hash tag,
// the text between the first { and the next }, or of the whole key if there is
// no such text (Redis cluster specification, "Hash tags").
func Slot(key []byte) int {
	if _, rest, ok := bytes.Cut(key, []byte("{")); ok {
		if tag, _, ok := bytes.Cut(rest, []byte("}")); ok && len(tag) > 0 {
			key = tag
		}
	}
	return int(crc16(key)) % Slots
}

// crc16 returns the CRC-16/XMODEM checksum: polynomial 0x1021, no reflection, from 0.
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
