package operators

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/plan/explain"
	"weir/internal/rlqs"
)

// Spending keeps the counters with the largest used shares: ten of each budget (see
// limiter.Spec.IsBudget), for 100 budgets. Each decision has the exact use of its counter by all
// servers, so Spending estimates nothing, unlike package sketch. The known use of a counter
// may be too low by up to one percent. Spending is safe for concurrent use, and a prometheus.Collector.
type Spending struct {
	reached *prometheus.CounterVec
	sent    sentLimits // of all descriptors, not only of budgets

	mu          sync.Mutex
	limits      map[limiter.Series][]*spent
	others      float64   // largest used percentage of a counter that is not kept
	othersUntil time.Time // end of the windows of such counters
}

// spent is a counter after its last change. list sets the fields of Budget that follow from other fields.
type spent struct {
	Budget
	key          []byte
	limit        *limiter.Limit
	start        time.Time // start of the window, see limiter.Limit.Window
	seen         time.Time // time of the first hit seen in this window
	day, quarter history   // the last 24 hours; a quarter of the window, or of an hour if that is longer
}

// NewSpending returns a Spending without counters, and registers its metrics with reg.
func NewSpending(reg prometheus.Registerer) *Spending {
	s := &Spending{sent: sentLimits{last: limiter.NewRecent[plan.Override](1 << 20)}, limits: map[limiter.Series][]*spent{}, reached: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_limit_reached_total",
		Help: "Times that a counter of a limit reached a percentage in notify. After a refund, it may reach one again.",
	}, []string{"domain", "rule", "limit", "threshold"})}
	reg.MustRegister(s.reached, s)
	return s
}

// observe notes the use of a counter after a hit, with the used percentages before and after the hit. It does
// not retain parameter a.
func (s *Spending) observe(now time.Time, a *Asked, h *limiter.Hit, d *limiter.Decision, before, after int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.limits[h.Limit.Series]
	if kept == nil {
		s.count(h.Limit, 0, 100, 0) // a series begins at 0
	}
	s.count(h.Limit, before, after, 1)
	if c := s.counter(now, kept, h, d); c != nil {
		c.set(now, a, h, d)
	}
}

// count adds n to the metric of each percentage in notify from before, exclusive, to after, inclusive.
func (s *Spending) count(limit *limiter.Limit, before, after int64, n float64) {
	for _, percent := range limit.Notify {
		if before < int64(percent) && int64(percent) <= after {
			l := limit.Series.Labels()
			s.reached.WithLabelValues(l.Domain, l.Rule, l.Limit, strconv.Itoa(percent)).Add(n)
		}
	}
}

// counter returns the counter of h, which is empty if it is new. The parameter kept has the counters of h's
// limit. If there is no room, a new counter replaces a less used counter in kept, and a new limit replaces a
// limit that has only less used counters. If nothing can be replaced, counter returns nil.
func (s *Spending) counter(now time.Time, kept []*spent, h *limiter.Hit, d *limiter.Decision) *spent {
	if i := slices.IndexFunc(kept, func(c *spent) bool { return bytes.Equal(c.key, h.Key) }); i >= 0 {
		return kept[i]
	}
	byPercent := func(a, b *spent) int { return cmp.Compare(a.percent(now), b.percent(now)) }
	rivals := kept
	switch {
	case kept == nil && len(s.limits) == maxLimits:
		rivals = make([]*spent, 0, maxLimits)
		for _, others := range s.limits {
			rivals = append(rivals, slices.MaxFunc(others, byPercent))
		}
	case len(kept) < maxKeys:
		c := new(spent)
		s.limits[h.Limit.Series] = append(kept, c)
		return c
	}
	least, percent := slices.MinFunc(rivals, byPercent), 100*float64(d.Used)/float64(h.Limit.Size())
	if now.After(s.othersUntil) {
		s.others = 0
	}
	s.others = max(s.others, min(percent, least.percent(now)))
	if end := now.Add(h.Limit.Period()); end.After(s.othersUntil) {
		s.othersUntil = end
	}
	if least.percent(now) >= percent {
		return nil
	}
	if kept == nil {
		delete(s.limits, least.limit.Series)
		s.limits[h.Limit.Series] = []*spent{least}
	}
	*least = spent{}
	return least
}

// percent returns the used percentage of the counter, or 0 after the end of its window.
func (c *spent) percent(now time.Time) float64 {
	if !now.Before(c.StartsAgain) {
		return 0
	}
	return 100 * float64(c.Used) / float64(c.Amount)
}

