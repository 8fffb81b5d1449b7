package operators

import (
	"cmp"
	"encoding/json"
	"hash/crc32"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"weir/internal/limiter"
	"weir/internal/telemetry/sketch"
)

// Denial is a hit that denied its request, or would have denied it without a shadow mode.
type Denial struct {
	Limit *limiter.Limit
	Asked
	Hits       []limiter.Hit // hits of the request
	RequestID  string        // ID from Envoy, or "" if it sent none
	RetryAfter time.Duration // limiter.Never if waiting does not help
	Shadow     bool          // a shadow mode kept the request from being denied
}

const (
	hourParts   = 12  // sub-windows of the hour
	partMinutes = 5   // minutes in a sub-window of the hour
	sketchSize  = 512 // maximum number of keys in a sub-window
	keySize     = 256 // maximum size of a key, in bytes
	requestSize = 64  // maximum size of a request's ID, in bytes
	maxBeside   = 4   // maximum number of a request's counters to keep
)

// Recorder counts the denials of the last minute and hour by key, with the times of the first and last
// denial and the last request's ID. For each key of the hour, it also counts the denials of each minute. It
// keeps 512 keys for each ten seconds of the minute and for each five minutes of the hour: 9,216 keys, each
// of at most 256 bytes with its domain, in at most 12 MiB.
//
// If more keys are denied, the keys with the most denials stay. A new key evicts a key of the limit
// that has the most keys, in the current sub-window only, so a flood of random keys soon evicts its own
// keys. A Recorder is safe for concurrent use.
type Recorder struct {
	began time.Time // with a reading of the monotonic clock
	seed  maphash.Seed

	mu           sync.Mutex
	latest       int64 // current time in seconds since the epoch
	minute, hour window
}

// window is a ring of sub-windows. The current sub-window is not complete, so a window of six
// sub-windows of 10 seconds covers the last 50 to 60 seconds.
type window struct {
	seconds int64 // length of a sub-window
	ring    []subWindow
}

// subWindow counts denials by key.
type subWindow struct {
	number int64                  // start in seconds since the epoch, divided by the length
	keys   *sketch.Sketch[denied] // or nil if nothing was denied
}

// denied describes a key that was denied.
type denied struct {
	shown       Excerpt
	limit       *limiter.Limit // limit in the rules at the last denial
	shadow      bool
	first, last int64         // times in milliseconds since the epoch
	retryAfter  time.Duration // retry time of the last denial
	request     []byte        // ID of the last request
	minutes     [partMinutes]uint32
	beside      [maxBeside]uint32 // CRC-32 of the first counter keys of the first request, if the request had several
}

// NewRecorder returns a Recorder whose windows start now.
func NewRecorder(now time.Time) *Recorder {
	return &Recorder{began: now, seed: maphash.MakeSeed(), minute: window{10, make([]subWindow, 6)}, hour: window{300, make([]subWindow, hourParts)}}
}

// advance sets r.latest to the current time. It measures the time since r.began by the monotonic clock, so
// sub-windows start at the same times on all servers whose clocks agreed when the servers started.
func (r *Recorder) advance(now time.Time) {
	r.latest = max(r.latest, r.began.Unix()+int64(max(now.Sub(r.began), 0)/time.Second))
}

// Record counts a denial. It retains d.Limit, but no string or slice of d.
func (r *Recorder) Record(now time.Time, d *Denial) {
	// Clients do not know the seed, so they cannot find two keys with the same hash. A limit whose amount has
	// changed forms another group, so that each denial keeps the amount that denied it.
	group := maphash.String(r.seed, string(d.Limit.Series)) + 2*(d.Limit.RequestsPerUnit+uint64(d.Limit.Period()))
	if d.Shadow {
		group = ^group
	}
	key := group ^ maphash.Bytes(r.seed, d.Key)
	at, shown := now.UnixMilli(), Excerpt{}
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
			if shown.Entries == nil { // both windows share the excerpt
				shown = d.Excerpt(keySize)
			}
			v.shown, v.first, v.minutes = shown, at, [partMinutes]uint32{}
			v.beside = [maxBeside]uint32{}
			for i := 0; i < min(len(d.Hits), maxBeside) && len(d.Hits) > 1 && w == &r.hour; i++ {
				v.beside[i] = crc32.ChecksumIEEE(d.Hits[i].Key)
			}
		}
		v.limit, v.shadow, v.last, v.retryAfter = d.Limit, d.Shadow, at, d.RetryAfter
		v.request = append(v.request[:0], Begin(d.RequestID, requestSize)...)
		v.minutes[(r.latest-number*w.seconds)/60]++
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
			windows = append(windows, p.window(from, w.seconds))
		}
	}
	return windows
}

