package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// limitsOf returns an engine with limits, each of so many requests per unit.
func limitsOf(t *testing.T, unit limiter.Unit, amounts ...uint64) *engine {
	e := &engine{plan: &plan.Options{}}
	for _, amount := range amounts {
		e.limits = append(e.limits, newStats(nil, mustLimit(t, limiter.Spec{RequestsPerUnit: amount, Unit: unit}), false))
	}
	return e
}

// ask returns the hits of a request with a call for each client, the first of whom is one of the first limit.
func (e *engine) ask(clients ...uint64) (of asked) {
	for i, c := range clients {
		s := e.limits[i]
		of.begins = append(of.begins, hit{Hit: limiter.Hit{Limit: s.limit, Cost: 1}, of: s, hash: (c + 1) * 0x9E3779B97F4A7C15, newCall: true})
	}
	return of
}

// compared returns a run that compares limits, each of so many requests per unit.
func compared(t *testing.T, unit limiter.Unit, now, old []uint64) *run {
	return &run{Options: &Options{}, report: &Report{}, engine: limitsOf(t, unit, now...), old: limitsOf(t, unit, old...)}
}

func (r *run) request(at int64, clients ...uint64) {
	r.decide(&batch{times: make([]lineTime, 1)}, &event{at: at, now: r.engine.ask(clients...), old: r.old.ask(clients...)})
}

const someTime = 1_700_000_000_000_000

// A comparison counts the clients that a set of all of them counts, whatever comes.
func TestComparedClients(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	now, old := []uint64{55, 3, 1}, []uint64{57, 6, 2}
	r, alone := compared(t, limiter.Hour, now, old), compared(t, limiter.Hour, now, old)
	differ, before := map[uint64]bool{}, map[uint64]bool{}
	for i := range int64(30_000) {
		at := someTime + i*3_000_000
		clients := []uint64{random.Uint64N(20), 100 + random.Uint64N(300), 1000 + random.Uint64N(3000)}[:1+random.IntN(3)]
		r.request(at, clients...)
		now, old := alone.engine.ask(clients...), alone.old.ask(clients...)
		denied, was := alone.engine.decide(&now, at, 0), alone.old.decide(&old, at, 0)
		if denied != nil && was == nil {
			differ[denied.hash] = true
		}
		for _, h := range now.begins {
			before[h.hash] = before[h.hash] || was != nil
		}
	}
	only := uint64(0)
	for hash := range differ {
		if !before[hash] {
			only++
		}
	}
	if d := r.nowOnly.report(); d.Clients != uint64(len(differ)) || d.ClientsOnly != only || only == 0 {
		t.Errorf("%d clients differ, %d of whom were never denied before, want %d and %d", d.Clients, d.ClientsOnly, len(differ), only)
	}
}

// Clients that both sets of rules deny are told from those that only one denies, also if their limits count
// by other keys.
func TestCompare(t *testing.T) {
	log := requests(t, "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.3", "10.0.0.3")
	old := strings.Replace(perAddress, "requests_per_unit: 2", "requests_per_unit: 4", 1)
	for name, rules := range map[string][2]string{
		"of a minute": {perAddress, old},
		"of an hour":  {perAddress, strings.Replace(old, "minute", "hour", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			options := Options{Logs: []string{log}, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, rules[0]), Old: mustRules(t, rules[1])}
			r := mustRun(t, options)
			if got := fmt.Sprint(r.Compared.NowOnly.WorstClients); r.Compared.DeniedBefore != 1 || r.Compared.BeforeOnly.Requests != 0 || got != "[{remote_address=10.0.0.1 2 0} {remote_address=10.0.0.3 1 0}]" {
				t.Errorf("%+v", r.Compared)
			}
			if d := r.Compared.NowOnly; d.Requests != 3 || d.Clients != 2 || d.ClientsOnly != 1 {
				t.Errorf("%+v", d)
			}
			options.Rules, options.Old = options.Old, options.Rules
			back := mustRun(t, options)
			if d := back.Compared.BeforeOnly; back.Compared.DeniedBefore != 4 || back.Compared.NowOnly.Requests != 0 || d.Requests != 3 || d.Clients != 2 || d.ClientsOnly != 1 {
				t.Errorf("the reverse: %+v", back.Compared)
			}
			var text, html bytes.Buffer
			if err := errors.Join(r.WriteText(&text), r.WriteHTML(&html), back.WriteText(&text), back.WriteHTML(&html)); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				"denied now, and not by the old rules: 3 requests of 2 clients, of whom 1 were never denied before\n",
				"denied by the old rules, and not now: 0 requests\n",
				"denied by the old rules, and not now: 3 requests of 2 clients, of whom 1 are never denied now\n",
				"<p>3 requests of 2 clients, of whom 1 were never denied before</p>",
				"<p>3 requests of 2 clients, of whom 1 are never denied now</p>",
			} {
				if !strings.Contains(text.String()+html.String(), want) {
					t.Errorf("%q is not in\n%s%s", want, text.String(), html.String())
				}
			}
		})
	}
}
