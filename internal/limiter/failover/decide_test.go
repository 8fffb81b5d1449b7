package failover

import (
	"errors"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// Limits of 3 per minute, one for each failure mode.
var (
	byDefault, erring, allowing, denying, locally = of(0), of(limiter.FailureError), of(limiter.FailureAllow), of(limiter.FailureDeny), of(limiter.FailureLocal)

	none = storetest.Must(limiter.Spec{Unit: limiter.Minute, FailureMode: limiter.FailureAllow})
	veto = storetest.Must(limiter.Spec{Unit: limiter.Day, FailureMode: limiter.FailureDeny, Veto: true})
)

func of(mode limiter.FailureMode) *limiter.Limit {
	return storetest.Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute, FailureMode: mode})
}

// hit asks for one unit of l, on one counter for each failure mode. The functions below change
// the hit.
func hit(l *limiter.Limit) limiter.Hit {
	return limiter.Hit{Limit: l, Key: []byte(l.FailureMode.String()), Cost: 1}
}

func times(n uint64, h limiter.Hit) limiter.Hit { h.Cost = n; return h }
func always(h limiter.Hit) limiter.Hit          { h.Always = true; return h }
func refund(h limiter.Hit) limiter.Hit          { h.Refund = true; return h }
func shadow(h limiter.Hit) limiter.Hit          { h.Mode = limiter.Shadow; return h }
func quota(h limiter.Hit) limiter.Hit           { h.Mode = limiter.Quota; return h }
func grouped(h limiter.Hit) limiter.Hit         { h.Mode, h.Group = limiter.Quota, 1; return h }

// The decisions of the failure modes.
var (
	allowed = limiter.Decision{Charged: true, Remaining: 3}
	spared  = limiter.Decision{Remaining: 3} // allowed, but another limit denies
	denied  = limiter.Decision{Over: true, Used: 3, ResetAfter: time.Second, RetryAfter: time.Second}
)

func charged(used int64) limiter.Decision {
	return limiter.Decision{Charged: true, Used: used, Remaining: 3 - used, ResetAfter: 30 * time.Second}
}

