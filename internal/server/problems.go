package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/operators"
	"weir/internal/operators/api"
)

// problemList collects the problems that a server has at the time now.
type problemList struct {
	now           time.Time
	before, began map[string]time.Time // starts of the previous and of the current problems, by format
	grace         time.Duration        // younger problems are not listed
	list          []api.Problem
}

const red, amber = true, false

// add adds a problem if the parameter there is true. If since is zero, the problem began when add
// first saw it. format identifies the problem. section is a section of docs/at-3am.md.
func (p *problemList) add(there, isRed bool, section string, since time.Time, means, format string, args ...any) {
	if !there {
		return
	}
	since = cmp.Or(p.before[format], since, p.now)
	p.began[format] = since
	if p.now.Sub(since) >= p.grace {
		p.list = append(p.list, api.Problem{Red: isRed, Since: since.UTC(), Text: fmt.Sprintf(format, args...), Means: means, Link: "docs/at-3am.md#" + section})
	}
}

// problems returns the current problems, worst first, given the states of all servers on this Redis.
func (d *debugPort) problems(all []api.Status) []api.Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &problemList{now: time.Now(), before: d.began, began: map[string]time.Time{}}
	lately, answers, unknown := d.rates.minute(), d.options.Settings.Answers, time.Time{}
	d.addRedis(p, lately.Undecided)
	if lately.Undecided > 0 && len(p.list) == 0 && !d.source.report().LoadedAt.IsZero() {
		from, to := d.rates.undecided()
		be, until := "are", time.Time{}
		if p.now.Sub(to) > ratesEvery {
			be, until = "were", to.UTC()
		}
		p.add(true, amber, "weir-is-slow-or-overloaded", from, such("They got an error or the answer of a failure mode. Envoy lets requests pass after an error unless failure_mode_deny is set", lately.Undecided), "Some requests %s not decided as usual", be)
		p.list[0].Until = until
	}
	d.addRules(p, lately.Undecided)
	p.add(answers.ShadowMode, amber, "nothing-is-limited", d.started, "No request is denied.", "SHADOW_MODE is on")
	p.add(answers.QuotaMode, amber, "nothing-is-limited", d.started, "A request is denied only if it exceeds all its limits.", "QUOTA_MODE is on")
	p.add(lately.evicted > 0, amber, "limits-start-again", unknown, fmt.Sprintf("Their limits start again too early: %d in the last minute.", lately.evicted), "Memory is full, so counters are dropped")
	emptied := time.Unix(d.desk.InForce.Emptied.Load(), 0)
	p.add(p.now.Sub(emptied) < 15*time.Minute, amber, "limits-start-again", emptied, "All limits have started again. Exceptions are restored.", "Redis came back without its data")
	d.addSecrets(p)
	p.add(len(d.desk.InForce.All()) >= operators.MaxExceptions, amber, "exceptions-are-refused", unknown, "No further limit can be lifted or raised.", "New exceptions are refused, because there are %d", operators.MaxExceptions)
	p.add(lately.lost > 0, amber, "metrics-or-logs-are-incomplete", unknown, fmt.Sprintf("Limits apply as usual. %d records were lost in the last minute.", lately.lost), "The decision log is incomplete")
	p.add(lately.unsent > 0, amber, "metrics-or-logs-are-incomplete", unknown, "Limits apply as usual. The log and weir_events_total say why.", "Events about used budgets cannot be sent")
	for _, w := range d.options.Settings.Warnings {
		p.add(w.Misspelt, amber, "nothing-is-limited", d.started, "A setting with a similar name may be at its default.", "The variable %s has no effect: %s", w.Variable, w.Instead)
	}
	p.grace = time.Minute // servers differ during each rollout
	for _, r := range respects {
		names, since := r.outdated(all)
		p.add(len(names) > 0, amber, "servers-differ", since, "The answer depends on the server that a request reaches.", "%d of %d servers "+r.verb+": %s", len(names), len(all), api.Short(strings.Join(names, ", "), 200))
	}
	d.began = p.began
	slices.SortStableFunc(p.list, byRank)
	return p.list
}

// byRank sorts red problems before others, and then current problems before past ones.
func byRank(a, b api.Problem) int {
	first := map[bool]int{false: 1}
	return cmp.Or(cmp.Compare(first[a.Red], first[b.Red]), cmp.Compare(first[a.Until.IsZero()], first[b.Until.IsZero()]))
}

// such returns the parameter means, followed by the number of such requests in the last minute.
func such(means string, requests uint64) string {
	return fmt.Sprintf("%s. %s in the last minute.", means, operators.Counted(int(requests), "such request"))
}

