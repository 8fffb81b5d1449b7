package operators

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// fake is a Shared in memory that can fail as Redis does.
type fake struct {
	Shared
	mu           sync.Mutex
	parts        [plan.SharedParts]fakePart
	made, lost   int // number of changes, and number of times that all texts were lost
	sets         int
	fails, hangs bool
}

// fakePart is a part of the entries. texts is nil if the part was never changed.
type fakePart struct {
	texts   map[string]string
	changes []string
}

// call calls do under the lock, unless the store fails.
func (f *fake) call(ctx context.Context, do func()) error {
	f.mu.Lock()
	hangs, fails := f.hangs, f.fails
	if !hangs && !fails {
		do()
	}
	f.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case fails:
		return errors.New("down\x1b[31m")
	}
	return nil
}

func (f *fake) Version(ctx context.Context) (version string, err error) {
	return version, f.call(ctx, func() {
		if f.made > 0 {
			version = fmt.Sprintf("data%04d%d", f.lost, f.made)
		}
	})
}

func (f *fake) Changes(ctx context.Context, part int, newest string) (size int, changes, texts []string, found bool, err error) {
	err = f.call(ctx, func() {
		p := &f.parts[part]
		size, changes = len(p.texts), p.changes
		if p.texts == nil {
			size = -1
		}
		i := slices.Index(p.changes, newest)
		if found = i >= 0 || (newest == "" || newest == ".") && len(p.changes) < maxChanges; i >= 0 {
			changes = changes[:i]
		}
		changes = slices.Clone(changes)
		for _, change := range changes {
			texts = append(texts, p.texts[change[8:]])
		}
	})
	return size, changes, texts, found, err
}

func (f *fake) Scan(ctx context.Context, part int, yield func(id, text string)) error {
	return f.call(ctx, func() {
		for id, text := range f.parts[part].texts {
			yield(id, text)
		}
	})
}

func (f *fake) Change(ctx context.Context, part int, newest, token string, again bool, texts [][2]string) (now string, err error) {
	err = f.call(ctx, func() {
		p := &f.parts[part]
		if now = newestOf(p.texts != nil, p.changes[:min(len(p.changes), 1)]); now != newest || len(texts) > atOnce {
			now = "behind"
			return
		}
		if p.texts == nil {
			p.texts = map[string]string{}
		}
		f.sets++
		f.made++
		for _, t := range texts {
			id, text, old := t[0], t[1], p.texts[t[0]]
			if text == old {
				continue
			}
			f.made++
			if p.texts[id] = text; text == "" {
				delete(p.texts, id)
			}
			if !again || old != "" {
				now = token + id
				p.changes = slices.Insert(p.changes[:min(len(p.changes), maxChanges-1)], 0, now)
			}
		}
	})
	return now, err
}

// set sets the texts of exceptions as another server does.
func (f *fake) set(texts map[string]string) {
	var changes [][2]string
	for id, text := range texts {
		changes = append(changes, [2]string{id, text})
	}
	p := &f.parts[0]
	for some := range slices.Chunk(changes, atOnce) {
		newest := newestOf(p.texts != nil, p.changes[:min(len(p.changes), 1)])
		if now, err := f.Change(context.Background(), 0, newest, fmt.Sprintf("%08x", f.made), false, some); err != nil || now == "behind" {
			panic(fmt.Sprint(now, err))
		}
	}
}

// stored returns the number of stored exceptions.
func (f *fake) stored() (n int) {
	_ = f.call(context.Background(), func() { n = len(f.parts[0].texts) })
	return n
}

// server has the exceptions of one server.
type server struct {
	*ExceptionStore
	t   *testing.T
	log *testenv.Log
}

func newServer(t *testing.T, shared Shared) *server {
	s := &server{t: t, log: new(testenv.Log)}
	plain := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "id" {
			return slog.Attr{}
		}
		return a
	}
	s.ExceptionStore = NewExceptionStore(shared, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{ReplaceAttr: plain})))
	return s
}