func TestModes(t *testing.T) {
	type requests = [][]limiter.Hit
	for _, c := range []struct {
		name   string
		mode   limiter.FailureMode // default of the server
		before requests            // requests decided before hits
		hits   []limiter.Hit
		want   []limiter.Decision // nil for an error
		denied bool
	}{
		{name: "error", hits: []limiter.Hit{hit(erring)}},
		{name: "allow", hits: []limiter.Hit{hit(allowing)}, want: []limiter.Decision{allowed}},
		{name: "deny", hits: []limiter.Hit{hit(denying)}, want: []limiter.Decision{denied}, denied: true},
		{name: "local", hits: []limiter.Hit{hit(locally)}, want: []limiter.Decision{charged(1)}},

		{name: "the server's is error by default", hits: []limiter.Hit{hit(byDefault)}},
		{name: "the server's is allow", mode: limiter.FailureAllow, hits: []limiter.Hit{hit(byDefault)}, want: []limiter.Decision{allowed}},
		{name: "the server's is deny", mode: limiter.FailureDeny, hits: []limiter.Hit{hit(byDefault)}, want: []limiter.Decision{denied}, denied: true},
		{name: "the server's is local", mode: limiter.FailureLocal, hits: []limiter.Hit{hit(byDefault)}, want: []limiter.Decision{charged(1)}},
		{name: "the limit's wins", mode: limiter.FailureAllow, hits: []limiter.Hit{hit(erring)}},

		{name: "error wins over all", hits: []limiter.Hit{hit(locally), hit(allowing), hit(erring), hit(denying)}},
		{name: "but not over an exception that denies", hits: []limiter.Hit{hit(erring), hit(veto), always(hit(locally))},
			want: []limiter.Decision{spared, {Over: true, ResetAfter: time.Second, RetryAfter: limiter.Never}, charged(1)}, denied: true},
		{name: "unless that is in shadow mode", hits: []limiter.Hit{hit(erring), shadow(hit(veto))}},
		{name: "allow beside local", hits: []limiter.Hit{hit(allowing), hit(locally)}, want: []limiter.Decision{allowed, charged(1)}},
		{name: "allow beside deny", hits: []limiter.Hit{hit(allowing), hit(denying)}, want: []limiter.Decision{spared, denied}, denied: true},
		{name: "allow beside local that is over", before: requests{{times(3, hit(locally))}}, hits: []limiter.Hit{hit(allowing), hit(locally)},
			want: []limiter.Decision{spared, {Over: true, Used: 3, ResetAfter: 30 * time.Second, RetryAfter: 30 * time.Second}}, denied: true},
		{name: "deny beside local takes nothing", before: requests{{hit(locally), hit(denying)}, {hit(denying), hit(locally)}}, hits: []limiter.Hit{hit(locally)},
			want: []limiter.Decision{charged(1)}},
		{name: "deny beside local that is charged always", before: requests{{always(hit(locally)), hit(denying)}}, hits: []limiter.Hit{hit(locally)},
			want: []limiter.Decision{charged(2)}},
		{name: "deny beside a local refund", before: requests{{times(2, hit(locally))}, {refund(hit(locally)), hit(denying)}}, hits: []limiter.Hit{hit(locally)},
			want: []limiter.Decision{charged(2)}},
		{name: "local limits all or nothing", before: requests{{times(3, hit(locally))}, {{Limit: locally, Key: []byte("other"), Cost: 1}, hit(locally)}},
			hits: []limiter.Hit{{Limit: locally, Key: []byte("other"), Cost: 1}}, want: []limiter.Decision{charged(1)}},

		{name: "a shadow limit does not leave a request undecided", hits: []limiter.Hit{shadow(hit(erring)), hit(locally)}, want: []limiter.Decision{allowed, charged(1)}},
		{name: "nor if it is alone", hits: []limiter.Hit{shadow(hit(erring))}, want: []limiter.Decision{allowed}},
		{name: "a shadow limit does not deny", hits: []limiter.Hit{shadow(hit(denying)), hit(locally)}, want: []limiter.Decision{denied, charged(1)}},
		{name: "a quota that denies", hits: []limiter.Hit{quota(hit(denying))}, want: []limiter.Decision{denied}, denied: true},
		{name: "a quota that denies beside one that allows", hits: []limiter.Hit{quota(hit(denying)), quota(hit(allowing))}, want: []limiter.Decision{denied, allowed}},
		{name: "a quota that denies beside a local one", hits: []limiter.Hit{quota(hit(denying)), quota(hit(locally))}, want: []limiter.Decision{denied, charged(1)}},
		{name: "a quota that allows beside a local one that is over", before: requests{{times(3, hit(locally))}}, hits: []limiter.Hit{quota(hit(locally)), quota(hit(allowing))},
			want: []limiter.Decision{{Over: true, Used: 3, ResetAfter: 30 * time.Second, RetryAfter: 30 * time.Second}, allowed}},

		{name: "a quota that denies in the group of one that allows", hits: []limiter.Hit{grouped(hit(denying)), grouped(hit(allowing)), grouped(hit(locally))},
			want: []limiter.Decision{denied, spared, {Remaining: 3, ResetAfter: 30 * time.Second}}, denied: true},
		{name: "a limit of 0 does not allow", hits: []limiter.Hit{hit(none)}, denied: true,
			want: []limiter.Decision{{Over: true, ResetAfter: time.Second, RetryAfter: limiter.Never}}},
		{name: "more than a limit is allowed", hits: []limiter.Hit{times(4, hit(allowing))}, want: []limiter.Decision{allowed}},
		{name: "peeks", hits: []limiter.Hit{times(0, hit(allowing)), times(0, shadow(hit(denying)))}, want: []limiter.Decision{spared, denied}},
		{name: "a peek is denied", hits: []limiter.Hit{times(0, hit(denying))}, want: []limiter.Decision{denied}, denied: true},
		{name: "refunds are never denied", hits: []limiter.Hit{refund(hit(denying)), refund(hit(allowing))}, want: []limiter.Decision{allowed, allowed}},
		{name: "refunds beside local", hits: []limiter.Hit{refund(hit(denying)), hit(locally)}, want: []limiter.Decision{allowed, charged(1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := open(c.mode, func() time.Time { return time.Unix(30, 0) })
			for _, hits := range c.before {
				testenv.Must(s.Decide(t.Context(), hits, make([]limiter.Decision, len(hits))))(t)
			}
			out := make([]limiter.Decision, len(c.hits))
			got, err := s.Decide(t.Context(), c.hits, out)
			if c.want == nil {
				if !errors.Is(err, limiter.ErrUnavailable) {
					t.Errorf("got error %v, want one that wraps %v", err, limiter.ErrUnavailable)
				}
				return
			}
			if got != c.denied || err != nil {
				t.Errorf("denied is %v, want %v (error: %v)", got, c.denied, err)
			}
			for i := range c.want {
				testenv.Equal(t, out[i], c.want[i], "hit %d", i)
			}
		})
	}
}

func TestModesAreCounted(t *testing.T) {
	s, reg := open(limiter.FailureError, nil)
	for _, hits := range [][]limiter.Hit{
		{hit(locally), hit(byDefault), hit(erring)}, // left undecided, so only the hit with mode error is counted
		{hit(locally), hit(locally), shadow(hit(erring))},
		{hit(denying), hit(allowing), hit(none)},
	} {
		_, _ = s.Decide(t.Context(), hits, make([]limiter.Decision, len(hits)))
	}
	wantMetrics(t, reg, 2, 2, 2, 2)
}
