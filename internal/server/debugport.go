package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/operators/console"
	"weir/internal/plan"
	"weir/internal/rls"
	"weir/internal/telemetry"
)

// openDesk returns the Desk with the operators' actions. It loads the exceptions and the assigned
// amounts, which options lack, into Desk.Plan. It calls loaded when both are loaded, or before it
// returns if Settings.Redis.ServeBeforeAssigned is true.
func openDesk(o Options, life *lifecycle, store *store, rules *rules, options plan.Options, started time.Time, loaded func()) *operators.Desk {
	desk := &operators.Desk{
		Logger: o.Logger, Tree: rules.tree.Load, Store: store, Plan: options,
		Recorder: operators.NewRecorder(started), Spending: operators.NewSpending(o.Registry), InForce: operators.NewExceptionStore(store.shared, o.Registry, o.Logger),
	}
	desk.Plan.Exceptions, desk.Plan.Assigned = &desk.InForce.Current, desk.InForce.Assigned()
	if store.shared != nil {
		desk.Servers = operators.NewServers(store.shared)
	}
	life.background("exceptions", func(ctx context.Context) { desk.InForce.Run(ctx, loaded) })
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond) // if Redis does not answer yet, InForce.Run tries again
	defer cancel()
	if err := desk.InForce.Load(ctx); err == nil || o.Settings.Redis.ServeBeforeAssigned { // Load logs its error
		loaded()
	}
	return desk
}

// debugPort makes the endpoints of the debug port from the other parts of the server.
type debugPort struct {
	options Options
	started time.Time
	health  *health
	secrets *secrets
	store   *store
	rules   *rules
	source  source
	desk    *operators.Desk
	usage   *telemetry.Usage
	rates   *rates

	address func() string // returns the address of the debug port
	mu      sync.Mutex
	began   map[string]time.Time // starts of the current problems
}

// server returns the endpoints of the debug port. metrics is the handler of GET /stats.
func (d *debugPort) server(metrics http.Handler) *api.Server {
	server := &api.Server{
		Desk: d.desk, Access: d.secrets.access, Status: d.status, Metrics: metrics, Reload: d.source.reload,
		Dump: func(w io.Writer) error { return d.rules.dump(w, d.source.report()) },
	}
	server.Console = console.New(server, console.Options{
		History: d.rates.history, Loads: d.rules.lastLoads, Outcomes: d.usage.Outcomes,
		StoreMetrics: d.store.registry,
	})
	return server
}

// status returns the state of the server, with the states of all servers on its Redis.
func (d *debugPort) status() api.Status {
	others := d.others()
	status := d.own(others)
	status.Servers = byName(append(others, status))
	return status
}

// own returns the state of this server with Problems, without Servers, given the states of the other servers.
func (d *debugPort) own(others []api.Status) api.Status {
	status := d.alone()
	status.Problems = append(status.Problems, d.problems(byName(append(others, status)))...)
	return status
}

// others returns the states of the other servers on the same Redis, or nil without Redis.
func (d *debugPort) others() (list []api.Status) {
	if d.desk.Servers == nil {
		return nil
	}
	for _, text := range d.desk.Servers.Others() {
		var other api.Status
		if json.Unmarshal([]byte(text), &other) == nil {
			list = append(list, other)
		}
	}
	return slices.Clip(list) // so that callers can append
}

func byName(servers []api.Status) []api.Status {
	slices.SortFunc(servers, func(a, b api.Status) int { return cmp.Compare(a.Name, b.Name) })
	return servers
}

// alone returns the state of this server only, with no Problems and no Servers.
func (d *debugPort) alone() api.Status {
	host, _ := os.Hostname() // without a host name, the port alone names the server
	_, port, _ := net.SplitHostPort(d.address())
	rates := d.rates.latest()
	status := api.Status{
		Name: net.JoinHostPort(host, port), Version: d.options.Build.String(), Health: "OK", Problems: []api.Problem{}, // not null in JSON
		StartedAt: d.started.UTC(), UptimeSeconds: time.Since(d.started).Seconds(),
		Settings: settingsHash(d.options.Settings), Store: d.storeStatus(), Rules: d.source.report(), Exceptions: len(d.desk.InForce.All()),
		Decisions: rates.Decisions, Denials: rates.Denials, Undecided: rates.Undecided,
	}
	if err := d.health.err(); err != nil {
		status.Health = err.Error()
	}
	return status
}