// run calls Run until the returned function is called. It must be in a bubble of synctest.
func (s *server) run() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx, func() {})
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-ended
	}
}

// Find returns the exception that applies to a descriptor.
func (s *server) Find(domain string, entries []limiter.Entry) *plan.Exception {
	return s.Current.Load().Find(domain, entries)
}

func allowing(value string, lasts time.Duration) plan.Exception {
	return plan.Exception{JSONDescriptor: plan.NewJSONDescriptor("api", entries(value)), Effect: "allow", For: lasts.Seconds(), By: "bob", Reason: "let me in"}
}

// use counts a use of the exception for an entry.
func use(t *testing.T, s *server, text string) {
	t.Helper()
	decider := plan.Decider{
		Planner: plan.New(plan.Options{Exceptions: &s.Current}), Rules: func() *descriptors.Tree { return new(descriptors.Tree) },
	}
	request := plan.Request{Domain: "api", Descriptors: []plan.Descriptor{{Entries: entries(text)}}}
	testenv.OK(t, decider.Decide(t.Context(), &request, new(plan.Result)))
}

func (s *server) add(n plan.Exception) plan.Exception {
	s.t.Helper()
	return testenv.Must(s.Add(s.t.Context(), n, "192.0.2.1:5"))(s.t)
}

// want checks that the exceptions in force have these entries, one entry each.
func (s *server) want(entries ...string) {
	s.t.Helper()
	synctest.Wait()
	var got []string
	for _, e := range s.All() {
		got = append(got, e.Entries[0].Key+"="+e.Entries[0].Value)
		if domain, of := e.Bytes(); s.Find(domain, of) == nil {
			s.t.Errorf("%q is not found", e.Entries)
		}
	}
	slices.Sort(got)
	testenv.EqualLists(s.t, got, entries, "in force")
	testenv.Equal(s.t, testutil.ToFloat64(s.inForce), float64(len(entries)), "the metric")
}

// An exception expires on time on each server, and leaves the store. Then an older exception for the
// same descriptors applies again.
func TestExceptionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fake)
		a, b := newServer(t, store), newServer(t, store)
		defer a.run()()
		stop := b.run()
		a.add(allowing("user=bob", time.Hour))
		time.Sleep(time.Second)
		deny := allowing("user=bob", 3*time.Second)
		deny.Effect = plan.Deny
		a.add(deny)
		time.Sleep(time.Second)
		a.add(allowing("user=alice", 2*time.Second))
		time.Sleep(2*time.Second - 1)
		for _, s := range []*server{a, b} {
			s.want("user=alice", "user=bob", "user=bob")
			testenv.Equal(t, s.Find("api", entries("user=bob,path=/")).Effect, plan.Deny, "effect of the newest")
		}
		time.Sleep(time.Nanosecond)
		for _, s := range []*server{a, b} {
			s.want("user=bob")
			testenv.Equal(t, s.Find("api", entries("user=bob,path=/")).Effect, plan.Allow, "effect of the older one, which applies again")
		}
		stop()
		if got := b.log.String(); !strings.Contains(got, `level=INFO msg="exception expired" audit=true domain=api descriptor="user=alice"`) || strings.Count(got, "\n") != 2 {
			t.Errorf("got log %s", got)
		}
		again := newServer(t, store) // before the expired exception leaves the store
		defer again.run()()
		again.want("user=bob")
		testenv.Equal(t, store.stored(), 3, "records in the store")
		time.Sleep(forgetAfter + time.Second)
		testenv.Equal(t, store.stored(), 1, "records in the store a minute later")
		a.want("user=bob")
		testenv.Equal(t, again.log.String(), "", "log")
	})
}

