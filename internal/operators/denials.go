package operators

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"time"

	"weir/internal/limiter"
	"weir/internal/telemetry/sketch"
)

// Denial is a hit that denied its request, or would have.
type Denial struct {
	Limit *limiter.Limit
	Asked
	RequestID  string        // that Envoy gave the request, "" if it did not send it
	RetryAfter time.Duration // or limiter.Never
	Shadow     bool          // the request was not denied, because of a shadow mode
}

// The sub-windows of a Recorder. The one that is counted in is among them, so a minute is
// the last 50 to 60 seconds.
const (
	partSeconds = 10
	minuteParts = 6
	hourSeconds = 300
	hourParts   = 12
)

const (
	// sketchSize is how many keys are kept of a sub-window.
	sketchSize = 512
	// keySize bounds the text that is kept of a key, requestSize that of a request's ID, in
	// bytes.
	keySize, requestSize = 256, 64
	// spellEvery is the time from one to the next of the new keys that take the counters of
	// others and are spelled: most keys of a flood are never denied again, and to spell them
	// all would cost more than to count them.
	spellEvery = 100 * time.Microsecond
)

// Recorder keeps what was denied in the last minute and hour, by key: how often, when first and
// last, and which request was last. It keeps 512 keys for each ten seconds of the minute and for
// each five minutes of the hour, 9,216 keys in all, of at most 256 bytes each with its domain,
// and takes 12 MiB at most.
//
// Where more keys than that are denied, those stay that are denied often. A flood of random keys
// takes the counters of its own limit only, as far as other limits need theirs, and none of
// earlier minutes. It is safe for concurrent use.
type Recorder struct {
	began time.Time // for a monotonic clock
	seed  maphash.Seed

	mu      sync.Mutex
	latest  int64 // second since the epoch
	minute  [minuteParts]part
	hour    [hourParts]part
	spelled time.Time // the last key that took the counter of another
}

// part is a sub-window, known by its number: seconds since the epoch / its length.
type part struct {
	number int64
	keys   *sketch.Sketch[denied]
}

// denied is what is known of a key besides its denials.
type denied struct {
	limit       *limiter.Limit // of the rules at the last denial
	shadow      bool
	domain      string
	first, last int64         // milliseconds since the epoch
	retryAfter  time.Duration // of the last denial, as request
	request     []byte
	// shown is nil for a key that took the counter of another, was not denied again and not
	// spelled. It is not shown.
	shown *Excerpt
}

// NewRecorder returns a Recorder that begins now.
func NewRecorder(now time.Time) *Recorder {
	return &Recorder{began: now, seed: maphash.MakeSeed()}
}

