package simulate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/offline/envoyconfig"
	"weir/internal/offline/simulate/accesslog"
	"weir/internal/plan"
)

// batch contains the events of a block of lines, sorted by time.
type batch struct {
	Counts
	log    string
	number uint64 // position of the batch in the order of reading
	data   []byte // text of the block
	clock  int64  // latest time of a line
	events []event
	next   int    // index of the next event that run.release decides
	hits   []hit  // hits of all events
	texts  []byte // keys of counters, one after the other
}

// event is a request with at least one hit. Times are in microseconds, truncated to milliseconds.
type event struct {
	at       int64 // since the epoch
	duration int64
	line     int64
	now, old asked // hits on limits of the rules, and of the old rules
}

// asked contains the hits at the beginning and at the end of a request.
type asked struct{ begins, ends []hit }

// hit is a hit with the statistics of its limit.
type hit struct {
	limiter.Hit
	of      *limitStats
	hash    uint64 // hash of the key
	newCall bool   // whether the hit is the first of a call to the server
}

// source makes the batches of a log, concurrently with the decisions. It parses each line and computes the
// descriptors from Envoy's configuration. Package plan makes the hits, as in the server.
type source struct {
	run     *run
	log     *accesslog.Source
	parser  *accesslog.Parser
	record  accesslog.Record
	request envoyconfig.Request
	results []envoyconfig.Result
	planner *plan.Planner
	plan    plan.Plan
	ask     plan.Request
	names   map[string]bool // the names in Config.Needs that at least one line has
	domains map[string]bool // domains with requests that have no limit
	batches chan *batch     // one for each block, in order
	failed  error           // valid after batches is closed; nil if the log was read to its end

	Counts        // sums over the batches that run has taken
	next   *batch // next batch, or nil at the end
	clock  int64  // latest time of the lines that run has taken
}

// noTime is the value of clock before the first line.
const noTime = math.MinInt64 / 2

// useless returns an error if the log has no readable line.
func (s *source) useless() error {
	switch {
	case s.Lines > s.Unreadable:
		return nil
	case s.Lines == 0:
		return cmp.Or(s.failed, fmt.Errorf("%s: the log is empty", s.log.Name))
	}
	lines := []error{fmt.Errorf("%s: no readable line", s.log.Name)}
	for _, w := range s.WrongLines {
		lines = append(lines, errors.New(w.String()))
	}
	return errors.Join(append(lines, s.failed)...)
}

// before reports whether the next event of b is earlier than the next event of o. At equal times, the batch that was
// read first is before the other.
func (b *batch) before(o *batch) bool { //nolint:unused // queue calls it
	at, other := b.events[b.next].at, o.events[o.next].at
	return at < other || at == other && b.number < o.number
}

// maxShown is the maximum number of unreadable lines in a report.
const maxShown = 5

// read reads the log, and sends a batch for each block to s.batches, which it closes at the end.
func (s *source) read(ctx context.Context) {
	defer close(s.batches)
	for {
		b := s.run.batches.Get().(*batch)
		block, number, err := s.log.Next(b.data)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.failed = err
			}
			return
		}
		*b = batch{log: s.log.Name, data: block, clock: noTime, events: b.events[:0], hits: b.hits[:0], texts: b.texts[:0]}
		for line := range bytes.Lines(block) {
			line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
			if len(line) > 0 {
				b.Lines++
				s.line(b, line, number)
			}
			number++
		}
		byTime := func(x, y event) int { return cmp.Compare(x.at, y.at) }
		if !slices.IsSortedFunc(b.events, byTime) {
			slices.SortStableFunc(b.events, byTime)
		}
		select {
		case s.batches <- b:
		case <-ctx.Done():
			return
		}
	}
}

func (b *batch) reject(number int64, why error, line []byte) {
	b.Unreadable++
	if len(b.WrongLines) < maxShown {
		const shown = 100
		text := plaintext.Line(string(line[:min(len(line), shown)]))
		if len(line) > shown {
			text += "..."
		}
		b.WrongLines = append(b.WrongLines, WrongLine{Log: b.log, Line: number, Why: why.Error(), Text: text})
	}
}