// set notes the use after a hit.
func (c *spent) set(now time.Time, a *Asked, h *limiter.Hit, d *limiter.Decision) {
	used := uint64(d.Used)
	if !now.Before(c.StartsAgain) { // a new counter or window
		if c.limit == nil {
			c.key, c.Key, c.Descriptor = slices.Clone(h.Key), plaintext.RedisKey(h.Key), a.Excerpt(keySize)
			c.day = history{step: time.Hour}
		} else {
			c.day.set(c.StartsAgain, 0)
		}
		c.quarter = history{step: max(15*time.Minute, h.Limit.Period()/4) / (steps - 1)}
		c.quarter.set(now.Add(-c.quarter.step), used)
		c.seen = now
	}
	if c.limit != h.Limit { // new, or loaded again
		c.limit, c.Source = h.Limit, newSource(h.Limit, c.Descriptor.Domain, false)
		c.Amount, c.TimeZone = h.Limit.Size(), cmp.Or(h.Limit.TimeZone, "UTC")
	}
	c.Shadow, c.Used, c.At = h.EffectiveMode() == limiter.Shadow, used, now
	c.start, c.StartsAgain = h.Limit.Window(now, d.ResetAfter)
	c.day.set(now, used)
	c.quarter.set(now, used)
}

// history is the use of a counter at the end of each of the last steps, including the current step.
type history struct {
	step time.Duration
	last int64 // number of the current step, counted from the epoch
	used []uint64
}

// steps is the maximum number of steps in a history.
const steps = 24

// set notes the use at a time. Steps without a note get the use of the previous step.
func (y *history) set(at time.Time, used uint64) {
	step := at.UnixNano() / int64(y.step)
	if y.used == nil {
		y.used, y.last = []uint64{used}, step
	}
	for range min(step-y.last, steps) {
		y.used = append(y.used, y.used[len(y.used)-1])
	}
	y.last = max(y.last, step)
	y.used[len(y.used)-1] = used
	y.used = y.used[max(0, len(y.used)-steps):]
}

// usedUp returns the time at which the counter will be used up at the rate of the last quarter or, if the
// counter was first seen after its start, at the rate since then. It returns the zero time if the counter
// starts again earlier, is used up already, does not grow, or was first seen less than a minute ago.
func (c *spent) usedUp(now time.Time) time.Time {
	q := &c.quarter
	oldest := time.Unix(0, (q.last-int64(len(q.used))+2)*int64(q.step)) // end of the oldest step
	since, grown := min(now.Sub(oldest), now.Sub(c.seen)), float64(c.Used)-float64(q.used[0])
	at := now.Add(Seconds(since.Seconds() * (float64(c.Amount) - float64(c.Used)) / grown))
	if grown <= 0 || c.Used >= c.Amount || since < time.Minute || !c.start.IsZero() && !at.Before(c.StartsAgain) {
		return time.Time{}
	}
	return at.UTC()
}

// BudgetList is the response to GET /budgets.
type BudgetList struct {
	Budgets      []Budget `json:"budgets"`           // the largest used share first
	OthersAtMost float64  `json:"others_at_most"`    // bound of the used percentage of any counter not in Budgets
	Servers      int      `json:"servers,omitempty"` // number of servers that listed their counters
	// Shares are the shares of Envoys in limits with quota_service, the largest demand first.
	Shares []Share `json:"shares,omitempty"`
}

// Share is the share of an Envoy in a limit with quota_service.
type Share struct {
	Source
	Descriptor Excerpt `json:"descriptor"`
	rlqs.Rates
}

// Budget is a counter of a budget.
type Budget struct {
	Source
	Descriptor  Excerpt   `json:"descriptor"`
	Key         string    `json:"key"` // key in Redis, as text
	Amount      uint64    `json:"amount"`
	Used        uint64    `json:"used"`
	Left        uint64    `json:"left"`
	Percent     float64   `json:"percent"`      // used percentage of Amount
	At          time.Time `json:"at"`           // time of Used and Amount
	StartsAgain time.Time `json:"starts_again"` // end of the window or, without windows, time at which the counter becomes unused
	TimeZone    string    `json:"time_zone"`    // time zone of StartsAgain
	// UsedUp is the time at which Amount will be used at the current rate, or zero if not before StartsAgain.
	UsedUp time.Time `json:"used_up_at,omitzero"`
	Day    []uint64  `json:"day"` // use at the end of each known hour of the last 24, the oldest first
	// Exception is the effect of the exception for the descriptor, or empty if it has none.
	Exception plan.Effect `json:"exception,omitempty"`
}

