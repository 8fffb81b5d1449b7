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
		l.Place = places[l.Series]
	}
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
	for _, w := range []*Window{&merged.Minute, &merged.Hour} {
		if len(w.Limits) > maxLimits {
			w.OthersAtMost = max(w.OthersAtMost, w.Limits[maxLimits].Denied)
			w.Limits = w.Limits[:maxLimits]
		}
	}
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
			name.Place, name.Rate, name.Series = "", "", "" // they may differ while servers load new rules
			m := limits[name]
			if m == nil { // as if no window lists it
				n := merged.OthersAtMost
				m = &LimitDenials{Denied: n, Error: n, OthersAtMost: n}
				limits[name] = m
			}
			m.Source, m.Place = l.Source, cmp.Or(l.Place, m.Place)
			m.Denied, m.Error, m.OthersAtMost = m.Denied+l.Denied-unlisted, m.Error+l.Error-unlisted, m.OthersAtMost+l.OthersAtMost-unlisted
			for _, k := range l.Keys { // which lack what they may have where they are not listed
				text, _ := json.Marshal(k.Descriptor) // which has nothing that JSON has not
				place, known := places[key{name, string(text)}]
				if !known {
					place = len(m.Keys)
					places[key{name, string(text)}] = place
					m.Keys = append(m.Keys, KeyDenials{})
				}
				m.Keys[place].add(k, l.OthersAtMost)
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