// Record takes a denial, of which it keeps neither bytes nor slices.
func (r *Recorder) Record(now time.Time, d *Denial) {
	group, key := r.hash(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	five := r.add(&r.hour[r.latest/hourSeconds%hourParts], group, key, now, d, nil)
	r.add(&r.minute[r.latest/partSeconds%minuteParts], group, key, now, d, five)
}

// advance begins the sub-windows of now, unless later ones have begun.
func (r *Recorder) advance(now time.Time) {
	// By a clock that does not step: windows begin at the same time in all processes, as far
	// as their clocks agree at their start.
	r.latest = max(r.latest, r.began.Unix()+int64(max(now.Sub(r.began), 0)/time.Second))
	begin(r.minute[:], r.latest/partSeconds)
	begin(r.hour[:], r.latest/hourSeconds)
}

// begin begins the sub-window with a number, if it has not begun.
func begin(parts []part, number int64) {
	if p := &parts[number%int64(len(parts))]; p.keys == nil || p.number != number {
		*p = part{number, sketch.New[denied](sketchSize)}
	}
}

// add counts a denial in p and returns what is shown of its key, nil if it is not: known, if
// that was spelled already.
func (r *Recorder) add(p *part, group, key uint64, now time.Time, d *Denial, known *Excerpt) *Excerpt {
	full := p.keys.Full()
	c, old := p.keys.Add(group, key)
	v := &c.Value
	if !old {
		v.first, v.shown = now.UnixMilli(), nil
		if domain := Begin(d.Domain, MaxKey); v.domain != domain {
			v.domain = strings.Clone(domain)
		}
	}
	v.limit, v.shadow, v.last, v.retryAfter = d.Limit, d.Shadow, now.UnixMilli(), d.RetryAfter
	v.request = append(v.request[:0], Begin(d.RequestID, requestSize)...)
	switch {
	case v.shown != nil:
	case known != nil:
		v.shown = known
	case old || !full:
		v.shown = new(d.Excerpt(keySize))
	case now.Sub(r.spelled) >= spellEvery:
		r.spelled, v.shown = now, new(d.Excerpt(keySize))
	}
	return v.shown
}

// hash returns what stands for the limit, and for its counter. The seed is not known to
// clients, so they cannot make two keys look like one.
func (r *Recorder) hash(d *Denial) (group, key uint64) {
	group = d.Limit.SeriesHash()
	if d.Shadow {
		group = ^group
	}
	return group, (maphash.Bytes(r.seed, d.Key) ^ bits.RotateLeft64(group, 32)) * 0x9E3779B97F4A7C15
}

// Denials returns what is known, with so many keys of a limit at most. With half of
// ReportedKeys it has a quarter of the last denials, so that a report loses those first.
func (r *Recorder) Denials(now time.Time, keys int) Denials {
	r.mu.Lock()
	r.advance(now)
	minute, minuteFrom := windowsOf(r.minute[:], r.latest/partSeconds)
	hour, hourFrom := windowsOf(r.hour[:], r.latest/hourSeconds)
	r.mu.Unlock()
	d := Denials{At: now.UTC(), Minute: mergeWindows(minute), Hour: mergeWindows(hour)}
	d.Last = d.Hour.last()
	d.Last = d.Last[:min(len(d.Last), MaxLast*keys*keys/(ReportedKeys*ReportedKeys))]
	d.cut(keys)
	d.Minute.From = time.Unix(max(minuteFrom*partSeconds, r.began.Unix()), 0).UTC()
	d.Hour.From = time.Unix(max(hourFrom*hourSeconds, r.began.Unix()), 0).UTC()
	return d
}

// windowsOf shows the sub-windows that have not passed, and returns the number of the first.
func windowsOf(parts []part, current int64) (windows []Window, from int64) {
	from = current - int64(len(parts)) + 1
	for i := range parts {
		if p := &parts[i]; p.keys != nil && p.number >= from {
			windows = append(windows, p.window())
		}
	}
	return windows, from
}

// window shows all that is known of a sub-window.
func (p *part) window() Window {
	w := Window{OthersAtMost: p.keys.Floor}
	limits := make(map[uint64]*LimitDenials, len(p.keys.Groups))
	for i := range p.keys.Counters {
		c := &p.keys.Counters[i]
		v := &c.Value
		l := limits[c.Group]
		if l == nil {
			g := p.keys.Groups[c.Group]
			l = &LimitDenials{Source: sourceOf(v.limit, v.shadow), Denied: g.Count, Error: g.Error, OthersAtMost: g.Floor}
			l.Domain = validUTF8(v.domain)
			limits[c.Group] = l
		}
		if v.shown == nil {
			l.OthersAtMost = max(l.OthersAtMost, c.Count)
			continue
		}
		k := KeyDenials{
			Descriptor: *v.shown, Denied: c.Count, Error: c.Error,
			First: time.UnixMilli(v.first).UTC(), Last: time.UnixMilli(v.last).UTC(), RequestID: validUTF8(string(v.request)),
		}
		if v.retryAfter != limiter.Never {
			k.retryAfter = new(v.retryAfter.Seconds())
		}
		l.Keys = append(l.Keys, k)
	}
	for _, l := range limits {
		w.Limits = append(w.Limits, *l)
	}
	return w
}

func sourceOf(l *limiter.Limit, shadow bool) Source {
	labels := l.Series.Labels()
	return Source{Domain: labels.Domain, Rule: labels.Rule, Limit: labels.Limit, Rate: l.Rate(), Shadow: shadow, Series: l.Series}
}
