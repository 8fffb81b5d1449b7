package operators

import (
	"hash/maphash"
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

const (
	hourParts   = 12  // sub-windows of five minutes
	sketchSize  = 512 // keys that are kept of a sub-window
	keySize     = 256 // bytes that are kept of a key
	requestSize = 64  // and of a request's ID
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

	mu           sync.Mutex
	latest       int64 // second since the epoch
	minute, hour parts
}

// parts are the sub-windows of a window. The one that is counted in is among them, so a minute
// is the last 50 to 60 seconds.
type parts struct {
	seconds int64 // of each
	ring    []part
}

// part is a sub-window, known by its number: seconds since the epoch / its length.
type part struct {
	number int64
	keys   *sketch.Sketch[denied] // nil if there are none
}

// denied is what is known of a key besides its denials.
type denied struct {
	shown       Excerpt
	limit       *limiter.Limit // of the rules at the last denial
	shadow      bool
	first, last int64         // milliseconds since the epoch
	retryAfter  time.Duration // of the last denial, as request
	request     []byte
}

// NewRecorder returns a Recorder that begins now.
func NewRecorder(now time.Time) *Recorder {
	return &Recorder{began: now, seed: maphash.MakeSeed(), minute: parts{10, make([]part, 6)}, hour: parts{300, make([]part, hourParts)}}
}

// advance goes on to now, by a clock that does not step: windows begin at the same time in all
// processes, as far as their clocks agree at their start.
func (r *Recorder) advance(now time.Time) {
	r.latest = max(r.latest, r.began.Unix()+int64(max(now.Sub(r.began), 0)/time.Second))
}

// Record takes a denial, of which it keeps neither bytes nor slices.
func (r *Recorder) Record(now time.Time, d *Denial) {
	// The seed is not known to clients, so they cannot make two keys look like one.
	group := maphash.String(r.seed, string(d.Limit.Series))
	if d.Shadow {
		group = ^group
	}
	key := group ^ maphash.Bytes(r.seed, d.Key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	for _, window := range []*parts{&r.minute, &r.hour} {
		number := r.latest / window.seconds
		p := &window.ring[number%int64(len(window.ring))]
		if p.keys == nil || p.number != number {
			*p = part{number, sketch.New[denied](sketchSize)}
		}
		c, known := p.keys.Add(group, key)
		v := &c.Value
		if !known {
			v.shown, v.first = d.Excerpt(keySize), now.UnixMilli()
		}
		v.limit, v.shadow, v.last, v.retryAfter = d.Limit, d.Shadow, now.UnixMilli(), d.RetryAfter
		v.request = append(v.request[:0], Begin(d.RequestID, requestSize)...)
	}
}

// Denials returns all that is known, but for the last denials and where the rules are written.
func (r *Recorder) Denials(now time.Time) Denials {
	r.mu.Lock()
	r.advance(now)
	minute, hour := r.windows(&r.minute), r.windows(&r.hour)
	r.mu.Unlock()
	return Denials{At: now.UTC(), Minute: mergeWindows(minute), Hour: mergeWindows(hour)}
}

// windows shows the sub-windows that have not passed. All begin with the first of them.
func (r *Recorder) windows(ps *parts) []Window {
	first := r.latest/ps.seconds - int64(len(ps.ring)) + 1
	from := time.Unix(max(first*ps.seconds, r.began.Unix()), 0).UTC()
	windows := []Window{{From: from}}
	for i := range ps.ring {
		if p := &ps.ring[i]; p.keys != nil && p.number >= first {
			windows = append(windows, p.window(from))
		}
	}
	return windows
}

// window shows all that is known of a sub-window.
func (p *part) window(from time.Time) Window {
	w := Window{From: from, OthersAtMost: p.keys.Floor}
	places := map[uint64]int{} // in w.Limits, by group
	for i := range p.keys.Counters {
		c := &p.keys.Counters[i]
		v := &c.Value
		place, known := places[c.Group]
		if !known {
			place = len(w.Limits)
			places[c.Group] = place
			g, labels := p.keys.Groups[c.Group], v.limit.Series.Labels()
			w.Limits = append(w.Limits, LimitDenials{Denied: g.Count, Error: g.Error, OthersAtMost: g.Floor, Source: Source{
				Domain: v.shown.Domain, Rule: labels.Rule, Limit: labels.Limit, Rate: v.limit.Rate(), Shadow: v.shadow, Series: v.limit.Series,
			}})
		}
		k := KeyDenials{Denied: c.Count, Error: c.Error, Key: Key{
			Descriptor: v.shown, First: time.UnixMilli(v.first).UTC(), Last: time.UnixMilli(v.last).UTC(),
			RequestID: validUTF8(string(v.request)), RetryAfter: seconds(v.retryAfter),
		}}
		w.Limits[place].Keys = append(w.Limits[place].Keys, k)
	}
	return w
}
