package operators

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"weir/internal/limiter"
)

// Denials is what was denied lately. Its numbers count hits that were denied, whatever they cost.
type Denials struct {
	At     time.Time `json:"at"`
	Minute Window    `json:"minute"`
	Hour   Window    `json:"hour"`
	// Last are the last denials of the hour, newest first, those of one key and limit as one.
	Last []LastDenial `json:"last"`
	// Servers is how many servers it is of, 0 if the server does not say.
	Servers int `json:"servers,omitempty"`
}

// Window is what was denied from a time on, the limits that denied most first. From is no
// time before the recorder began.
type Window struct {
	From   time.Time      `json:"from"`
	Limits []LimitDenials `json:"limits"`
	// OthersAtMost is the largest number of denials that a limit that is not in Limits
	// may have.
	OthersAtMost uint64 `json:"others_at_most"`
}

// Source says which limit denied.
type Source struct {
	Domain string `json:"domain"`
	Rule   string `json:"rule"`             // the keys and values that lead to it; "override" for limits of requests
	Place  string `json:"place,omitempty"`  // where the rule is written, if it still serves
	Limit  string `json:"limit"`            // its name, or how it counts
	Rate   string `json:"rate"`             // such as "5 per minute"
	Shadow bool   `json:"shadow,omitempty"` // nothing was denied, because of a shadow mode

	Series limiter.Series `json:"-"`
}

// LimitDenials is what one limit denied, the keys that were denied most first.
type LimitDenials struct {
	Source
	Denied uint64       `json:"denied"` // at most
	Error  uint64       `json:"error"`  // by how many Denied may be too large
	Keys   []KeyDenials `json:"keys"`
	// OthersAtMost is the largest number of denials that a key that is not in Keys may have.
	OthersAtMost uint64 `json:"others_at_most"`
}

// KeyDenials is how often a descriptor was denied by a limit: from Denied - Error to Denied times.
type KeyDenials struct {
	Descriptor Excerpt   `json:"descriptor"`
	Denied     uint64    `json:"denied"`
	Error      uint64    `json:"error"`
	First      time.Time `json:"first"` // denial that is known
	Last       time.Time `json:"last"`
	RequestID  string    `json:"request_id,omitempty"` // of the last, if Envoy sent it
	retryAfter *float64
}

// LastDenial is the last denial of a key by a limit, and those before it.
type LastDenial struct {
	Source
	Descriptor Excerpt   `json:"descriptor"`
	Count      uint64    `json:"count"` // of the denials since First
	First      time.Time `json:"first"`
	Last       time.Time `json:"last"`
	RequestID  string    `json:"request_id,omitempty"` // of the last, if Envoy sent it
	// RetryAfter is in seconds, nil if no waiting helps.
	RetryAfter *float64 `json:"retry_after"`
}

// How much Denials hold at most. Those that are to be merged hold more keys than are shown,
// because each that is cut off in one adds to the error of all.
const (
	MaxLimits = 100
	MaxKeys   = 10
	MaxLast   = hourParts * sketchSize
)

// locate fills in where the rules are written. find is called once, with the series of
// the limits as keys, and fills in the places.
func (d *Denials) locate(find func(places map[limiter.Series]string)) {
	places := make(map[limiter.Series]string)
	d.eachSource(func(from *Source) { places[from.Series] = "" })
	find(places)
	d.eachSource(func(from *Source) { from.Place = places[from.Series] })
}

func (d *Denials) eachSource(do func(*Source)) {
	for _, w := range []*Window{&d.Minute, &d.Hour} {
		for i := range w.Limits {
			do(&w.Limits[i].Source)
		}
	}
	for i := range d.Last {
		do(&d.Last[i].Source)
	}
}

// mergeDenials returns what several servers saw denied: the sums of their numbers, and of
// their errors. It shows so many keys of a limit at most.
func mergeDenials(keys int, all ...Denials) (merged Denials) {
	var minutes, hours []Window
	byName := map[string]int{} // places in merged.Last
	for _, d := range all {
		if d.At.After(merged.At) {
			merged.At = d.At
		}
		minutes, hours = append(minutes, d.Minute), append(hours, d.Hour)
		for _, e := range d.Last {
			name := spell([]any{e.Domain, e.Rule, e.Limit, e.Shadow, e.Descriptor})
			i, known := byName[name]
			if !known {
				byName[name] = len(merged.Last)
				merged.Last = append(merged.Last, e)
				continue
			}
			m := &merged.Last[i]
			count, first := m.Count+e.Count, earlier(m.First, e.First)
			if e.Last.After(m.Last) {
				*m = e
			}
			m.Count, m.First = count, first
		}
	}
	merged.Minute, merged.Hour, merged.Servers = mergeWindows(minutes), mergeWindows(hours), len(all)
	merged.cut(keys)
	merged.Last = newest(merged.Last)
	return merged
}

