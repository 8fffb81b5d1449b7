package operators

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
)

// Spending keeps the counters with the largest used shares: ten of each budget (see
// limiter.Spec.IsBudget), for 100 budgets. Each decision has the exact use of its counter by all
// servers, so Spending estimates nothing, unlike package sketch. The use of a kept counter is at
// most one percent old. Spending is safe for concurrent use, and a prometheus.Collector.
type Spending struct {
	reached *prometheus.CounterVec

	mu          sync.Mutex
	limits      map[limiter.Series][]*spent
	others      float64   // largest share of a counter that is not kept
	othersUntil time.Time // end of the windows of such counters
}

// spent describes a counter.
type spent struct {
	key          []byte
	limit        *limiter.Limit
	shown        Excerpt
	shadow       bool
	used         int64
	at           time.Time // of the last change
	start, ends  time.Time // as of limiter.Limit.Window
	seen         time.Time // first in this window
	seenUsed     int64     // then
	day, quarter history   // the last 24 hours; a quarter of the window, or of an hour if that is longer
}

// quarterSteps has five steps of a quarter and the current one.
const quarterSteps = 6

// NewSpending returns a Spending without counters, whose metrics are in reg.
func NewSpending(reg prometheus.Registerer) *Spending {
	s := &Spending{limits: map[limiter.Series][]*spent{}, reached: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_limit_reached_total",
		Help: "Times that a counter of a limit reached a percentage in notify. After a refund, it may reach one again.",
	}, []string{"domain", "rule", "limit", "threshold"})}
	reg.MustRegister(s.reached, s)
	return s
}

// share returns the used share of the counter. After its window, the counter is unused.
func (c *spent) share(now time.Time) float64 {
	if !now.Before(c.ends) {
		return 0
	}
	return float64(c.used) / float64(c.limit.Size())
}

// observe notes the use of a counter after a hit, with the used percentages before and after it. It
// keeps nothing of a.
func (s *Spending) observe(now time.Time, a *Asked, h *limiter.Hit, d *limiter.Decision, before, after int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.limits[h.Limit.Series]
	if len(kept) == 0 {
		s.count(h.Limit, 0, 100, 0) // a series begins at 0
	}
	s.count(h.Limit, before, after, 1)
	i := slices.IndexFunc(kept, func(c *spent) bool { return bytes.Equal(c.key, h.Key) })
	if i < 0 {
		if i = s.room(now, h.Limit, float64(d.Used)/float64(h.Limit.Size())); i < 0 {
			return
		}
		kept = s.limits[h.Limit.Series]
		kept[i] = &spent{key: slices.Clone(h.Key), shown: a.Excerpt(keySize)}
	}
	kept[i].set(now, h, d)
}

// count adds n to each percentage of notify above before, up to after.
func (s *Spending) count(limit *limiter.Limit, before, after int64, n float64) {
	for _, percent := range limit.Notify {
		if before < int64(percent) && int64(percent) <= after {
			l := limit.Series.Labels()
			s.reached.WithLabelValues(l.Domain, l.Rule, l.Limit, strconv.Itoa(percent)).Add(n)
		}
	}
}

// room returns the index for a new counter of a limit, or -1 if its used share is too small.
func (s *Spending) room(now time.Time, limit *limiter.Limit, share float64) (index int) {
	byShare := func(a, b *spent) int { return cmp.Compare(a.share(now), b.share(now)) }
	kept := s.limits[limit.Series]
	rivals := kept // the smallest one leaves
	switch {
	case kept == nil && len(s.limits) == maxLimits:
		for _, others := range s.limits {
			rivals = append(rivals, slices.MaxFunc(others, byShare))
		}
	case len(kept) < maxKeys:
		s.limits[limit.Series] = append(kept, nil)
		return len(kept)
	}
	least := slices.MinFunc(rivals, byShare)
	s.forget(now, limit, min(share, least.share(now)))
	switch {
	case least.share(now) >= share:
		return -1
	case kept != nil:
		return slices.Index(kept, least)
	}
	delete(s.limits, least.limit.Series)
	s.limits[limit.Series] = []*spent{nil}
	return 0
}

// forget notes that a counter of limit, with share of it used, is not kept.
func (s *Spending) forget(now time.Time, limit *limiter.Limit, share float64) {
	if now.After(s.othersUntil) {
		s.others = 0
	}
	s.others = max(s.others, share)
	if end := now.Add(limit.Period()); end.After(s.othersUntil) {
		s.othersUntil = end
	}
}

