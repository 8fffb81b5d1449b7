package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// ask returns the hits of a request with a call for each client, the first of whom is one of the first limit.
func (e *engine) ask(clients ...uint64) (of asked) {
	for i, c := range clients {
		s := e.limits[i]
		of.begins = append(of.begins, hit{Hit: limiter.Hit{Limit: s.limit, Cost: 1}, of: s, hash: (c + 1) * 0x9E3779B97F4A7C15, newCall: true})
	}
	return of
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
			testenv.OK(t, errors.Join(r.WriteText(&text), r.WriteHTML(&html), back.WriteText(&text), back.WriteHTML(&html)))
			for _, want := range []string{
				"denied only by the new rules: 3 requests of 2 clients, of whom the old rules never deny 1\n",
				"denied only by the old rules: 0 requests\n",
				"denied only by the old rules: 3 requests of 2 clients, of whom the new rules never deny 1\n",
				"<p>3 requests of 2 clients, of whom the old rules never deny 1</p>",
				"<p>3 requests of 2 clients, of whom the new rules never deny 1</p>",
			} {
				if !strings.Contains(text.String()+html.String(), want) {
					t.Errorf("%q is not in\n%s%s", want, text.String(), html.String())
				}
			}
		})
	}
}
