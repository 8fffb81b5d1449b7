package simulate

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"net/netip"
	"strings"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/offline/envoyconfig"
	"weir/internal/offline/simulate/accesslog"
	"weir/internal/plan"
)

// shared is what all workers have in common.
type shared struct {
	opts     *Options
	seed     maphash.Seed // of the hashes of keys, which no client can make alike
	rules    *registry
	oldRules *registry // nil unless rules are compared
	headers  []string
	needs    envoyconfig.Needs
}

// registry numbers the limits of a tree. It does not change.
type registry struct {
	tree    *descriptors.Tree
	limits  []*limitStats
	numbers map[*limiter.Limit]uint32
}

func newRegistry(tree *descriptors.Tree) *registry {
	r := &registry{tree: tree, numbers: map[*limiter.Limit]uint32{}}
	for rule, l := range tree.LimitsOfRules() {
		if !l.Unlimited {
			r.numbers[l] = uint32(len(r.limits))
			r.limits = append(r.limits, &limitStats{rule: rule, limit: l})
		}
	}
	return r
}

// worker makes hits of lines: a line is parsed, Envoy's configuration says which descriptors
// it sends, and plan what they ask for, as in the server.
type worker struct {
	*shared
	parser  *accesslog.Parser
	record  accesslog.Record
	request envoyconfig.Request
	results []envoyconfig.Result
	planner *plan.Planner
	plan    plan.Result
	ask     plan.Request
	seen    [accesslog.Fields]bool // fields that some line has
	address bool                   // some line has an IP address of the client
	// noAddress is the first field in place of one, with its text.
	noAddress string
	// Domains of requests for which there are no rules, and no old ones.
	foreign, foreignOld map[string]bool
}

func newWorker(s *shared) *worker {
	return &worker{
		shared: s, parser: accesslog.NewParser(s.opts.Format, s.opts.Mapping),
		planner: plan.New(s.opts.Plan),
		foreign: map[string]bool{}, foreignOld: map[string]bool{},
	}
}

// job is a block that a worker makes a batch of.
type job struct {
	log   string
	block accesslog.Block
	buf   []byte
	into  *batch
	done  chan<- *batch
}

// maxShown is how many lines that cannot be read are shown.
const maxShown = 5

func (w *worker) work(j job) {
	b := j.into
	b.reset()
	b.log = j.log
	number := j.block.First
	for data := j.block.Data; len(data) > 0; number++ {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		if line = bytes.TrimSuffix(line, []byte{'\r'}); len(line) > 0 {
			w.line(b, line, number)
		}
	}
	if j.block.Long > 0 {
		b.lines++
		b.reject(j.block.Long, accesslog.ErrLong, nil)
	}
	b.sort()
}

// reject counts a line that cannot be read.
func (b *batch) reject(number int64, why error, line []byte) {
	b.bad++
	if len(b.wrong) < maxShown {
		const shown = 100
		text := plaintext.Line(string(line[:min(len(line), shown)]))
		if len(line) > shown {
			text += "..."
		}
		b.wrong = append(b.wrong, WrongLine{Log: b.log, Line: number, Why: why.Error(), Text: text})
	}
}

// line makes an event of a line.
func (w *worker) line(b *batch, line []byte, number int64) {
	b.lines++
	r := &w.record
	if err := w.parser.Parse(line, r); err != nil {
		b.reject(number, err, line)
		return
	}
	b.read(r.At, number)
	if r.NoRequest {
		b.noRequest++
		b.idle++
		return
	}
	w.describe(r)
	w.results = w.opts.Envoy.AppendDescriptors(w.results[:0], &w.request)
	if len(w.results) == 0 {
		b.idle++
		return
	}
	ev := event{at: r.At - r.At%1000, line: number, first: uint32(len(b.hits))}
	if r.Duration < 0 {
		b.endless++
	}
	ev.duration = int32(min(max(r.Duration, 0)/1000, math.MaxInt32))
	hits, texts := len(b.hits), len(b.texts)
	err := w.appendHits(b, w.rules, &ev.begin, &ev.end)
	if err == nil && w.oldRules != nil {
		err = w.appendHits(b, w.oldRules, &ev.oldBegin, &ev.oldEnd)
	}
	switch {
	case err != nil:
		b.hits, b.texts = b.hits[:hits], b.texts[:texts]
		if b.refused++; b.refusal == "" {
			b.refusal = fmt.Sprintf("%s:%d: %s", plaintext.Line(b.log), number, plaintext.Line(err.Error()))
		}
	case len(b.hits) == hits:
		b.idle++
	default:
		b.events = append(b.events, ev)
	}
}