// window returns the keys of a sub-window, grouped by limit. length is the length of the sub-window in seconds.
func (p *subWindow) window(from time.Time, length int64) Window {
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
		for _, sum := range v.beside {
			if sum != 0 {
				k.Beside = append(k.Beside, sum)
			}
		}
		for i, n := range v.minutes {
			if n > 0 && length >= 60 {
				k.addMinute(p.number*length/60+int64(i), Minute{Denied: uint64(n)})
			}
		}
		if last := len(k.Minutes) - 1; last >= 0 {
			k.Minutes[last].RequestID = k.RequestID
		}
		w.Limits[index].Keys = append(w.Limits[index].Keys, k)
	}
	return w
}

// Denials has the recent denials. Its numbers count denied hits, not the units that the hits cost.
type Denials struct {
	At     time.Time `json:"at"`
	Minute Window    `json:"minute"`
	Hour   Window    `json:"hour"`
	// Last lists the latest denial of each key by each limit in the past hour, the newest first.
	Last    []LastDenial `json:"last"`
	Servers int          `json:"servers,omitempty"` // number of servers, or 0 if it is not known
	Note    string       `json:"note,omitempty"`    // a doubt about the domain or the descriptor that was asked for
}

// Window has the denials since From, the limits with the most denials first.
type Window struct {
	From         time.Time      `json:"from"`
	Limits       []LimitDenials `json:"limits"`
	OthersAtMost uint64         `json:"others_at_most"` // upper bound of the denials of any limit not in Limits
}

// Source identifies a limit.
type Source struct {
	Domain   string `json:"domain"`
	Rule     string `json:"rule"`               // keys and values of the rule, or "override" if the request sent the limit
	Location string `json:"location,omitempty"` // location of the rule, if it is still in use
	Limit    string `json:"limit"`              // name of the limit or, if it has none, its unit and algorithm
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
	OthersAtMost uint64       `json:"others_at_most"` // upper bound of the denials of any key not in Keys
}

// Key is a descriptor that a limit denied, with the times of its denials.
type Key struct {
	Descriptor Excerpt   `json:"descriptor"`
	First      time.Time `json:"first"` // time of the first known denial
	Last       time.Time `json:"last"`
	RequestID  string    `json:"request_id,omitempty"` // ID of the last denied request, if Envoy sent one
	RetryAfter *float64  `json:"retry_after"`          // seconds from Last until a retry, or nil if waiting does not help
	Beside     []uint32  `json:"beside,omitempty"`     // CRC-32 of a denied request's counter keys
	// Minutes has the known denials of each minute, from the minute of First to the minute of Last.
	Minutes []Minute `json:"minutes,omitempty"`
}

// Minute has the denials of a key in one minute.
type Minute struct {
	Denied    uint64 `json:"denied,omitempty"`
	RequestID string `json:"request_id,omitempty"` // ID of the last denied request in a sub-window of five minutes, if that request came in this minute
}

// addMinute adds the denials of a minute, given by its number since the epoch, at most an hour after First.
func (k *Key) addMinute(at int64, m Minute) {
	i := int(min(max(at-k.First.Unix()/60, 0), 60)) // bounded in case a clock was set
	k.Minutes = append(k.Minutes, make([]Minute, max(i+1-len(k.Minutes), 0))...)
	k.Minutes[i] = Minute{k.Minutes[i].Denied + m.Denied, cmp.Or(m.RequestID, k.Minutes[i].RequestID)}
}

// Bar shows the denials of one of the last 60 minutes.
type Bar struct {
	Minute
	At     time.Time // start of the minute
	Place  int       // from 0 for the oldest to 59 for the current minute
	Height float64   // denials divided by the largest number in any minute
}

