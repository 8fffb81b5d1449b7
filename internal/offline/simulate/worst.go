package simulate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"weir/internal/telemetry/sketch"
)

// worst counts the denials of the most denied clients.
type worst struct{ clients *sketch.Sketch[offender] }

type offender struct {
	name string
	last uint64 // number of the last request that was counted
}

const maxWorst = 128

// add counts a denied request, but only once for each client. request is the request's number,
// which must not decrease from call to call.
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

// top returns up to n clients with the most denials. It omits a client if more than three quarters of the client's
// denials may be other clients' denials: if many clients are denied equally often, none of them is the worst.
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

// count counts the requests of a minute or another span of time.
type count struct {
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
}

// series counts requests by minute since the epoch.
type series map[int64]count

const minute = 60_000_000 // microseconds

// add adds numbers of requests and of denied requests at the time now, in microseconds since the epoch.
func (s series) add(now int64, requests, denied uint64) {
	c := s[now/minute]
	s[now/minute] = count{c.Requests + requests, c.Denied + denied}
}

// maxSpans is the maximum number of spans in a chart.
const maxSpans = 240

// report returns the worst minute, and the series in at most maxSpans spans of one minute or more.
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
