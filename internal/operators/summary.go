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
	// Last are the last denials, newest first. Of a flood, of more than a thousand a second,
	// some are left out.
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
}

// LastDenial is one denial.
type LastDenial struct {
	At time.Time `json:"at"`
	Source
	Descriptor Excerpt `json:"descriptor"`
	// RetryAfter is in seconds, nil if no waiting helps.
	RetryAfter *float64 `json:"retry_after"`
}

// How much Denials hold at most. Those that are to be merged hold more keys than are shown,
// because each that is cut off in one adds to the error of all.
const (
	MaxLimits = 100
	MaxKeys   = 10
	MaxLast   = 100
)

// Locate fills in where the rules are written. find is called once, with the series of
// the limits as keys, and fills in the places.
func (d *Denials) Locate(find func(places map[limiter.Series]string)) {
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

// MergeDenials returns what several servers saw denied: the sums of their numbers, and of
// their errors. It shows so many keys of a limit at most.
func MergeDenials(keys int, all ...Denials) (merged Denials) {
	var minutes, hours []Window
	for _, d := range all {
		if d.At.After(merged.At) {
			merged.At = d.At
		}
		minutes, hours = append(minutes, d.Minute), append(hours, d.Hour)
		merged.Last = append(merged.Last, d.Last...)
	}
	merged.Minute, merged.Hour, merged.Servers = mergeWindows(keys, minutes), mergeWindows(keys, hours), len(all)
	slices.SortStableFunc(merged.Last, func(a, b LastDenial) int { return b.At.Compare(a.At) })
	merged.Last = merged.Last[:min(len(merged.Last), MaxLast)]
	return merged
}

// mergeWindows adds what was denied in windows of several times or servers (Agarwal et al.:
// Mergeable Summaries, 2012). What one of them does not list may have been denied there as
// often as it says of others, and adds so much to the error. It begins when the first does.
func mergeWindows(keys int, windows []Window) Window {
	merged := Window{Limits: []LimitDenials{}}
	byLimit := make(map[string][]*LimitDenials) // one for each window, nil where it is not listed
	for i := range windows {
		w := &windows[i]
		merged.OthersAtMost += w.OthersAtMost
		merged.From = earlier(merged.From, w.From)
		for j := range w.Limits {
			l := &w.Limits[j]
			// Where rules are written, and how much they allow, may differ while replicas load new ones.
			name := spell([]any{l.Domain, l.Rule, l.Limit, l.Shadow})
			if byLimit[name] == nil {
				byLimit[name] = make([]*LimitDenials, len(windows))
			}
			byLimit[name][i] = l
		}
	}
	for _, limits := range byLimit {
		merged.Limits = append(merged.Limits, mergeLimits(keys, windows, limits))
	}
	slices.SortFunc(merged.Limits, func(a, b LimitDenials) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit))
	})
	if len(merged.Limits) > MaxLimits {
		merged.OthersAtMost = max(merged.OthersAtMost, merged.Limits[MaxLimits].Denied)
		merged.Limits = merged.Limits[:MaxLimits]
	}
	return merged
}

// mergeLimits merges what the windows say of one limit.
func mergeLimits(keys int, windows []Window, limits []*LimitDenials) (merged LimitDenials) {
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
				known.Last = k.Last
			}
		}
	}
	for _, name := range names {
		k := byKey[name]
		k.Denied, k.Error = k.Denied+merged.OthersAtMost, k.Error+merged.OthersAtMost
		merged.Keys = append(merged.Keys, *k)
	}
	slices.SortStableFunc(merged.Keys, func(a, b KeyDenials) int { return cmp.Compare(b.Denied, a.Denied) })
	if len(merged.Keys) > keys {
		merged.OthersAtMost = max(merged.OthersAtMost, merged.Keys[keys].Denied)
		merged.Keys = merged.Keys[:keys]
	}
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
