package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// assign assigns an amount to a limit of a descriptor, or removes it if text is empty.
func (s *SharedSet) assign(descriptor, limit, text string) {
	id, part := AssignedID("api", words(descriptor).Entries, limit)
	if text != "" {
		text += "\n"
	}
	s.Put(part, id, text)
}

// TestOrderOfAmounts checks which amount applies: an exception's, a request's, an assigned one or the rule's.
func TestOrderOfAmounts(t *testing.T) {
	tree := load(t, judgedRules)
	for _, test := range []struct {
		descriptor, assigned string
		sent                 uint32 // per minute, or 0 for none
		factor               float64
		want                 []string
	}{
		{"tenant=a", "5000", 0, 0, []string{"5000 per minute token_bucket burst 500"}},
		{"tenant=a", "0", 0, 0, []string{"0 per minute token_bucket burst 1"}},
		{"tenant=a", "20000", 0, 0, []string{"10000 per minute token_bucket burst 1000"}},     // at most the maximum of the rule
		{"tenant=a", "unlimited", 0, 0, []string{"10000 per minute token_bucket burst 1000"}}, // the same
		{"tenant=a", "newer", 0, 0, []string{"100 per minute token_bucket burst 10"}},         // a text that cannot be read
		{"tenant=a", "5000", 700, 0, []string{"700 per minute token_bucket burst 70"}},
		{"tenant=a", "5000", 7000, 0, []string{"5000 per minute token_bucket burst 500"}},
		{"tenant=a", "unlimited", 70_000, 0, []string{"10000 per minute token_bucket burst 1000"}},
		{"tenant=a", "0", 700, 0, []string{"0 per minute token_bucket burst 1"}},
		{"tenant=a", "5000", 0, 10, []string{"50000 per minute token_bucket burst 5000"}},
		{"tenant=a", "5000", 7000, 10, []string{"50000 per minute token_bucket burst 5000"}},
		{"trial=a", "unlimited", 0, 0, nil},
		{"shared=xy", "3", 60, 0, []string{"60 per minute fixed_window", "3 per day fixed_window"}}, // sent for a rule without override
		{"user=a", "2", 0, 0, []string{"2 per day fixed_window"}},
		{"user=a path=/login", "9", 0, 0, []string{"9 per hour fixed_window", "3 per day fixed_window"}},
		{"nobody=a", "9", 0, 0, []string{"9 per second fixed_window"}}, // the rule without a key
	} {
		assigned, exceptions := new(SharedSet), new(atomic.Pointer[Exceptions])
		d := words(test.descriptor)
		assigned.assign(test.descriptor, "", test.assigned)
		if test.sent > 0 {
			d = d.with(Override{test.sent, limiter.Minute, 0})
		}
		if test.factor > 0 {
			exceptions.Store(NewExceptions([]*Exception{{JSONDescriptor: NewJSONDescriptor("api", words(test.descriptor).Entries), Effect: Amount, Factor: test.factor}}))
		}
		var got []string
		for _, h := range planned(t, Options{Assigned: assigned, Exceptions: exceptions}, tree, d).Hits {
			text := describe(h.Limit)
			got = append(got, text)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %q", test, got)
		}
	}
}

// assignedHistory judges a history of requests. It has the units used and the amounts assigned so far.
type assignedHistory struct {
	used     map[string]uint64 // by counter
	assigned map[string]string // by descriptor and name of the limit
	own      [4]uint64         // amounts of the rules tenant and path, and of two's limits day and hour
}

// amount returns the amount of a limit before exceptions, and whether that amount is assigned.
func (h *assignedHistory) amount(descriptor, limit string, own, most uint64) (uint64, bool) {
	text, assigned := h.assigned[descriptor+"|"+limit]
	if !assigned {
		return own, false
	}
	amount, _ := ParseAmount(text)
	return min(amount, most), true
}