// line parses a line and adds its event to the batch, or counts the line as unreadable, idle or refused.
func (s *source) line(b *batch, line []byte, number int64) {
	r := &s.record
	if err := s.parser.Parse(line, r); err != nil {
		b.reject(number, err, line)
		return
	}
	ev := event{at: r.At - r.At%1000, duration: max(r.Duration, 0) / 1000 * 1000, line: number}
	b.clock = max(b.clock, r.At)
	if r.NoRequest {
		b.noRequest++
		b.Idle++
		return
	}
	s.describe(r)
	if s.results = s.run.Envoy.AppendDescriptors(s.results[:0], &s.request); len(s.results) == 0 {
		b.Idle++
		return
	}
	if r.Duration < 0 {
		b.endless++
	}
	hits, texts := len(b.hits), len(b.texts)
	err := s.appendHits(b, s.run.engine, &ev.now)
	if err == nil && s.run.old != nil {
		err = s.appendHits(b, s.run.old, &ev.old)
	}
	switch {
	case err != nil:
		b.hits, b.texts = b.hits[:hits], b.texts[:texts]
		if b.Refused++; b.Refusal == "" {
			b.Refusal = fmt.Sprintf("%s:%d: %s", b.log, number, plaintext.Line(err.Error()))
		}
	case len(b.hits) == hits:
		b.Idle++
	default:
		b.events = append(b.events, ev)
	}
}

// describe sets s.request to the request of a record.
func (s *source) describe(r *accesslog.Record) {
	q := &s.request
	q.Headers = q.Headers[:0]
	withoutPort := func(address string) string { return strings.Trim(envoyconfig.WithoutPort(address), "[]") }
	s.addHeader(":path", r.Path)
	s.addHeader(":method", r.Method)
	for _, name := range s.run.Envoy.Needs {
		value := r.Get(name) // accesslog uses the same names
		switch name {
		case ":path", ":method": // added above
		case envoyconfig.RemoteAddress:
			if value = withoutPort(value); value == "" {
				value = s.run.Envoy.LoggedClient(r.Get("x-forwarded-for"), withoutPort(r.Get(accesslog.DirectAddress)))
			}
			q.RemoteAddress = value
			if _, err := netip.ParseAddr(value); err != nil {
				value = ""
			}
		case envoyconfig.RouteName:
			q.Route = value
		default:
			s.addHeader(name, value)
		}
		if value != "" {
			s.names[name] = true
		}
	}
}

// addHeader adds a header unless its value is empty.
func (s *source) addHeader(name, value string) {
	if value != "" {
		s.request.Headers = append(s.request.Headers, envoyconfig.Header{Name: name, Value: value})
	}
}

// appendHits appends to b the hits of all descriptors on limits of e, and sets of.begins and of.ends to slices of b.hits.
func (s *source) appendHits(b *batch, e *engine, of *asked) error {
	first, ends := len(b.hits), len(b.hits)
	for rest := s.results; len(rest) > 0; { // results at the end of the request come last
		n := 1
		for n < len(rest) && rest[n].Call == rest[0].Call && rest[n].OnStreamDone == rest[0].OnStreamDone {
			n++
		}
		if err := s.call(b, e, rest[:n]); err != nil {
			return err
		}
		if !rest[0].OnStreamDone {
			ends = len(b.hits)
		}
		rest = rest[n:]
	}
	of.begins, of.ends = b.hits[first:ends:ends], b.hits[ends:len(b.hits):len(b.hits)]
	return nil
}

// call appends the hits of one call to the server.
func (s *source) call(b *batch, e *engine, results []envoyconfig.Result) error {
	s.ask.Domain = results[0].Domain
	s.ask.Descriptors = s.ask.Descriptors[:0]
	for i := range results {
		s.ask.Descriptors = append(s.ask.Descriptors, results[i].Descriptor)
	}
	if err := s.planner.Prepare(&s.plan, e.tree, &s.ask); err != nil {
		return err
	}
	if s.plan.Invalid != nil {
		return s.plan.Invalid
	}
	if len(s.plan.Hits) == 0 && !s.domains[s.ask.Domain] {
		s.domains[strings.Clone(s.ask.Domain)] = true
	}
	for i := range s.plan.Hits {
		h := hit{Hit: s.plan.Hits[i], newCall: i == 0}
		b.texts = append(b.texts, h.Key...)
		h.Key, h.Hold, h.Labels = b.texts[len(b.texts)-len(h.Key):], nil, nil // because the planner reuses their memory
		h.of, h.hash = e.byLimit[h.Limit], maphash.Bytes(s.run.seed, h.Key)
		b.hits = append(b.hits, h)
	}
	return nil
}
