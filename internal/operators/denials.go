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

// Denial is a hit that denied its request, or would have without a shadow mode.
type Denial struct {
	Limit *limiter.Limit
	Asked
	RequestID  string        // by Envoy, or "" if it sent none
	RetryAfter time.Duration // limiter.Never if waiting does not help
	Shadow     bool          // a shadow mode kept the request from being denied
}

const (
	hourParts   = 12  // sub-windows of five minutes
	sketchSize  = 512 // keys in a sub-window
	keySize     = 256 // bytes of a key
	requestSize = 64  // bytes of a request's ID
)

// Recorder counts the denials of the last minute and hour by key, with the times of the first and
// last denial and the last request's ID. It keeps 512 keys for each ten seconds of the minute and
// for each five minutes of the hour: 9,216 keys, each of at most 256 bytes with its domain, in at
// most 12 MiB.
//
// If more keys are denied, the keys with the most denials stay. A new key evicts a key of the limit
// that has the most, in the current sub-window only, so a flood of random keys soon evicts its own
// keys. It is safe for concurrent use.
type Recorder struct {
	began time.Time // for a monotonic clock
	seed  maphash.Seed

	mu           sync.Mutex
	latest       int64 // second since the epoch
	minute, hour window
}

// window is a ring of sub-windows with the current one. So the minute is the last 50 to 60 seconds.
type window struct {
	seconds int64 // of each
	ring    []subWindow
}

// subWindow counts denials by key.
type subWindow struct {
	number int64                  // seconds since the epoch / length
	keys   *sketch.Sketch[denied] // or nil if nothing was denied
}

// denied describes a key that was denied.
type denied struct {
	shown       Excerpt
	limit       *limiter.Limit // of the rules at the last denial
	shadow      bool
	first, last int64         // in milliseconds since the epoch
	retryAfter  time.Duration // of the last denial
	request     []byte        // ID of the last request
}

// NewRecorder returns a Recorder whose windows start now.
func NewRecorder(now time.Time) *Recorder {
	return &Recorder{began: now, seed: maphash.MakeSeed(), minute: window{10, make([]subWindow, 6)}, hour: window{300, make([]subWindow, hourParts)}}
}

// advance sets the current time. It uses the monotonic clock from began on, so sub-windows start
// at the same times on all servers whose clocks agreed when they started.
func (r *Recorder) advance(now time.Time) {
	r.latest = max(r.latest, r.began.Unix()+int64(max(now.Sub(r.began), 0)/time.Second))
}

