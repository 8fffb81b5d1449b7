package simulate

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/offline/envoyconfig"
	"weir/internal/offline/simulate/accesslog"
	"weir/internal/plan"
)

// batch is what became of a block of lines, in the order of their times.
type batch struct {
	Counts
	log    string
	number uint64 // of batches, in the order in which they were read
	data   []byte // of the block
	clock  int64  // the latest time of a line
	events []event
	next   int    // event, see merger.release
	hits   []hit  // of all events
	texts  []byte // keys of counters, one after the other
}

// event is a request that asks for limits. Times are whole milliseconds, in microseconds.
type event struct {
	at       int64 // since the epoch
	duration int64
	line     int64
	now, old asked // of the rules, and of those that they are compared with
}

// asked are the hits of a request when it begins, and those when it ends.
type asked struct{ begins, ends []hit }

// hit is what a request asks of a limit.
type hit struct {
	limiter.Hit
	of      *limitStats
	hash    uint64 // of the key
	newCall bool   // it is the first of a request to the server
}

// worker makes hits of lines: a line is parsed, Envoy's configuration says which descriptors
// it sends, and plan what they ask for, as in the server.
type worker struct {
	run     *run
	parser  *accesslog.Parser
	record  accesslog.Record
	request envoyconfig.Request
	results []envoyconfig.Result
	planner *plan.Planner
	plan    plan.Result
	ask     plan.Request
	seen
}

// seen is what lines have of what Envoy's configuration looks at.
type seen struct {
	names   map[string]bool
	domains map[string]bool // of requests without limits
}

func newWorker(r *run) *worker {
	return &worker{
		run: r, parser: accesslog.NewParser(r.Format, r.Mapping), planner: plan.New(r.Plan),
		seen: seen{names: map[string]bool{}, domains: map[string]bool{}},
	}
}

// maxShown is how many lines that cannot be read are shown.
const maxShown = 5

// work makes a batch of a block, whose first line has a number.
func (w *worker) work(b *batch, log string, block []byte, number int64) {
	*b = batch{log: log, data: block, clock: noTime, events: b.events[:0], hits: b.hits[:0], texts: b.texts[:0]}
	for line := range bytes.Lines(block) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
		if len(line) > 0 {
			b.Lines++
			w.line(b, line, number)
		}
		number++
	}
	byTime := func(x, y event) int { return cmp.Compare(x.at, y.at) }
	if !slices.IsSortedFunc(b.events, byTime) {
		slices.SortStableFunc(b.events, byTime)
	}
}

// reject counts a line that cannot be read.
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

// line makes an event of a line.
func (w *worker) line(b *batch, line []byte, number int64) {
	r := &w.record
	if err := w.parser.Parse(line, r); err != nil {
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
	w.describe(r)
	if w.results = w.run.Envoy.AppendDescriptors(w.results[:0], &w.request); len(w.results) == 0 {
		b.Idle++
		return
	}
	if r.Duration < 0 {
		b.endless++
	}
	hits, texts := len(b.hits), len(b.texts)
	err := w.appendHits(b, w.run.engine, &ev.now)
	if err == nil && w.run.old != nil {
		err = w.appendHits(b, w.run.old, &ev.old)
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

// describe makes what Envoy knew of a request from what its log says.
func (w *worker) describe(r *accesslog.Record) {
	q := &w.request
	q.Headers = q.Headers[:0]
	w.add(":path", r.Path)
	w.add(":method", r.Method)
	for _, name := range w.run.Envoy.Needs() {
		there := false
		switch name {
		case ":path", ":method":
			there = r.Get(name) != ""
		case envoyconfig.RemoteAddress:
			if q.RemoteAddress = withoutPort(r.Get(accesslog.RemoteAddress)); q.RemoteAddress == "" {
				q.RemoteAddress = w.run.Envoy.LoggedClient(r.Get("x-forwarded-for"), withoutPort(r.Get(accesslog.DirectAddress)))
			}
			if !w.names[name] {
				_, err := netip.ParseAddr(q.RemoteAddress)
				there = err == nil
			}
		case envoyconfig.RouteName:
			q.Route = r.Get(accesslog.RouteName)
			there = q.Route != ""
		default:
			there = w.add(name, r.Get(name))
		}
		if there && !w.names[name] {
			w.names[name] = true
		}
	}
}

// add adds a header if the log says it, and reports whether it does.
func (w *worker) add(name, value string) bool {
	if value != "" {
		w.request.Headers = append(w.request.Headers, envoyconfig.Header{Name: name, Value: value})
	}
	return value != ""
}

// withoutPort returns the address of such as 10.0.0.1:80, [::1]:80 and ::1.
func withoutPort(address string) string {
	if inside, ok := strings.CutPrefix(address, "["); ok {
		address, _, _ = strings.Cut(inside, "]")
	} else if host, port, ok := strings.Cut(address, ":"); ok && !strings.Contains(port, ":") {
		return host
	}
	return address
}

// appendHits appends the hits of all descriptors by the rules of an engine.
func (w *worker) appendHits(b *batch, e *engine, of *asked) error {
	first, ends := len(b.hits), -1
	for rest := w.results; len(rest) > 0; { // those that Envoy waits for come first
		n := 1
		for n < len(rest) && rest[n].Call == rest[0].Call && rest[n].OnStreamDone == rest[0].OnStreamDone {
			n++
		}
		if rest[0].OnStreamDone && ends < 0 {
			ends = len(b.hits)
		}
		if err := w.call(b, e, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if ends < 0 {
		ends = len(b.hits)
	}
	of.begins, of.ends = b.hits[first:ends:ends], b.hits[ends:len(b.hits):len(b.hits)]
	return nil
}

// call appends the hits of one request to the server.
func (w *worker) call(b *batch, e *engine, results []envoyconfig.Result) error {
	w.ask.Domain = results[0].Domain
	w.ask.Descriptors = w.ask.Descriptors[:0]
	for i := range results {
		w.ask.Descriptors = append(w.ask.Descriptors, results[i].Descriptor)
	}
	if err := w.planner.Prepare(&w.plan, e.tree, &w.ask); err != nil {
		return err
	}
	if len(w.plan.Hits) == 0 && !w.domains[w.ask.Domain] {
		w.domains[strings.Clone(w.ask.Domain)] = true
	}
	for i := range w.plan.Hits {
		h := hit{Hit: w.plan.Hits[i], newCall: i == 0}
		b.texts = append(b.texts, h.Key...)
		h.Key, h.Hold, h.Labels = b.texts[len(b.texts)-len(h.Key):], nil, nil // which are those of the planner
		h.of, h.hash = e.byLimit[h.Limit], maphash.Bytes(w.run.seed, h.Key)
		b.hits = append(b.hits, h)
	}
	return nil
}