// set notes the use after a hit.
func (c *spent) set(now time.Time, h *limiter.Hit, d *limiter.Decision) {
	if c.limit == nil {
		c.day = history{step: time.Hour, most: 24}
	} else if !now.Before(c.ends) {
		c.day.set(c.ends, 0)
	}
	if c.limit == nil || !now.Before(c.ends) { // a new window
		c.quarter = history{step: max(15*time.Minute, h.Limit.Period()/4) / (quarterSteps - 1), most: quarterSteps}
		c.seen, c.seenUsed = now, d.Used
	}
	c.limit, c.shadow, c.used, c.at = h.Limit, h.EffectiveMode() == limiter.Shadow, d.Used, now
	c.start, c.ends = h.Limit.Window(now, d.ResetAfter)
	c.day.set(now, d.Used)
	c.quarter.set(now, d.Used)
}

// history is the use of a counter at the end of each of the last steps, at most most.
type history struct {
	step time.Duration
	most int
	last int64 // number of the last step, counted from the epoch
	used []int64
}

// set notes the use at a time. In steps without a note it stayed the same.
func (y *history) set(at time.Time, used int64) {
	step := at.UnixNano() / int64(y.step)
	if y.used == nil {
		y.used, y.last = []int64{used}, step
	}
	for range min(step-y.last, int64(y.most)) {
		y.used = append(y.used, y.used[len(y.used)-1])
	}
	y.last = max(y.last, step)
	y.used[len(y.used)-1] = used
	y.used = y.used[max(0, len(y.used)-y.most):]
}

// usedUp returns the time at which the counter is used up at the rate of its last quarter or, in the
// first quarter after it was seen in its window, at the rate since then. It returns the zero time if
// the counter starts again earlier, and for a counter that was first seen less than a minute ago.
func (c *spent) usedUp(now time.Time) time.Time {
	since, used := c.seen, c.seenUsed
	if len(c.quarter.used) == quarterSteps {
		since = time.Unix(0, (c.quarter.last-quarterSteps+2)*int64(c.quarter.step)) // end of the oldest step
		used = c.quarter.used[0]
	}
	after := now.Sub(since).Seconds() * float64(int64(c.limit.Size())-c.used) / float64(c.used-used)
	at := now.Add(Seconds(after))
	if now.Sub(since) < time.Minute || !(after > 0) || math.IsInf(after, 0) || !c.start.IsZero() && !at.Before(c.ends) {
		return time.Time{}
	}
	return at.UTC()
}

// BudgetList is the answer of GET /budgets.
type BudgetList struct {
	Budgets      []Budget  `json:"budgets"`           // the largest used share first
	OthersAtMost float64   `json:"others_at_most"`    // bound of the used percentage of a counter not in Budgets
	Servers      int       `json:"servers,omitempty"` // number of servers that listed their counters
}

// Budget is a counter of a budget.
type Budget struct {
	Source
	Descriptor  Excerpt   `json:"descriptor"`
	Key         string    `json:"key"` // as Redis has it, as text
	Amount      uint64    `json:"amount"`
	Used        uint64    `json:"used"`
	Left        uint64    `json:"left"`
	Percent     float64   `json:"percent"`      // used
	At          time.Time `json:"at"`           // of the last change
	StartsAgain time.Time `json:"starts_again"` // when the window ends or, without windows, nothing is used
	TimeZone    string    `json:"time_zone"`    // of StartsAgain
	// UsedUp is when all will be used, as the counter is used now, or zero if not before StartsAgain.
	UsedUp time.Time `json:"used_up_at,omitzero"`
	Day    []int64   `json:"day"` // use at the end of each known hour of the last 24, the oldest first
}

// list returns all counters.
func (s *Spending) list(now time.Time) BudgetList {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := BudgetList{}
	if now.Before(s.othersUntil) {
		list.OthersAtMost = 100 * s.others
	}
	for _, kept := range s.limits {
		for _, c := range kept {
			if !now.Before(c.ends) {
				continue
			}
			c.day.set(now, c.used)
			c.quarter.set(now, c.used)
			size, used := c.limit.Size(), uint64(c.used)
			list.Budgets = append(list.Budgets, Budget{
				Source: newSource(c.limit, c.shown.Domain, c.shadow), Descriptor: c.shown, Key: plaintext.RedisKey(c.key),
				Amount: size, Used: used, Left: size - min(used, size), Percent: 100 * c.share(now), At: c.at.UTC(),
				StartsAgain: c.ends, TimeZone: cmp.Or(c.limit.TimeZone, "UTC"), UsedUp: c.usedUp(now), Day: slices.Clone(c.day.used),
			})
		}
	}
	return list
}

// mergeBudgets returns the budgets of several servers, at most 100. Servers share counters, so it
// takes each counter from the server with its last change.
func mergeBudgets(lists ...BudgetList) BudgetList {
	merged, byKey := BudgetList{Servers: len(lists), Budgets: []Budget{}}, map[string]Budget{}
	for _, l := range lists {
		merged.OthersAtMost = max(merged.OthersAtMost, l.OthersAtMost)
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
			most = max(most, c.share(now))
		}
		to <- prometheus.MustNewConstMetric(usedRatio, prometheus.GaugeValue, most, l.Domain, l.Rule, l.Limit)
	}
}
