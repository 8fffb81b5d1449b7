package simulate

import (
	"cmp"
	"slices"
)

// worst counts the denials of the clients that are denied most, by Space-Saving (Metwally,
// Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams,
// 2005): a client that is new takes the place of the one with the least denials, and goes on from there.
type worst struct {
	places map[uint64]int // of clients, by the hash of their key
	list   []offender
}

// offender is a client that was denied.
type offender struct {
	hash  uint64
	name  string
	count uint64 // at most so many requests denied
	err   uint64 // of which at most so many are of others
	last  uint64 // request that was counted, by its number
}

const maxWorst = 128

// add counts a request that is denied, once for a client. Their numbers grow.
func (w *worst) add(request, hash uint64, name []byte) {
	if i, ok := w.places[hash]; ok {
		if o := &w.list[i]; o.last != request {
			o.last = request
			o.count++
		}
		return
	}
	if w.places == nil {
		w.places = map[uint64]int{}
	}
	i := len(w.list)
	if i < maxWorst {
		w.list = append(w.list, offender{})
	} else {
		i = w.least()
		delete(w.places, w.list[i].hash)
	}
	from := w.list[i].count
	w.places[hash] = i
	w.list[i] = offender{hash, string(name), from + 1, from, request}
}

func (w *worst) least() (least int) {
	for i := range w.list {
		if w.list[i].count < w.list[least].count {
			least = i
		}
	}
	return least
}

// top returns the clients with the most denials, n at most. It leaves out those of whose denials more than three
// quarters may be of others: where many clients are denied equally often, none of them is the worst.
func (w *worst) top(n int) []offender {
	list := slices.DeleteFunc(slices.Clone(w.list), func(o offender) bool { return 4*o.err > 3*o.count })
	slices.SortFunc(list, func(a, b offender) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.err, b.err), cmp.Compare(a.name, b.name))
	})
	return list[:min(n, len(list))]
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
	for (s.minute-s.begin)/s.width >= maxSpans {
		s.widen()
	}
	i := int((s.minute - s.begin) / s.width)
	for len(s.spans) <= i {
		s.spans = append(s.spans, count{})
	}
	s.spans[i].Requests += s.now.Requests
	s.spans[i].Denied += s.now.Denied
	s.now = count{}
}

// widen makes one span of two.
func (s *series) widen() {
	for i := 0; i < len(s.spans); i += 2 {
		sum := s.spans[i]
		if i+1 < len(s.spans) {
			sum.Requests += s.spans[i+1].Requests
			sum.Denied += s.spans[i+1].Denied
		}
		s.spans[i/2] = sum
	}
	s.spans = s.spans[:(len(s.spans)+1)/2]
	s.width *= 2
}