// Bars returns the minutes of the hour before now that have denials, the newest first.
func (k *Key) Bars(now time.Time) (bars []Bar) {
	most := uint64(1)
	for i, m := range slices.Backward(k.Minutes) {
		at := k.First.Truncate(time.Minute).Add(time.Duration(i) * time.Minute)
		if place := 59 - int(now.Sub(at)/time.Minute); m.Denied > 0 && place >= 0 && place < 60 {
			most = max(most, m.Denied)
			bars = append(bars, Bar{Minute: m, At: at, Place: place})
		}
	}
	for i := range bars {
		bars[i].Height = float64(bars[i].Denied) / float64(most)
	}
	return bars
}

// KeyDenials has the number of a key's denials, which is between Denied - Error and Denied.
type KeyDenials struct {
	Key
	Denied uint64 `json:"denied"`
	Error  uint64 `json:"error"`
}

// LastDenial is the last denial of a key by a limit, with the number of known denials.
type LastDenial struct {
	Source
	Key
	Count uint64 `json:"count"` // minimum number of denials since First
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

// locate sets the location of each rule. It calls find once with all series as keys, and find sets the values.
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

// fit removes limits and keys until d takes about size bytes as JSON, or has no keys.
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

// cutKeys reduces the keys of each limit to the number given by most, and adjusts OthersAtMost.
func (d *Denials) cutKeys(most int) {
	for _, l := range d.limits() {
		if len(l.Keys) > most {
			l.OthersAtMost = max(l.OthersAtMost, l.Keys[most].Denied)
			l.Keys = l.Keys[:most]
		}
	}
}

// mergeDenials adds up the denials of several servers and the errors of these numbers, and sets Last.
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
		for i := range l.Keys {
			k := &l.Keys[i]
			merged.Last = append(merged.Last, LastDenial{l.Source, k.Key, k.Denied - k.Error})
			k.Minutes = nil // only Last has the minutes
		}
	}
	slices.SortStableFunc(merged.Last, func(a, b LastDenial) int { return b.Last.Compare(a.Last) })
	merged.Last = merged.Last[:min(len(merged.Last), maxLast)]
	merged.cutLimits()
	merged.cutKeys(maxKeys)
	return merged
}

// mergeWindows adds up windows from different times or servers (Agarwal et al.: Mergeable Summaries, 2012). A
// limit or key that a window does not list may have up to OthersAtMost denials in it, which are added to the
// error. The result starts with the earliest window.
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
			name.Location, name.Series = "", "" // they may differ between servers while new rules are loaded
			m := limits[name]
			if m == nil { // as if no window listed it
				n := merged.OthersAtMost
				m = &LimitDenials{Denied: n, Error: n, OthersAtMost: n}
				limits[name] = m
			}
			m.Source, m.Location = l.Source, cmp.Or(l.Location, m.Location)
			m.Denied, m.Error, m.OthersAtMost = m.Denied+l.Denied-unlisted, m.Error+l.Error-unlisted, m.OthersAtMost+l.OthersAtMost-unlisted
			for _, k := range l.Keys { // the denials in windows that do not list k are added below
				id := key{name, k.Descriptor.id()}
				index, known := indexes[id]
				if !known {
					index = len(m.Keys)
					indexes[id] = index
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
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Rate, b.Rate))
	})
	return merged
}

// add adds other, the denials of the same key in another window, to k. The parameter unlisted is the bound of
// that window for keys that it does not list. The caller adds the bounds of all windows at the end, so add
// subtracts unlisted.
func (k *KeyDenials) add(other KeyDenials, unlisted uint64) {
	sum := Key{First: earlier(k.First, other.First)}
	for _, part := range []*Key{&k.Key, &other.Key} {
		for i, m := range part.Minutes {
			sum.addMinute(part.First.Unix()/60+int64(i), m)
		}
	}
	if other.Last.After(k.Last) {
		k.Key = other.Key
	}
	k.First, k.Minutes, k.Denied, k.Error = sum.First, sum.Minutes, k.Denied+other.Denied-unlisted, k.Error+other.Error-unlisted
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