// last returns the last denials of all keys, the newest first.
func (w *Window) last() []LastDenial {
	all := []LastDenial{}
	for i := range w.Limits {
		l := &w.Limits[i]
		for _, k := range l.Keys {
			all = append(all, LastDenial{l.Source, k.Descriptor, k.Denied - k.Error, k.First, k.Last, k.RequestID, k.retryAfter})
		}
	}
	return newest(all)
}

func newest(all []LastDenial) []LastDenial {
	slices.SortStableFunc(all, func(a, b LastDenial) int { return b.Last.Compare(a.Last) })
	return all[:min(len(all), MaxLast)]
}

// cut leaves so many keys of each limit.
func (d *Denials) cut(keys int) {
	for _, w := range []*Window{&d.Minute, &d.Hour} {
		if len(w.Limits) > MaxLimits {
			w.OthersAtMost = max(w.OthersAtMost, w.Limits[MaxLimits].Denied)
			w.Limits = w.Limits[:MaxLimits]
		}
		for i := range w.Limits {
			if l := &w.Limits[i]; len(l.Keys) > keys {
				l.OthersAtMost = max(l.OthersAtMost, l.Keys[keys].Denied)
				l.Keys = l.Keys[:keys]
			}
		}
	}
}

// mergeWindows adds what was denied in windows of several times or servers (Agarwal et al.:
// Mergeable Summaries, 2012). What one of them does not list may have been denied there as
// often as it says of others, and adds so much to the error. It begins when the first does.
func mergeWindows(windows []Window) Window {
	merged := Window{Limits: []LimitDenials{}}
	byLimit := make(map[string][]*LimitDenials) // one for each window, nil where it is not listed
	for i := range windows {
		w := &windows[i]
		merged.OthersAtMost += w.OthersAtMost
		merged.From = earlier(merged.From, w.From)
		for j := range w.Limits {
			l := &w.Limits[j]
			// Where rules are written, and how much they allow, may differ while servers load new ones.
			name := spell([]any{l.Domain, l.Rule, l.Limit, l.Shadow})
			if byLimit[name] == nil {
				byLimit[name] = make([]*LimitDenials, len(windows))
			}
			byLimit[name][i] = l
		}
	}
	for _, limits := range byLimit {
		merged.Limits = append(merged.Limits, mergeLimits(windows, limits))
	}
	slices.SortFunc(merged.Limits, func(a, b LimitDenials) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit))
	})
	return merged
}

// mergeLimits merges what the windows say of one limit.
func mergeLimits(windows []Window, limits []*LimitDenials) (merged LimitDenials) {
	byKey := make(map[string]*KeyDenials)
	var names []string
	for i, l := range limits {
		if l == nil {
			most := windows[i].OthersAtMost
			merged.Denied, merged.Error, merged.OthersAtMost = merged.Denied+most, merged.Error+most, merged.OthersAtMost+most
			continue
		}
		place := cmp.Or(merged.Place, l.Place)
		merged.Source = l.Source
		merged.Place = place
		merged.Denied, merged.Error, merged.OthersAtMost = merged.Denied+l.Denied, merged.Error+l.Error, merged.OthersAtMost+l.OthersAtMost
		for _, k := range l.Keys {
			name := spell(k.Descriptor)
			known := byKey[name]
			if known == nil {
				known = &KeyDenials{Descriptor: k.Descriptor}
				byKey[name], names = known, append(names, name)
			}
			// What it may have where it is not listed is added for all, and taken off here.
			known.Denied, known.Error = known.Denied+k.Denied-l.OthersAtMost, known.Error+k.Error-l.OthersAtMost
			known.First = earlier(known.First, k.First)
			if k.Last.After(known.Last) {
				known.Last, known.RequestID, known.retryAfter = k.Last, k.RequestID, k.retryAfter
			}
		}
	}
	for _, name := range names {
		k := byKey[name]
		k.Denied, k.Error = k.Denied+merged.OthersAtMost, k.Error+merged.OthersAtMost
		merged.Keys = append(merged.Keys, *k)
	}
	slices.SortStableFunc(merged.Keys, func(a, b KeyDenials) int { return cmp.Compare(b.Denied, a.Denied) })
	return merged
}

// spell returns v as JSON, which it can be.
func spell(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
