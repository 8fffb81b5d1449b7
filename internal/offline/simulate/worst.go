package simulate

import (
	"cmp"
	"slices"

	"weir/internal/telemetry/sketch"
)

// worst counts the denials of the clients that are denied most.
type worst struct{ clients *sketch.Sketch[offender] }

// offender is a client that was denied.
type offender struct {
	name string
	last uint64 // request that was counted, by its number
}

const maxWorst = 128

// add counts a request that is denied, once for a client. Their numbers grow.
func (w *worst) add(request, hash uint64, name []byte) {
	if w.clients == nil {
		w.clients = sketch.New[offender](maxWorst)
	}
	if c := w.clients.Find(hash); c != nil && c.Value.last == request {
		return
	}
	c, known := w.clients.Add(0, hash)
	if c.Value.last = request; !known {
		c.Value.name = string(name)
	}
}

// top returns the clients with the most denials, n at most. It leaves out those of whose denials more than three
// quarters may be of others: where many clients are denied equally often, none of them is the worst.
func (w worst) top(n int) (list []Client) {
	if w.clients == nil {
		return nil
	}
	counters := slices.DeleteFunc(slices.Clone(w.clients.Counters), func(c sketch.Counter[offender]) bool { return 4*c.Error > 3*c.Count })
	slices.SortFunc(counters, func(a, b sketch.Counter[offender]) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Value.name, b.Value.name))
	})
	for _, c := range counters[:min(n, len(counters))] {
		list = append(list, Client{clientName([]byte(c.Value.name)), c.Count, c.Error})
	}
	return list
}

// series counts by time, in spans that become longer where time is long.
type series struct {
	begin  int64 // of the first span, in minutes since the epoch
	width  int64 // of a span, in minutes
	spans  []count
	minute int64 // the current one
	now    count // in it
	worst  count // of all minutes
	at     int64 // the minute of worst
}

// count is of the requests of some time.
type count struct {
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
}

func (c *count) add(o count) { c.Requests, c.Denied = c.Requests+o.Requests, c.Denied+o.Denied }

// maxSpans is how many spans are drawn at most.
const maxSpans = 240

const minute = 60_000_000 // microseconds

// add counts a request. Times never go back.
func (s *series) add(now int64) {
	if m := now / minute; m != s.minute || s.width == 0 {
		s.flush()
		s.minute = m
		if s.width == 0 {
			s.begin, s.width = m, 1
		}
	}
	s.now.Requests++
}

// deny counts as denied the request that was counted last.
func (s *series) deny() { s.now.Denied++ }

// flush ends the current minute.
func (s *series) flush() {
	if s.now.Requests == 0 {
		return
	}
	if s.now.Denied > s.worst.Denied || s.now.Denied == s.worst.Denied && s.now.Requests > s.worst.Requests {
		s.worst, s.at = s.now, s.minute
	}
	for (s.minute-s.begin)/s.width >= maxSpans { // one span of two
		half := make([]count, (len(s.spans)+1)/2)
		for i, c := range s.spans {
			half[i/2].add(c)
		}
		s.spans = half
		s.width *= 2
	}
	i := int((s.minute - s.begin) / s.width)
	for len(s.spans) <= i {
		s.spans = append(s.spans, count{})
	}
	s.spans[i].add(s.now)
	s.now = count{}
}
