package simulate

import (
	"cmp"
	"maps"
	"slices"
	"time"

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

// count is of the requests of some time.
type count struct {
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
}

// series counts requests by minutes since the epoch.
type series map[int64]count

const minute = 60_000_000 // microseconds

// add counts a request, and denied ones of those that were counted.
func (s series) add(now int64, requests, denied uint64) {
	c := s[now/minute]
	s[now/minute] = count{c.Requests + requests, c.Denied + denied}
}

// maxSpans is how many spans are drawn at most.
const maxSpans = 240

// report returns the worst minute, and all in spans that are longer where the time is long.
func (s series) report() (*Minute, *SeriesReport) {
	at := func(minute int64) time.Time { return time.Unix(minute*60, 0).UTC() }
	minutes := slices.Sorted(maps.Keys(s))
	begin, last, width := minutes[0], minutes[len(minutes)-1], int64(1)
	for (last-begin)/width >= maxSpans {
		width *= 2
	}
	spans := (last-begin)/width + 1
	all := &SeriesReport{at(begin), width * 60, make([]uint64, spans), make([]uint64, spans)}
	worst := begin
	for _, m := range minutes {
		c, i := s[m], (m-begin)/width
		all.Requests[i] += c.Requests
		all.Denied[i] += c.Denied
		if w := s[worst]; c.Denied > w.Denied || c.Denied == w.Denied && c.Requests > w.Requests {
			worst = m
		}
	}
	return &Minute{at(worst), s[worst]}, all
}
