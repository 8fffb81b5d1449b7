package operators

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
	"weir/internal/rlqs"
	"weir/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// began is the time of all requests, half an hour before the end of a window.
var began = time.Date(2026, 8, 1, 11, 30, 0, 0, time.UTC)

// fixture decides and observes requests as a server does.
type fixture struct {
	*testing.T
	*Desk
	Observer
	tree *descriptors.Tree
}

func noShares(time.Time, int) []rlqs.Share { return nil }

func newFixture(t *testing.T, rules string, hashed bool) *fixture {
	t.Helper()
	f := &fixture{T: t, Observer: Observer{Recorder: NewRecorder(began), Spending: NewSpending(prometheus.NewRegistry()), Hashed: hashed}}
	f.tree = load(t, rules)
	inForce := newServer(t, nil).ExceptionStore
	f.Desk = &Desk{
		InForce:  inForce,
		Spending: f.Observer.Spending,
		Tree:     func() *descriptors.Tree { return f.tree }, Logger: slog.New(slog.DiscardHandler), Servers: new(Servers),
		Plan:   plan.Options{Keys: limiter.Keys{Prefix: "p:", Digests: hashed}, Exceptions: &inForce.Current, Assigned: new(plan.SharedSet)},
		Store:  memory.New(memory.Options{Now: func() time.Time { return began }}),
		Shares: noShares,
	}
	return f
}

func load(t *testing.T, rules string) *descriptors.Tree {
	t.Helper()
	return testenv.Must(descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(rules)}}, descriptors.Options{}))(t)
}

// entries parses a text such as "user=alice,path=/".
func entries(text string) (list []limiter.Entry) {
	for entry := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(entry, "=")
		list = append(list, limiter.Entry{Key: key, Value: value})
	}
	return list
}

// ask decides a request with descriptors such as "user=alice,path=/ nobody=x" as often as times says, and
// returns the number of denials.
func (f *fixture) ask(ctx context.Context, times int, words string) (denials int) {
	f.Helper()
	r := plan.Request{Domain: "api"}
	for text := range strings.FieldsSeq(words) {
		r.Descriptors = append(r.Descriptors, plan.Descriptor{Entries: entries(text)})
	}
	for range times {
		if f.decide(ctx, &r) {
			denials++
		}
	}
	return denials
}

func (f *fixture) decide(ctx context.Context, r *plan.Request) (denied bool) {
	f.Helper()
	return f.decideAt(ctx, began, r)
}

func (f *fixture) decideAt(ctx context.Context, now time.Time, r *plan.Request) (denied bool) {
	f.Helper()
	var result plan.Result
	decider := plan.Decider{Planner: plan.New(f.Plan), Rules: f.Tree, Store: f.Store}
	testenv.OK(f.T, decider.Decide(ctx, r, &result))
	f.Observe(ctx, now, r, &result)
	return result.Denied
}

// newLimit returns a limit with a label.
func newLimit(t testing.TB, label string) *limiter.Limit {
	t.Helper()
	return testenv.Must(limiter.NewLimit(limiter.Spec{
		RequestsPerUnit: 5, Unit: limiter.Minute,
		Series: limiter.LabelSet{Domain: "api", Key1: label, Rule: label, Limit: "minute"}.Series(),
	}))(t)
}