// If the store loses everything, the servers restore the exceptions that they know, and texts that only a
// newer version can read, but no removed ones. Unreadable texts are logged at most once a minute.
func TestLostStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fake)
		a, b := newServer(t, store), newServer(t, store)
		defer a.run()()
		defer b.run()()
		e := a.add(allowing("user=alice", time.Hour))
		removed := a.add(allowing("user=bob", time.Hour))
		testenv.OK(t, a.Remove(t.Context(), removed.ID, "", ""))
		garbage := map[string]string{"newer": `{"twice":9}`, "more": store.parts[0].texts[e.ID] + "]"}
		for i := range 1000 {
			garbage[fmt.Sprint("garbage-", i)] = "\x1b" + strings.Repeat("x", 10*i)
		}
		store.set(garbage)
		time.Sleep(time.Second)
		synctest.Wait()
		testenv.OK(t, a.Remove(t.Context(), "newer", "", ""))
		for range 3 {
			garbage["garbage-1"] += "changed"
			store.set(garbage)
			time.Sleep(10 * time.Second)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		use(t, b, "user=alice")
		if got := testutil.ToFloat64(b.used.WithLabelValues("allow")); got != 1 || testutil.CollectAndCount(b.used) != len(plan.Effects) {
			t.Errorf("%v uses of %d effects are counted", got, testutil.CollectAndCount(b.used))
		}
		store.mu.Lock()
		store.parts = [plan.SharedParts]fakePart{}
		store.made = 0
		store.lost++
		store.mu.Unlock()
		time.Sleep(time.Second)
		for _, s := range []*server{a, b} {
			s.want("user=alice")
		}
		testenv.Equal(t, *b.Find("api", entries("user=alice")).Used, 1, "uses")
		c := newServer(t, store)
		defer c.run()()
		c.want("user=alice")
		testenv.Equal(t, store.stored(), 1003, "texts in the store, that of alice and the unreadable ones")
		sets := store.sets
		time.Sleep(10 * time.Second)
		testenv.Equal(t, store.sets, sets, "changes of the store")
		const unread = `msg="exceptions are ignored because they cannot be read, a newer version may have added them" exceptions=1002 err="`
		log := a.log.String() + b.log.String()
		if strings.Count(log, unread) != 4 || strings.Count(log, "cannot be read") != 4 || !strings.Contains(log, `msg="Redis has lost exceptions or assigned amounts, they are restored" changes=1003`) || len(log) > 10_000 {
			t.Errorf("got log %.10000s", log)
		}
	})
}

// While the store fails or hangs, known exceptions apply and expire, and none can be added.
func TestStoreFails(t *testing.T) {
	for name, fail := range map[string]func(f *fake, fails bool){
		"fails": func(f *fake, fails bool) { f.fails = fails },
		"hangs": func(f *fake, fails bool) { f.hangs = fails },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(fake)
				s := newServer(t, store)
				defer s.run()()
				alice := s.add(allowing("user=alice", time.Hour))
				bob := s.add(allowing("user=bob", 7*time.Second))
				set := func(fails bool) {
					store.mu.Lock()
					defer store.mu.Unlock()
					fail(store, fails)
				}
				set(true)
				if _, err := s.Add(t.Context(), allowing("user=carol", time.Hour), ""); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrBadRequest) {
					t.Errorf("added to a store that fails: %v", err)
				}
				if err := s.Remove(t.Context(), alice.ID, "", ""); !errors.Is(err, ErrUnavailable) {
					t.Errorf("removed from a store that fails: %v", err)
				}
				s.want("user=alice", "user=bob")
				time.Sleep(time.Until(bob.Until) + patience)
				s.want("user=alice")
				set(false)
				time.Sleep(patience + time.Second)
				s.add(allowing("user=dora", time.Hour))
				s.want("user=alice", "user=dora")
				log := s.log.String()
				if strings.Count(log, "exceptions could not be loaded, known ones stay in force") != 1 || strings.Count(log, "exceptions can be loaded again") != 1 || strings.Contains(log, "\x1b") {
					t.Errorf("got log %s", log)
				}
				if n := testutil.ToFloat64(s.errors); n < 2 {
					t.Errorf("%v errors are counted", n)
				}
			})
		})
	}
}