// Record counts a denial. It keeps the limit of d, but none of its strings and slices.
func (r *Recorder) Record(now time.Time, d *Denial) {
	// Clients do not know the seed, so they cannot find two keys with the same hash.
	group := maphash.String(r.seed, string(d.Limit.Series))
	if d.Shadow {
		group = ^group
	}
	key := group ^ maphash.Bytes(r.seed, d.Key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now)
	for _, w := range []*window{&r.minute, &r.hour} {
		number := r.latest / w.seconds
		p := &w.ring[number%int64(len(w.ring))]
		if p.keys == nil || p.number != number {
			*p = subWindow{number, sketch.New[denied](sketchSize)}
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

// Denials returns all known denials, without Last and the locations of rules.
func (r *Recorder) Denials(now time.Time) Denials {
	r.mu.Lock()
	r.advance(now)
	minute, hour := r.windows(&r.minute), r.windows(&r.hour)
	r.mu.Unlock()
	return Denials{At: now.UTC(), Minute: mergeWindows(minute), Hour: mergeWindows(hour)}
}

// windows returns the sub-windows of w that have not expired, each with the start of w.
func (r *Recorder) windows(w *window) []Window {
	first := r.latest/w.seconds - int64(len(w.ring)) + 1
	from := time.Unix(max(first*w.seconds, r.began.Unix()), 0).UTC()
	windows := []Window{{From: from}}
	for i := range w.ring {
		if p := &w.ring[i]; p.keys != nil && p.number >= first {
			windows = append(windows, p.window(from))
		}
	}
	return windows
}

// window returns the keys of a sub-window, grouped by limit.
func (p *subWindow) window(from time.Time) Window {
	w := Window{From: from, OthersAtMost: p.keys.Floor}
	indexes := map[uint64]int{} // in w.Limits, by group
	for i := range p.keys.Counters {
		c := &p.keys.Counters[i]
		v := &c.Value
		index, known := indexes[c.Group]
		if !known {
			index = len(w.Limits)
			indexes[c.Group] = index
			g := p.keys.Groups[c.Group]
			w.Limits = append(w.Limits, LimitDenials{
				Denied: g.Count, Error: g.Error, OthersAtMost: g.Floor, Source: newSource(v.limit, v.shown.Domain, v.shadow),
			})
		}
		k := KeyDenials{Denied: c.Count, Error: c.Error, Key: Key{
			Descriptor: v.shown, First: time.UnixMilli(v.first).UTC(), Last: time.UnixMilli(v.last).UTC(),
			RequestID: validUTF8(string(v.request)), RetryAfter: seconds(v.retryAfter),
		}}
		w.Limits[index].Keys = append(w.Limits[index].Keys, k)
	}
	return w
}

// Denials are the recent denials. Its numbers count denied hits, whatever they cost.
type Denials struct {
	At     time.Time `json:"at"`
	Minute Window    `json:"minute"`
	Hour   Window    `json:"hour"`
	// Last has the hour's denials, one entry per key and limit, the newest first.
	Last    []LastDenial `json:"last"`
	Servers int          `json:"servers,omitempty"` // number of servers, or 0 if it is not known
	Note    string       `json:"note,omitempty"`    // a doubt about the domain or the descriptor that was asked for
}

// Window has the denials since From, the limits with the most denials first.
type Window struct {
	From         time.Time      `json:"from"`
	Limits       []LimitDenials `json:"limits"`
	OthersAtMost uint64         `json:"others_at_most"` // bound of the denials of any limit not in Limits
}

// Source identifies a limit.
type Source struct {
	Domain   string `json:"domain"`
	Rule     string `json:"rule"`               // its keys and values, or "override" if the request sent the limit
	Location string `json:"location,omitempty"` // of the rule, if it is still in use
	Limit    string `json:"limit"`              // its name, or if it has none, its unit and algorithm
	Rate     string `json:"rate"`               // such as "5 per minute"
	Shadow   bool   `json:"shadow,omitempty"`   // a shadow mode kept requests from being denied

	Series limiter.Series `json:"-"`
}

func newSource(l *limiter.Limit, domain string, shadow bool) Source {
	labels := l.Series.Labels()
	return Source{Domain: domain, Rule: labels.Rule, Limit: labels.Limit, Rate: l.Rate(), Shadow: shadow, Series: l.Series}
}

// LimitDenials has the denials of one limit, the keys with the most denials first.
type LimitDenials struct {
	Source
	Denied       uint64       `json:"denied"` // an upper bound
	Error        uint64       `json:"error"`  // largest amount by which Denied may be too large
	Keys         []KeyDenials `json:"keys"`
	OthersAtMost uint64       `json:"others_at_most"` // bound of the denials of any key not in Keys
}

// Key is a descriptor that a limit denied, with the times of its denials.
type Key struct {
	Descriptor Excerpt   `json:"descriptor"`
	First      time.Time `json:"first"` // known denial
	Last       time.Time `json:"last"`
	RequestID  string    `json:"request_id,omitempty"` // of the last denied request, if Envoy sent one
	RetryAfter *float64  `json:"retry_after"`          // seconds after Last, or nil if waiting does not help
}

// KeyDenials has the number of a key's denials, which is from Denied - Error to Denied.
type KeyDenials struct {
	Key
	Denied uint64 `json:"denied"`
	Error  uint64 `json:"error"`
}

// LastDenial is the last denial of a key by a limit, with the number of earlier denials.
type LastDenial struct {
	Source
	Key
	Count uint64 `json:"count"` // of denials since First, at least
}

// Maximum sizes of Denials.
const (
	maxLimits = 100
	maxKeys   = 10 // in each limit
	maxLast   = hourParts * sketchSize
)

// limits returns the limits of both windows.
func (d *Denials) limits() (all []*LimitDenials) {
	for _, w := range []*Window{&d.Minute, &d.Hour} {
		for i := range w.Limits {
			all = append(all, &w.Limits[i])
		}
	}
	return all
}

// locate sets the location of each rule. It calls find once, with the series as keys.
func (d *Denials) locate(find func(locations map[limiter.Series]string)) {
	locations := make(map[limiter.Series]string)
	for _, l := range d.limits() {
		locations[l.Series] = ""
	}
	find(locations)
	for _, l := range d.limits() {
		l.Location = locations[l.Series]
	}
}

// cutLimits removes all but the first maxLimits limits of each window, and adjusts OthersAtMost.
func (d *Denials) cutLimits() {
	for _, w := range []*Window{&d.Minute, &d.Hour} {
		if len(w.Limits) > maxLimits {
			w.OthersAtMost = max(w.OthersAtMost, w.Limits[maxLimits].Denied)
			w.Limits = w.Limits[:maxLimits]
		}
	}
}

// fit removes limits and keys until d has about size bytes as JSON, or has no keys.
func (d *Denials) fit(size int) {
	d.cutLimits()
	limits := d.limits()
	for _, l := range limits {
		size -= jsonSize(LimitDenials{Source: l.Source})
	}
	for keys := range maxLast { // each limit keeps the same number of keys
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

// jsonSize returns the approximate length of v as JSON.
func jsonSize(v any) int {
	text, _ := json.Marshal(v) // cannot fail: it has only plain fields
	return len(text) + 1
}

// cutKeys removes all but the first most keys of each limit, and adjusts OthersAtMost.
func (d *Denials) cutKeys(most int) {
	for _, l := range d.limits() {
		if len(l.Keys) > most {
			l.OthersAtMost = max(l.OthersAtMost, l.Keys[most].Denied)
			l.Keys = l.Keys[:most]
		}
	}
}

// mergeDenials adds up the denials of several servers, and their errors.
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

// mergeWindows adds up windows of several times or servers (Agarwal et al.: Mergeable
// Summaries, 2012). A limit or key that a window does not list may have up to OthersAtMost
// denials there, which are added to the error. The result starts with the earliest window.
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
	limits, indexes := map[Source]*LimitDenials{}, map[key]int{} // indexes in Keys
	for i := range windows {
		for j := range windows[i].Limits {
			l, unlisted := &windows[i].Limits[j], windows[i].OthersAtMost
			name := l.Source
			name.Location, name.Rate, name.Series = "", "", "" // they may differ between servers while new rules are loaded
			m := limits[name]
			if m == nil { // as if no window listed it
				n := merged.OthersAtMost
				m = &LimitDenials{Denied: n, Error: n, OthersAtMost: n}
				limits[name] = m
			}
			m.Source, m.Location = l.Source, cmp.Or(l.Location, m.Location)
			m.Denied, m.Error, m.OthersAtMost = m.Denied+l.Denied-unlisted, m.Error+l.Error-unlisted, m.OthersAtMost+l.OthersAtMost-unlisted
			for _, k := range l.Keys { // the part of windows that do not list k is added below
				text, _ := json.Marshal(k.Descriptor) // cannot fail: it has only plain fields
				index, known := indexes[key{name, string(text)}]
				if !known {
					index = len(m.Keys)
					indexes[key{name, string(text)}] = index
					m.Keys = append(m.Keys, KeyDenials{})
				}
				m.Keys[index].add(k, l.OthersAtMost) // may wrap below zero until m.OthersAtMost is added
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

// add adds the denials of another window to k, and subtracts unlisted, which the caller adds later.
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