// storeStatus returns the state of the store.
func (d *debugPort) storeStatus() api.Store {
	if d.store.redis == nil {
		return api.Store{Name: fmt.Sprintf("in memory, at most %d", d.store.maxCounters), Works: true}
	}
	now := d.store.redis.State()
	status := api.Store{
		Name:  "in Redis at " + d.store.redisNames(),
		Works: now.FailingSince.IsZero() && !now.WorkedAt.IsZero(), WorkedAt: now.WorkedAt.UTC(),
		FailingSince: now.FailingSince.UTC(), FailedAt: now.FailedAt.UTC(),
		FailureMode: string(d.options.Settings.Failure.Mode), Breaker: now.Breaker,
	}
	if !now.FailedAt.IsZero() {
		status.Problem = now.Kind + ": " + now.Problem
	}
	return status
}

// ratesEvery is the interval between two samples. rates keeps ratesKept intervals, which are 15 minutes.
const ratesEvery, ratesKept = 5 * time.Second, 180

// totals are counts since the start: requests, counters dropped from memory, lost records of the
// decision log, and failures to send events.
type totals struct {
	rls.Totals
	evicted, lost, unsent uint64
}

func totalsOf(requests *rls.Service, store *store, decisions *operators.DecisionLog, events *operators.Events) totals {
	t := totals{Totals: requests.Totals()}
	if store.redis == nil {
		t.evicted = store.memory.Evictions.Load()
	} else {
		t.Undecided += store.failover.Requests.Load()
	}
	if decisions != nil {
		t.lost = decisions.Lost.Load()
	}
	if events != nil {
		t.unsent = events.Failed.Load()
	}
	return t
}

// rates keeps samples of totals for 15 minutes.
type rates struct {
	totals func() totals

	mu      sync.Mutex
	samples []sample // oldest first, at most ratesKept+1
}

// sample has the totals at one time.
type sample struct {
	at time.Time
	totals
}

func newRates(totals func() totals) *rates {
	r := &rates{totals: totals}
	r.samples = []sample{r.sample()}
	return r
}

func (r *rates) sample() sample { return sample{time.Now(), r.totals()} }

// run takes samples until ctx ends.
func (r *rates) run(ctx context.Context) {
	for pause(ctx, ratesEvery) {
		r.mu.Lock()
		r.samples = append(r.samples[max(0, len(r.samples)-ratesKept):], r.sample())
		r.mu.Unlock()
	}
}

// all returns the samples, oldest first, followed by a sample of the current totals.
func (r *rates) all() []sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(slices.Clip(r.samples), r.sample())
}

// history returns the rates of the last 15 minutes, oldest first.
func (r *rates) history() (list []api.Rates) {
	all := r.all()
	for i, next := range all[1 : len(all)-1] {
		list = append(list, all[i].until(next))
	}
	return list
}

// latest returns the rates of the last five to ten seconds, or since the start.
func (r *rates) latest() api.Rates {
	all := r.all()
	return all[max(0, len(all)-3)].until(all[len(all)-1])
}

// minute returns the growth of Undecided, evicted, lost and unsent in the last minute, or since the start.
func (r *rates) minute() (grown totals) {
	all := r.all()
	now, was := all[len(all)-1], all[max(0, len(all)-1-int(time.Minute/ratesEvery))]
	grown.Undecided, grown.evicted = now.Undecided-was.Undecided, now.evicted-was.evicted
	grown.lost, grown.unsent = now.lost-was.lost, now.unsent-was.unsent
	return grown
}

// undecided returns the start and end of the last undecided requests less than a minute apart, or zeros.
func (r *rates) undecided() (from, to time.Time) {
	all := r.all()
	for i := len(all) - 1; i > 0; i-- {
		was, is := all[i-1], all[i]
		if was.Undecided < is.Undecided && (to.IsZero() || from.Sub(is.at) < time.Minute) {
			from, to = was.at, cmp.Or(to, is.at)
		}
	}
	return from, to
}

// until returns the rates between s and next.
func (s sample) until(next sample) api.Rates {
	rates := api.Rates{At: next.at.UTC()}
	if seconds := next.at.Sub(s.at).Seconds(); seconds > 0 {
		rates.Decisions, rates.Denials = float64(next.Decided-s.Decided)/seconds, float64(next.Denied-s.Denied)/seconds
		rates.Undecided = float64(next.Undecided-s.Undecided) / seconds
	}
	return rates
}
