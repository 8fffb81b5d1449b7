package denials

import (
	"cmp"
	"slices"
	"time"

	"weir/internal/limiter"
	"weir/internal/operators/excerpt"
)

// Summary is what was denied lately. Its numbers count hits that were denied, whatever
// they cost.
type Summary struct {
	At     time.Time `json:"at"`
	Minute Window    `json:"minute"`
	Hour   Window    `json:"hour"`
	// Last are the last denials, newest first. Of a flood, of more than a thousand a second,
	// some are left out.
	Last []Event `json:"last"`
}

// Window is what was denied from a time on, the limits that denied most first. From is no
// time before the recorder began.
type Window struct {
	From   time.Time `json:"from"`
	Limits []Limit   `json:"limits"`
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

// Limit is what one limit denied, the keys that were denied most first.
type Limit struct {
	Source
	Denied uint64 `json:"denied"` // at most
	// Error is by how many Denied may be too large.
	Error uint64 `json:"error"`
	Keys  []Key  `json:"keys"`
	// OthersAtMost is the largest number of denials that a key that is not in Keys may have.
	OthersAtMost uint64 `json:"others_at_most"`
}

// Key is how often a descriptor was denied by a limit: from Denied - Error to Denied times.
type Key struct {
	Descriptor excerpt.Descriptor `json:"descriptor"`
	Denied     uint64             `json:"denied"`
	Error      uint64             `json:"error"`
	First      time.Time          `json:"first"` // denial that is known
	Last       time.Time          `json:"last"`
}

// Event is one denial.
type Event struct {
	At time.Time `json:"at"`
	Source
	Descriptor excerpt.Descriptor `json:"descriptor"`
	// RetryAfter is in seconds, nil if no waiting helps.
	RetryAfter *float64 `json:"retry_after"`
}

// How much a Summary holds at most. Summaries that are to be merged hold more keys than
// are shown, because each that is cut off in one adds to the error of all.
const (
	MaxLimits = 100
	MaxKeys   = 10
	MaxLast   = 100
)

// Summary returns what is known, with so many keys of a limit at most.
func (r *Recorder) Summary(now time.Time, keys int) Summary {
	var minute, hour sketch
	var minuteFrom, hourFrom int64
	var last []Event
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.rotate(r.seconds(now))
		m, from := s.minute()
		minuteFrom = from
		h, from := s.hour()
		hourFrom = from
		for j := range s.last.denials {
			if d := &s.last.denials[j]; !d.at.IsZero() {
				last = append(last, d.event())
			}
		}
		s.mu.Unlock()
		minute.join(m)
		hour.join(h)
	}
	slices.SortStableFunc(last, func(a, b Event) int { return b.At.Compare(a.At) })
	began := r.began.Unix()
	return Summary{
		At:     now.UTC(),
		Minute: minute.window(max(minuteFrom, began), keys),
		Hour:   hour.window(max(hourFrom, began), keys),
		Last:   last[:min(len(last), MaxLast)],
	}
}

func (d *denial) event() Event {
	e := Event{At: d.at.UTC(), Source: sourceOf(d.limit, d.shadow), Descriptor: excerpt.Read(d.text)}
	e.Domain = e.Descriptor.Domain
	if d.retryAfter != limiter.Never {
		e.RetryAfter = new(d.retryAfter.Seconds())
	}
	return e
}

func sourceOf(l *limiter.Limit, shadow bool) Source {
	labels := l.Series.Labels()
	return Source{Domain: labels.Domain, Rule: labels.Rule, Limit: labels.Limit, Rate: l.Rate(), Shadow: shadow, Series: l.Series}
}

// window shows s.
func (s *sketch) window(from int64, keys int) Window {
	w := Window{From: time.Unix(from, 0).UTC(), OthersAtMost: s.floor, Limits: []Limit{}}
	for i := range s.groups {
		g := &s.groups[i]
		w.Limits = append(w.Limits, Limit{Source: sourceOf(g.limit, g.shadow), Denied: g.count, Error: g.err, OthersAtMost: g.floor})
	}
	slices.SortFunc(s.counters, func(a, b counter) int { return cmp.Compare(b.count, a.count) })
	for i := range s.counters {
		c := &s.counters[i]
		l := &w.Limits[c.group]
		if len(l.Keys) == keys || len(c.text) == 0 {
			l.OthersAtMost = max(l.OthersAtMost, c.count)
			continue
		}
		d := excerpt.Read(c.text)
		l.Domain = d.Domain
		l.Keys = append(l.Keys, Key{Descriptor: d, Denied: c.count, Error: c.err, First: time.Unix(c.first, 0).UTC(), Last: time.Unix(c.last, 0).UTC()})
	}
	w.cut()
	return w
}

// cut sorts the limits and leaves those that denied most.
func (w *Window) cut() {
	slices.SortStableFunc(w.Limits, func(a, b Limit) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit))
	})
	if len(w.Limits) > MaxLimits {
		w.OthersAtMost = max(w.OthersAtMost, w.Limits[MaxLimits].Denied)
		w.Limits = w.Limits[:MaxLimits]
	}
}

// Locate fills in where the rules are written. find is called once, with the series of
// the limits as keys, and fills in the places.
func (s *Summary) Locate(find func(places map[limiter.Series]string)) {
	places := make(map[limiter.Series]string)
	s.eachSource(func(from *Source) { places[from.Series] = "" })
	find(places)
	s.eachSource(func(from *Source) { from.Place = places[from.Series] })
}

func (s *Summary) eachSource(do func(*Source)) {
	for _, w := range []*Window{&s.Minute, &s.Hour} {
		for i := range w.Limits {
			do(&w.Limits[i].Source)
		}
	}
	for i := range s.Last {
		do(&s.Last[i].Source)
	}
}
