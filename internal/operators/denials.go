package operators

import (
	"hash/maphash"
	"math/bits"
	"slices"
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
	// sketchSize is how many keys are counted in a sub-window.
	sketchSize = 512
	// keySize bounds the text that is kept of a key, in bytes.
	keySize = 256
	// betweenLast is the time in which no more than MaxLast denials are kept one by one: those
	// of a flood are not there long enough to be read.
	betweenLast = 100 * time.Millisecond
)

// Recorder knows which keys were denied most in the last minute and hour, and what was denied
// last, in a bounded number of bytes, however many limits and keys there are. It is safe for
// concurrent use.
type Recorder struct {
	began time.Time // for a monotonic clock
	seed  maphash.Seed

	mu     sync.Mutex
	latest int64 // second since the epoch
	minute [minuteParts]part
	hour   [hourParts]part

	last  []LastDenial // the oldest is the next to be forgotten
	next  int
	burst time.Time // when taken began
	taken int
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
	first, last int64 // in seconds since the epoch
	// shown is nil for a key that took the counter of another and was not denied again: most
	// keys of a flood never are, and to spell them would cost more than to count them. Such a
	// key is not shown.
	shown *Excerpt
}

// NewRecorder returns a Recorder that begins now.
func NewRecorder(now time.Time) *Recorder {
	return &Recorder{began: now, seed: maphash.MakeSeed()}
}

// Record takes a denial, of which it keeps neither bytes nor slices. In a flood of new keys it
// does not allocate.
func (r *Recorder) Record(now time.Time, d *Denial) {
	group, key := r.hash(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	five := r.hour[r.latest/hourSeconds%hourParts].add(group, key, d, r.latest, nil)
	ten := r.minute[r.latest/partSeconds%minuteParts].add(group, key, d, r.latest, five)
	if passed := now.Sub(r.burst); passed >= betweenLast || passed < 0 { // or the clock stepped back
		r.burst, r.taken = now, 0
	}
	if r.taken++; r.taken > MaxLast {
		return
	}
	shown := ten
	if shown == nil {
		shown = new(d.Excerpt(keySize))
	}
	event := LastDenial{At: now.UTC(), Source: sourceOf(d.Limit, d.Shadow), Descriptor: *shown}
	event.Domain = shown.Domain
	if d.RetryAfter != limiter.Never {
		event.RetryAfter = new(d.RetryAfter.Seconds())
	}
	if len(r.last) < MaxLast {
		r.last = append(r.last, event)
		return
	}
	r.last[r.next] = event
	r.next = (r.next + 1) % MaxLast
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

// add counts a denial and returns what is shown of its key, nil if it is not: known, if that
// was spelled already.
func (p *part) add(group, key uint64, d *Denial, now int64, known *Excerpt) *Excerpt {
	full := p.keys.Full()
	c, old := p.keys.Add(group, key)
	v := &c.Value
	if !old {
		v.first, v.shown = now, nil
		if domain := Begin(d.Domain, MaxKey); v.domain != domain {
			v.domain = strings.Clone(domain)
		}
	}
	v.limit, v.shadow, v.last = d.Limit, d.Shadow, now
	if v.shown == nil && (old || !full) {
		if v.shown = known; known == nil {
			v.shown = new(d.Excerpt(keySize))
		}
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

// Denials returns what is known, with so many keys of a limit at most.
func (r *Recorder) Denials(now time.Time, keys int) Denials {
	r.mu.Lock()
	r.advance(now)
	minute, minuteFrom := windowsOf(r.minute[:], r.latest/partSeconds)
	hour, hourFrom := windowsOf(r.hour[:], r.latest/hourSeconds)
	last := slices.Concat(r.last[r.next:], r.last[:r.next])
	r.mu.Unlock()
	slices.Reverse(last)
	d := Denials{At: now.UTC(), Minute: mergeWindows(keys, minute), Hour: mergeWindows(keys, hour), Last: last}
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
		l.Keys = append(l.Keys, KeyDenials{Descriptor: *v.shown, Denied: c.Count, Error: c.Error, First: time.Unix(v.first, 0).UTC(), Last: time.Unix(v.last, 0).UTC()})
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