// admits judges a request by the rules of docs/rules.md, in fixed windows that never end.
func (h *assignedHistory) admits(descriptor string, sent Override, isSent bool, x *Exception) bool {
	type counted struct {
		key    string
		amount uint64
	}
	var limits []counted
	if x.is(Allow) || x.is(Deny) {
		return x.is(Allow)
	}
	// level adds a rule's limit or, if isSent, the request's, bounded by the assigned amount and by most.
	level := func(descriptor, limit, unit string, own, most uint64, isSent bool) {
		amount, assigned := h.amount(descriptor, limit, own, most)
		key := descriptor + "|" + unit
		if !isSent {
			limits = append(limits, counted{key, amount})
			return
		}
		if !assigned {
			amount = most
		}
		switch asked := uint64(sent.RequestsPerUnit); {
		case sent.Unit.String() == unit:
			limits = append(limits, counted{key, min(asked, amount)})
		case amount == 0:
			limits = append(limits, counted{descriptor + "|" + sent.Unit.String(), 0})
		default:
			limits = append(limits, counted{descriptor + "|" + sent.Unit.String(), asked}, counted{key, amount})
		}
	}
	tenant, path, _ := strings.Cut(descriptor, " ")
	switch {
	case strings.HasPrefix(descriptor, "two"):
		_, day := h.amount(descriptor, "day", 0, Unlimited)
		if amount, _ := h.amount(descriptor, "day", 0, Unlimited); !isSent || day && amount != Unlimited {
			level(descriptor, "day", "day", h.own[2], Unlimited, isSent)
		}
		if !isSent || len(limits) == 0 {
			level(descriptor, "hour", "hour", h.own[3], Unlimited, isSent)
		}
	case path != "":
		level(descriptor, "", "month", h.own[1], Unlimited, isSent)
		level(tenant, "year", "year", h.own[0], 8, false)
	default:
		level(tenant, "year", "year", h.own[0], 8, isSent)
	}
	for _, l := range limits {
		amount := l.amount
		if x.is(Amount) && amount > 0 && amount != Unlimited {
			amount = uint64(max(math.Round(float64(amount)*x.Factor), 1))
		}
		if amount != Unlimited && h.used[l.key]+1 > amount {
			return false
		}
	}
	for _, l := range limits {
		if l.amount != Unlimited {
			h.used[l.key]++
		}
	}
	return true
}

// TestAssignedHistories changes rules, assigned amounts and exceptions between 100,000 requests, some of
// which send a limit. The judge must agree on each.
func TestAssignedHistories(t *testing.T) {
	const text = `domain: api
descriptors:
  - key: tenant
    below: true
    override: {max_requests_per_unit: 8}
    rate_limit: {name: year, unit: year, requests_per_unit: %d}
    descriptors: [{key: path, rate_limit: {unit: month, requests_per_unit: %d}}]
  - {key: two, rate_limit: [{name: day, unit: day, requests_per_unit: %d}, {name: hour, unit: hour, requests_per_unit: %d}]}`
	random := rand.New(rand.NewPCG(7, 8))
	exceptions := new(atomic.Pointer[Exceptions])
	admitted, judged := 0, 0
	for range 1000 {
		h := assignedHistory{used: map[string]uint64{}, assigned: map[string]string{}}
		planner, store := New(Options{Assigned: new(SharedSet), Exceptions: exceptions}), counters{}
		exceptions.Store(nil)
		var tree *descriptors.Tree
		descriptor := func() string {
			return fmt.Sprintf([]string{"tenant=%d", "tenant=%d path=x", "two=%d"}[random.IntN(3)], random.IntN(2))
		}
		for i := range 100 {
			if i == 0 || random.IntN(50) == 0 {
				h.own = [4]uint64{random.Uint64N(8), random.Uint64N(8), random.Uint64N(8), random.Uint64N(8)}
				tree = load(t, fmt.Sprintf(text, h.own[0], h.own[1], h.own[2], h.own[3]))
			}
			if of := descriptor(); random.IntN(4) == 0 {
				limit := map[string]string{"te": "year", "tw": []string{"day", "hour"}[random.IntN(2)]}[of[:2]]
				if strings.Contains(of, "path") {
					limit = ""
				}
				amount := []string{"", "unlimited", fmt.Sprint(random.IntN(12))}[random.IntN(3)]
				planner.Assigned.assign(of, limit, amount)
				if h.assigned[of+"|"+limit] = amount; amount == "" {
					delete(h.assigned, of+"|"+limit)
				}
			}
			if random.IntN(20) == 0 {
				e := &Exception{JSONDescriptor: NewJSONDescriptor("api", words(descriptor()).Entries), Effect: Effects[random.IntN(3)], Factor: []float64{0.5, 2, 10}[random.IntN(3)], Created: time.Unix(int64(i), 0), Until: time.Now().Add(time.Hour)}
				exceptions.Store(NewExceptions(append(slices.Clone(exceptions.Load().All()), e)))
			}
			of := descriptor()
			d, sent := words(of), Override{uint32(random.IntN(12)), []limiter.Unit{limiter.Year, limiter.Month, limiter.Day, limiter.Second}[random.IntN(4)], 0}
			isSent := random.IntN(3) == 0
			if isSent {
				d = d.with(sent)
			}
			x := naive(exceptions.Load().All(), "api", d.Entries)
			var res Result
			decide(t, planner, tree, store, &Request{Domain: "api", Descriptors: []Descriptor{d}}, &res)
			want := h.admits(of, sent, isSent, x)
			if res.Denied == want {
				t.Fatalf("request %d: %s, sent %v %+v, exception %+v, assigned %v, rules %v, used %v: denied is %t", i, of, isSent, sent, x, h.assigned, h.own, h.used, res.Denied)
			}
			if judged++; want {
				admitted++
			}
		}
	}
	if admitted < judged/5 || admitted > judged*4/5 {
		t.Errorf("%d of %d requests are admitted", admitted, judged)
	}
}