// addRedis adds a problem if Redis fails. undecided counts the undecided requests of the last minute.
func (d *debugPort) addRedis(p *problemList, undecided uint64) {
	if d.store.redis == nil {
		return
	}
	state, silence := d.store.redis.State(), d.desk.Servers.Silence()
	since, problem, answers := state.FailingSince, state.Kind+": "+state.Problem, state.Kind != "timeout" && state.Kind != "connection"
	recent := p.now.Sub(state.FailedAt) < 10*time.Second
	switch {
	case !since.IsZero() && (recent || silence != nil):
	case recent && answers: // Redis answers, but refuses some calls
		since = state.FailedAt
	case silence != nil && p.now.Sub(state.WorkedAt) > 5*time.Second: // without requests, only silence shows it
		since, problem, answers = p.now, silence.Error(), false
	default:
		return
	}
	mode, what := string(d.options.Settings.Failure.Mode), "does not answer"
	switch {
	case state.Breaker == "open":
		what = "does not answer, and is not asked until it does: the breaker is open"
	case answers:
		what = "refuses calls"
	}
	means := such(fmt.Sprintf("With failure_mode %s, %s", mode, api.Failures[mode]), undecided)
	p.add(true, red, "redis-fails", since, means, "Redis %s (%s)", what, api.Short(problem, 200))
}

// addRules adds the problems of the rules and of the control plane.
func (d *debugPort) addRules(p *problemList, undecided uint64) {
	rules := d.source.report()
	none, inUse := rules.LoadedAt.IsZero(), "The rules of "+operators.Times{Now: p.now.UTC()}.Clock(rules.LoadedAt)+" UTC are in use."
	if none {
		inUse = such("Without rules, "+api.Failures["error"], undecided)
	}
	problem, _, _ := strings.Cut(rules.Problems, "\n")
	if strings.Count(rules.Problems, "\n") > strings.Count(rules.Problems, "\n ") { // the lines of an excerpt begin with a space
		problem += " (and others)"
	}
	silent := none && problem == "" && rules.ControlPlane != "" && rules.AwaySince.IsZero()
	p.add(silent, red, "new-rules-have-no-effect", d.started, inUse, "The control plane is connected, but has sent no rules yet")
	p.add(none && !silent, red, "new-rules-have-no-effect", d.started, inUse, "There are no rules")
	p.add(!none && rules.Rules == 0, amber, "nothing-is-limited", rules.InUseSince, "Every request is admitted.", "The rules have no limits")
	p.add(problem != "", amber, "new-rules-have-no-effect", rules.RefusedSince, inUse+" A restart would fail.", "New rules are refused: %s", problem)
	p.add(!rules.AwaySince.IsZero(), amber, "new-rules-have-no-effect", rules.AwaySince, inUse, "The control plane is away")
}

// addSecrets adds refused secrets and certificates, and certificates that expire soon.
func (d *debugPort) addSecrets(p *problemList) {
	for _, problem := range d.secrets.refused(d.store) {
		p.add(true, amber, "a-secret-is-refused", time.Time{}, "The previous one stays in use. A restart would fail.", "A secret or certificate is refused: %s", problem)
	}
	for _, c := range d.secrets.tls {
		for _, certificate := range c.TLS.TLS().Certificates {
			end := certificate.Leaf.NotAfter
			share, left := end.Sub(certificate.Leaf.NotBefore)/100, end.Sub(p.now)
			p.add(left < 15*share, left < 3*share, "a-certificate-expires", end.Add(-15*share), "After that, the other side refuses connections.",
				"The certificate for "+c.name+" is valid %s", operators.Times{Now: p.now.UTC()}.Until(end))
		}
	}
}

// respect is a property in which servers should not differ.
type respect struct {
	name, verb string
	of         func(*api.Status) (value string, since time.Time) // returns the value, and when it came into use
}

var respects = []respect{
	{"rules", "decide by older rules", func(s *api.Status) (string, time.Time) { return s.Rules.Hash, s.Rules.InUseSince }},
	{"settings", "decide by older settings", func(s *api.Status) (string, time.Time) { return s.Settings, s.StartedAt }},
	{"version", "run an older version", func(s *api.Status) (string, time.Time) { return s.Version, s.StartedAt }},
}

// begin starts to look for problems every second, even if no one reads them, and to exchange states
// with the other servers on the same Redis. address returns the address of the debug port.
func (d *debugPort) begin(life *lifecycle, address func() string) {
	d.address = address
	life.background("problems", func(ctx context.Context) {
		for pause(ctx, time.Second) {
			d.own(d.others())
		}
	})
	if d.desk.Servers == nil {
		return
	}
	life.background("servers", func(ctx context.Context) {
		d.desk.Servers.Run(ctx, func() any { return d.own(d.others()) }, d.desk.Report)
	})
	for _, r := range respects {
		promauto.With(d.options.Registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_servers_outdated", Help: "Servers on this Redis without the newest rules, settings or version.",
			ConstLabels: prometheus.Labels{"by": r.name},
		}, func() float64 {
			names, _ := r.outdated(append(d.others(), d.alone()))
			return float64(len(names))
		})
	}
}

// outdated returns the names of the servers that do not have the newest value, and the time when that
// value came into use on the first server. The newest value is the one for which this time is latest.
func (r *respect) outdated(all []api.Status) (names []string, since time.Time) {
	first, newest := map[string]time.Time{}, ""
	for i := range all {
		value, since := r.of(&all[i])
		if was, known := first[value]; !known || since.Before(was) {
			first[value] = since
		}
	}
	for value, since := range first {
		if order := since.Compare(first[newest]); order > 0 || order == 0 && value > newest {
			newest = value
		}
	}
	for i := range all {
		if value, _ := r.of(&all[i]); value != newest {
			names = append(names, all[i].Name)
		}
	}
	return names, first[newest]
}