// At most 10,000 exceptions are in force. An expired one makes room.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(fake)
		s := newServer(t, store)
		e := s.add(allowing("user=alice", 2*time.Second))
		fields, text := map[string]string{}, store.parts[0].texts[e.ID]
		for i := range MaxExceptions - 1 {
			fields[fmt.Sprint("x", i)] = strings.NewReplacer("00:00:02", "01:00:02", "alice", "bob").Replace(text)
		}
		store.set(fields)
		defer s.run()()
		testenv.Equal(t, len(s.All()), MaxExceptions, "exceptions in force")
		_, err := s.Add(t.Context(), allowing("user=carol", time.Hour), "")
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "10000") || s.Find("api", entries("user=carol")) != nil {
			t.Errorf("the 10,001st: %v", err)
		}
		time.Sleep(time.Until(e.Until))
		synctest.Wait()
		s.add(allowing("user=carol", time.Hour))
		testenv.Equal(t, len(s.All()), MaxExceptions, "exceptions in force")
	})
}

func TestBadExceptions(t *testing.T) {
	s := newServer(t, new(fake))
	for want, change := range map[string]func(n *plan.Exception){
		"the domain is empty":                         func(n *plan.Exception) { n.Domain = "" },
		"it has no entries, at least one is required": func(n *plan.Exception) { n.Entries = nil },
		"the key of an entry is empty":                func(n *plan.Exception) { n.JSONDescriptor = plan.NewJSONDescriptor("api", entries("a=b,=c")) },
		"it has 101 entries, at most 100 are allowed": func(n *plan.Exception) {
			n.JSONDescriptor = plan.NewJSONDescriptor("api", slices.Repeat(entries("a=b"), 101))
		},
		"domain and entries have 4097 bytes, at most 4096": func(n *plan.Exception) {
			n.JSONDescriptor = plan.NewJSONDescriptor("api", entries("user="+strings.Repeat("x", 4090)))
		},
		`undefined effect "pass\n"; use one of allow, deny, amount`: func(n *plan.Exception) { n.Effect = "pass\n" },
		"a factor of 0 is not allowed; use 0.001 to 1000000":        func(n *plan.Exception) { n.Effect = "amount" },
		"a factor of NaN is not allowed":                            func(n *plan.Exception) { n.Effect, n.Factor = "amount", math.NaN() },
		"a factor of 1.5e+06 is not allowed":                        func(n *plan.Exception) { n.Effect, n.Factor = "amount", 1.5e6 },
		"a factor applies to the effect amount only":                func(n *plan.Exception) { n.Factor = 2 },
		"a duration of 0s is not allowed":                           func(n *plan.Exception) { n.For = 0 },
		"a duration of 8784h0m1s is not allowed":                    func(n *plan.Exception) { n.For = (maxFor + time.Second).Seconds() },
		"use 1 second to 366 days":                                  func(n *plan.Exception) { n.For = math.MaxFloat64 },
		"a reason is required":                                      func(n *plan.Exception) { n.Reason = " \n" },
		"the reason has 501 bytes, at most 500 are allowed":         func(n *plan.Exception) { n.Reason = strings.Repeat("x", 501) },
		"by has 201 bytes":                                          func(n *plan.Exception) { n.By = strings.Repeat("x", 201) },
	} {
		n := allowing("user=alice", time.Hour)
		change(&n)
		if _, err := s.Add(t.Context(), n, ""); !errors.Is(err, ErrBadRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, id := range []string{"", "a b", strings.Repeat("x", 10_000), "\xff"} {
		if err := s.Remove(t.Context(), id, "", ""); !errors.Is(err, ErrNotFound) {
			t.Errorf("removing %.20q: got %v", id, err)
		}
	}
	n := allowing("user=\xff\x00", time.Second)
	n.Effect, n.Factor, n.Reason = "amount", 0.001, "\u202e\x1b[31m\nlevel=ERROR"
	if e := s.add(n); len(e.ID) != 8 || s.All()[0].What() != "amount 0.001x" || e.Entries[0].ValueBase64 == nil {
		t.Errorf("got %+v", e)
	}
	if log := s.log.String(); strings.Count(log, "\n") != 1 || strings.ContainsAny(log, "\x1b\u202e") {
		t.Errorf("got log %q", log)
	}
}