// describe makes what Envoy knew of a request from what its log says.
func (w *worker) describe(r *accesslog.Record) {
	q, needs := &w.request, &w.needs
	q.Method, q.Path = w.get(r, accesslog.Method, true), w.get(r, accesslog.Path, true)
	q.Authority = w.get(r, accesslog.Authority, needs.Authority)
	q.Scheme, q.Route = w.get(r, accesslog.Scheme, needs.Scheme), w.get(r, accesslog.RouteName, needs.Route)
	q.Headers = q.Headers[:0]
	for _, name := range w.headers {
		if value, ok := r.Header(name); ok {
			q.Headers = append(q.Headers, envoyconfig.Header{Name: name, Value: value})
		}
	}
	if !needs.RemoteAddress {
		return
	}
	name, text := "remote_address", w.get(r, accesslog.RemoteAddress, true)
	if q.RemoteAddress = withoutPort(text); text == "" {
		name, text = "x-forwarded-for", w.get(r, accesslog.ForwardedFor, true)
		q.RemoteAddress = w.opts.Envoy.LoggedClient(text, withoutPort(w.get(r, accesslog.DirectAddress, true)))
	}
	if !w.address && text != "" {
		if _, err := netip.ParseAddr(q.RemoteAddress); err == nil {
			w.address = true
		} else if w.noAddress == "" {
			w.noAddress = fmt.Sprintf("%s %q", name, text[:min(len(text), 100)])
		}
	}
}

// get returns a field that is needed, and notes that some line has it.
func (w *worker) get(r *accesslog.Record, f accesslog.Field, needed bool) string {
	if !needed {
		return ""
	}
	text := r.Get(f)
	if text != "" && !w.seen[f] {
		w.seen[f] = true
	}
	return text
}

// withoutPort returns the address of such as 10.0.0.1:80, [::1]:80 and ::1.
func withoutPort(address string) string {
	colon := strings.LastIndexByte(address, ':')
	switch {
	case strings.HasPrefix(address, "["):
		address, _, _ = strings.Cut(address[1:], "]")
		return address
	case colon < 0 || strings.IndexByte(address, ':') < colon:
		return address
	default:
		return address[:colon]
	}
}

// appendHits appends the hits of all descriptors by the rules of a registry, those of requests to the server
// that Envoy waits for first.
func (w *worker) appendHits(b *batch, rules *registry, begin, end *uint16) error {
	for _, of := range []struct {
		done  bool
		count *uint16
	}{{false, begin}, {true, end}} {
		first := len(b.hits)
		for i := 0; i < len(w.results); {
			n := i + 1
			for n < len(w.results) && w.results[n].Call == w.results[i].Call && w.results[n].OnStreamDone == w.results[i].OnStreamDone {
				n++
			}
			if w.results[i].OnStreamDone == of.done {
				if err := w.appendCall(b, rules, w.results[i:n]); err != nil {
					return err
				}
			}
			i = n
		}
		if len(b.hits)-first > math.MaxUint16 {
			return fmt.Errorf("the request has more than %d limits", math.MaxUint16)
		}
		*of.count = uint16(len(b.hits) - first)
	}
	return nil
}

// appendCall appends the hits of one request to the server.
func (w *worker) appendCall(b *batch, rules *registry, results []envoyconfig.Result) error {
	w.ask.Domain = results[0].Domain
	w.ask.Descriptors = w.ask.Descriptors[:0]
	for i := range results {
		r := &results[i]
		w.ask.Descriptors = append(w.ask.Descriptors, plan.Descriptor{
			Entries: r.Entries, HitsAddend: r.HitsAddend, HasHitsAddend: r.HasHitsAddend, Refund: r.NegativeHits,
		})
	}
	if err := w.planner.Prepare(&w.plan, rules.tree, &w.ask); err != nil {
		return err
	}
	if len(w.plan.Hits) == 0 && !rules.tree.HasDomain(w.ask.Domain) {
		if rules == w.oldRules {
			w.foreignOld[w.ask.Domain] = true
		} else {
			w.foreign[w.ask.Domain] = true
		}
	}
	for i := range w.plan.Hits {
		h := &w.plan.Hits[i]
		m := flags(0)
		if i == 0 {
			m |= newCall
		}
		if h.Refund {
			m |= refund
		}
		if h.Always {
			m |= always
		}
		b.hits = append(b.hits, hit{
			hash: maphash.Bytes(w.seed, h.Key), cost: h.Cost, limit: rules.numbers[h.Limit],
			text: uint32(len(b.texts)), length: uint16(len(h.Key)), flags: m, mode: h.Mode,
		})
		b.texts = append(b.texts, h.Key...)
	}
	return nil
}
