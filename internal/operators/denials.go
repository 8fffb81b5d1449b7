package operators

import (
	"cmp"
	"encoding/json"
	"hash/maphash"
	"slices"
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

// Denials is what was denied lately. Its numbers count hits that were denied, whatever they cost.
type Denials struct {
	At     time.Time `json:"at"`
	Minute Window    `json:"minute"`
	Hour   Window    `json:"hour"`
	// Last are the last denials of the hour, newest first, those of one key and limit as one.
	Last    []LastDenial `json:"last"`
	Servers int          `json:"servers,omitempty"` // that it is of, 0 if the server does not say
}

// Window is what was denied from a time on, the limits that denied most first. From is no
// time before the recorder began.
type Window struct {
	From         time.Time      `json:"from"`
	Limits       []LimitDenials `json:"limits"`
	OthersAtMost uint64         `json:"others_at_most"` // denials of a limit that is not in Limits
}

// Source says which limit denied.
type Source struct {
	Domain   string `json:"domain"`
	Rule     string `json:"rule"`               // the keys and values that lead to it; "override" for limits of requests
	Location string `json:"location,omitempty"` // where the rule is written, if it still serves
	Limit    string `json:"limit"`              // its name, or how it counts
	Rate     string `json:"rate"`               // such as "5 per minute"
	Shadow   bool   `json:"shadow,omitempty"`   // nothing was denied, because of a shadow mode

	Series limiter.Series `json:"-"`
}

// LimitDenials is what one limit denied, the keys that were denied most first.
type LimitDenials struct {
	Source
	Denied       uint64       `json:"denied"` // at most
	Error        uint64       `json:"error"`  // by how many Denied may be too large
	Keys         []KeyDenials `json:"keys"`
	OthersAtMost uint64       `json:"others_at_most"` // denials of a key that is not in Keys
}

// Key is a descriptor that was denied by a limit, and when.
type Key struct {
	Descriptor Excerpt   `json:"descriptor"`
	First      time.Time `json:"first"` // denial that is known
	Last       time.Time `json:"last"`
	RequestID  string    `json:"request_id,omitempty"` // of the last, if Envoy sent it
	RetryAfter *float64  `json:"retry_after"`          // in seconds after the last, nil if no waiting helps
}

// KeyDenials is how often a key was denied: from Denied - Error to Denied times.
type KeyDenials struct {
	Key
	Denied uint64 `json:"denied"`
	Error  uint64 `json:"error"`
}

// LastDenial is the last denial of a key by a limit, and those before it.
type LastDenial struct {
	Source
	Key
	Count uint64 `json:"count"` // of the denials since First
}

// How much Denials show at most.
const (
	maxLimits = 100
	maxKeys   = 10 // of a limit
	maxLast   = hourParts * sketchSize
)

// limits returns those of both windows.
func (d *Denials) limits() (all []*LimitDenials) {
	for _, w := range []*Window{&d.Minute, &d.Hour} {
		for i := range w.Limits {
			all = append(all, &w.Limits[i])
		}
	}
	return all
}

// locate fills in where the rules are written. find is called once, with the series of
// the limits as keys, and fills in the places.
func (d *Denials) locate(find func(places map[limiter.Series]string)) {
	places := make(map[limiter.Series]string)
	for _, l := range d.limits() {
		places[l.Series] = ""
	}
	find(places)
	for _, l := range d.limits() {
		l.Location = places[l.Series]
	}
}

// cutLimits leaves the limits of each window that denied most. The others add to its error.
func (d *Denials) cutLimits() {
	for _, w := range []*Window{&d.Minute, &d.Hour} {
		if len(w.Limits) > maxLimits {
			w.OthersAtMost = max(w.OthersAtMost, w.Limits[maxLimits].Denied)
			w.Limits = w.Limits[:maxLimits]
		}
	}
}

// fit cuts limits, and keys of each limit, until d has size bytes as JSON, or no keys.
func (d *Denials) fit(size int) {
	d.cutLimits()
	limits := d.limits()
	for _, l := range limits {
		size -= jsonSize(LimitDenials{Source: l.Source})
	}
	for keys := range maxLast { // the first key of each limit, then the second
		for _, l := range limits {
			if keys < len(l.Keys) {
				size -= jsonSize(l.Keys[keys])
			}
		}
		if size < 0 {
			d.cutKeys(keys)
			return
		}
	}
}

// jsonSize returns the length of v as JSON, about.
func jsonSize(v any) int {
	text, _ := json.Marshal(v) // which has nothing that JSON has not
	return len(text) + 1
}

// cutKeys leaves so many keys of each limit.
func (d *Denials) cutKeys(most int) {
	for _, l := range d.limits() {
		if len(l.Keys) > most {
			l.OthersAtMost = max(l.OthersAtMost, l.Keys[most].Denied)
			l.Keys = l.Keys[:most]
		}
	}
}

// mergeDenials returns what several servers saw denied: the sums of their numbers, and of
// their errors.
func mergeDenials(all ...Denials) Denials {
	merged := Denials{Servers: len(all), Last: []LastDenial{}}
	var minutes, hours []Window
	for _, d := range all {
		if d.At.After(merged.At) {
			merged.At = d.At
		}
		minutes, hours = append(minutes, d.Minute), append(hours, d.Hour)
	}
	merged.Minute, merged.Hour = mergeWindows(minutes), mergeWindows(hours)
	for _, l := range merged.Hour.Limits {
		for _, k := range l.Keys {
			merged.Last = append(merged.Last, LastDenial{l.Source, k.Key, k.Denied - k.Error})
		}
	}
	slices.SortStableFunc(merged.Last, func(a, b LastDenial) int { return b.Last.Compare(a.Last) })
	merged.Last = merged.Last[:min(len(merged.Last), maxLast)]
	merged.cutLimits()
	merged.cutKeys(maxKeys)
	return merged
}

// mergeWindows adds what was denied in windows of several times or servers (Agarwal et al.:
// Mergeable Summaries, 2012). What one of them does not list may have been denied there as
// often as it says of others, and adds so much to the error. It begins when the first does.
func mergeWindows(windows []Window) Window {
	merged := Window{Limits: []LimitDenials{}}
	for i := range windows {
		merged.OthersAtMost += windows[i].OthersAtMost
		merged.From = earlier(merged.From, windows[i].From)
	}
	type key struct {
		limit      Source
		descriptor string
	}
	limits, places := map[Source]*LimitDenials{}, map[key]int{} // places in Keys
	for i := range windows {
		for j := range windows[i].Limits {
			l, unlisted := &windows[i].Limits[j], windows[i].OthersAtMost
			name := l.Source
			name.Location, name.Rate, name.Series = "", "", "" // they may differ while servers load new rules
			m := limits[name]
			if m == nil { // as if no window lists it
				n := merged.OthersAtMost
				m = &LimitDenials{Denied: n, Error: n, OthersAtMost: n}
				limits[name] = m
			}
			m.Source, m.Location = l.Source, cmp.Or(l.Location, m.Location)
			m.Denied, m.Error, m.OthersAtMost = m.Denied+l.Denied-unlisted, m.Error+l.Error-unlisted, m.OthersAtMost+l.OthersAtMost-unlisted
			for _, k := range l.Keys { // which lack what they may have where they are not listed
				text, _ := json.Marshal(k.Descriptor) // which has nothing that JSON has not
				place, known := places[key{name, string(text)}]
				if !known {
					place = len(m.Keys)
					places[key{name, string(text)}] = place
					m.Keys = append(m.Keys, KeyDenials{})
				}
				m.Keys[place].add(k, l.OthersAtMost) // may wrap until m.OthersAtMost is added below
			}
		}
	}
	for _, m := range limits {
		for i := range m.Keys {
			m.Keys[i].Denied += m.OthersAtMost
			m.Keys[i].Error += m.OthersAtMost
		}
		slices.SortStableFunc(m.Keys, func(a, b KeyDenials) int { return cmp.Compare(b.Denied, a.Denied) })
		merged.Limits = append(merged.Limits, *m)
	}
	slices.SortFunc(merged.Limits, func(a, b LimitDenials) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit))
	})
	return merged
}

// add adds the denials of another window, in the place of what it has of a key that it does not list.
func (k *KeyDenials) add(other KeyDenials, unlisted uint64) {
	first := earlier(k.First, other.First)
	if other.Last.After(k.Last) {
		k.Key = other.Key
	}
	k.First, k.Denied, k.Error = first, k.Denied+other.Denied-unlisted, k.Error+other.Error-unlisted
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