// list returns all counters whose windows have not ended.
func (s *Spending) list(now time.Time) BudgetList {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := BudgetList{}
	if now.Before(s.othersUntil) {
		list.OthersAtMost = s.others
	}
	for _, kept := range s.limits {
		for _, c := range kept {
			if !now.Before(c.StartsAgain) {
				continue
			}
			c.day.set(now, c.Used)
			c.quarter.set(now, c.Used)
			b := c.Budget
			b.Left, b.Percent, b.At = b.Amount-min(b.Used, b.Amount), c.percent(now), c.At.UTC()
			b.UsedUp, b.Day = c.usedUp(now), slices.Clone(c.day.used)
			list.Budgets = append(list.Budgets, b)
		}
	}
	return list
}

// refresh reads the counters of budgets and their limits again, because resets, exceptions and a Redis that
// evicts keys change them without a request. A budget whose exact descriptor is unknown stays as it was at
// its last change. If the store fails, no budget changes.
func (d *Desk) refresh(ctx context.Context, now time.Time, budgets []Budget) {
	var hits []limiter.Hit
	var of []*Budget // of[i] is the budget of hits[i]
	for i := range budgets {
		b := &budgets[i]
		text, _ := b.Descriptor.Spell()
		entries, _ := explain.ParseDescriptor(text) // if a part is missing, these entries have another counter
		answer, _, found, _ := d.find(plan.NewJSONDescriptor(b.Domain, entries))
		if answer.Exception != nil {
			b.Exception = answer.Exception.Effect
		}
		for _, h := range found {
			if plaintext.RedisKey(h.Key) == b.Key {
				h.Limit = answer.Exception.Times(h.Limit)
				hits, of = append(hits, h), append(of, b)
			}
		}
	}
	states, _ := d.Store.Peek(ctx, hits) // no states if Peek fails
	for i, state := range states {
		of[i].Rate = hits[i].Limit.Rate()
		of[i].set(now, uint64(state.Used), hits[i].Limit.Size())
	}
	slices.SortStableFunc(budgets, func(a, b Budget) int { return cmp.Compare(b.Percent, a.Percent) })
}

// set sets the use and the amount at the time now. If the use is lower than before or the amount is
// different, set clears UsedUp, which is then unknown.
func (b *Budget) set(now time.Time, used, amount uint64) {
	if used < b.Used || amount != b.Amount {
		b.UsedUp = time.Time{}
	}
	b.At, b.Used, b.Amount, b.Left = now.UTC(), used, amount, amount-min(used, amount)
	b.Percent = 100 * float64(used) / float64(amount)
	b.Day[len(b.Day)-1] = used
}

// mergeBudgets merges the budgets of several servers and keeps the 100 with the highest Percent, at most ten
// of each limit. Servers share counters, so mergeBudgets takes each counter from the server that saw its last
// change.
func mergeBudgets(lists ...BudgetList) BudgetList {
	merged, byKey := BudgetList{Servers: len(lists), Budgets: []Budget{}}, map[string]Budget{}
	for _, l := range lists {
		merged.OthersAtMost = max(merged.OthersAtMost, l.OthersAtMost)
		merged.Shares = append(merged.Shares, l.Shares...)
		for _, b := range l.Budgets {
			older := byKey[b.Key]
			if older.At.After(b.At) {
				b, older = older, b
			}
			if len(older.Day) > len(b.Day) { // the other server has run for longer
				b.Day = older.Day
			}
			byKey[b.Key] = b
		}
	}
	slices.SortStableFunc(merged.Shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Demand, a.Demand), strings.Compare(a.Envoy, b.Envoy))
	})
	merged.Shares = merged.Shares[:min(len(merged.Shares), maxLimits)]
	listed := map[[3]string]int{} // by limit
	for _, b := range slices.SortedFunc(maps.Values(byKey), func(a, b Budget) int {
		return cmp.Or(cmp.Compare(b.Percent, a.Percent), cmp.Compare(a.Key, b.Key))
	}) {
		limit := [3]string{b.Domain, b.Rule, b.Limit}
		if listed[limit]++; listed[limit] > maxKeys || len(merged.Budgets) == maxLimits {
			merged.OthersAtMost = max(merged.OthersAtMost, b.Percent)
			continue
		}
		merged.Budgets = append(merged.Budgets, b)
	}
	return merged
}

var usedRatio = prometheus.NewDesc("weir_limit_used_ratio",
	"Largest used share of a counter of a limit, of limits with notify or a period of an hour or more.",
	[]string{"domain", "rule", "limit"}, nil)

// Describe implements prometheus.Collector.
func (s *Spending) Describe(descs chan<- *prometheus.Desc) { descs <- usedRatio }

// Collect implements prometheus.Collector.
func (s *Spending) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for series, kept := range s.limits {
		l, most := series.Labels(), 0.0
		for _, c := range kept {
			most = max(most, c.percent(now))
		}
		to <- prometheus.MustNewConstMetric(usedRatio, prometheus.GaugeValue, most/100, l.Domain, l.Rule, l.Limit)
	}
}
