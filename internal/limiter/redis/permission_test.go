package redis

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// commands lists what the scripts ask of Redis, and what runs them.
func commands(t *testing.T) []string {
	t.Helper()
	files := testenv.Must(lua.ReadDir("lua"))(t)
	names := map[string]bool{"evalsha": true, "eval": true}
	calls, literal := regexp.MustCompile(`\b(?:p?call|try)\([^.]`), regexp.MustCompile(`\b(?:p?call|try)\("([A-Z]+)"`) // (...) hands on what has a name
	for _, f := range files {
		text := testenv.Must(lua.ReadFile("lua/" + f.Name()))(t)
		found := literal.FindAllStringSubmatch(string(text), -1)
		if n := len(calls.FindAll(text, -1)); n != len(found) {
			t.Errorf("%s has %d calls, of which %d name their command", f.Name(), n, len(found))
		}
		for _, c := range found {
			names[strings.ToLower(c[1])] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// TestAUserWhoLacksACommand takes each command of the scripts away. Either Ping says
// so, or everything works without.
func TestAUserWhoLacksACommand(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	for _, command := range commands(t) {
		t.Run(command, func(t *testing.T) {
			do(t, admin, "flushall")
			do(t, admin, "script", "flush")
			do(t, admin, "acl", "setuser", "weir", "reset", "on", ">pw", "~*", "+@all", "-"+command)
			s := open(t, Options{Main: Server{Addr: r.Addr(), Username: "weir", Password: "pw", Timeout: long}})
			err := s.Ping(t.Context())
			if err != nil && (classify(err) != kindAuth || !errors.Is(err, limiter.ErrUnavailable)) {
				t.Errorf("Ping: %v", err)
			}
			if err == nil {
				for _, limits := range [][]*limiter.Limit{{perYear, slidingYear, bucketYear, firstHitYear}, {perYear, perYear, perYear, perYear}} {
					checkWhole(t, r, open(t, Options{Main: at(r.Addr())}), s, limits)
				}
			}
		})
	}
}

// TestDocumentedPermissions has a user who may send what docs/operations.md names, and no
// other command.
func TestDocumentedPermissions(t *testing.T) {
	text := string(testenv.Must(os.ReadFile(filepath.Join(testenv.Repository(t), "docs/operations.md")))(t))
	_, text, _ = strings.Cut(text, "**The user** needs ")
	text, _, _ = strings.Cut(text, "; in a cluster")
	r := testenv.RedisServer(t)
	rules := []any{"acl", "setuser", "weir", "reset", "on", ">pw", "~*"}
	for _, command := range regexp.MustCompile(`\b[A-Z]{3,}\b`).FindAllString(text, -1) {
		rules = append(rules, "+"+strings.ToLower(command))
	}
	do(t, connect(t, r), rules...)
	user := Server{Addr: r.Addr(), Username: "weir", Password: "pw", Timeout: long}
	s := open(t, Options{Main: user})
	testenv.OK(t, s.Ping(t.Context()))
	checkWhole(t, r, open(t, Options{Main: at(r.Addr())}), s, []*limiter.Limit{perYear, slidingYear, bucketYear, firstHitYear})
	testSharedExceptions(t, user)
	shared := openShared(t, user, "")
	for range 2 { // the first asks for reports, the second finds one
		testenv.Must(shared.Reports(t.Context()))(t)
		testenv.OK(t, shared.Report(t.Context(), "a", []byte("{}")))
	}
	wanted, err := shared.ReportsWanted(t.Context())
	reports, errOfReports := shared.Reports(t.Context())
	if err != nil || errOfReports != nil || !wanted || len(reports) != 1 {
		t.Errorf("reports are wanted: %t, there are %d (errors: %v, %v)", wanted, len(reports), err, errOfReports)
	}
	hits := []limiter.Hit{{Limit: perYear, Key: []byte("k")}}
	if _, err := s.Peek(t.Context(), hits); err != nil {
		t.Error(err)
	}
	testenv.OK(t, s.Reset(t.Context(), hits))
}

// checkWhole decides requests of every kind on four counters, and wants each to be counted as
// a whole, whichever part of the script decides it.
func checkWhole(t *testing.T, r *testenv.Redis, able, s *store, limits []*limiter.Limit) {
	t.Helper()
	keys := []string{"a", "b", "c", "d"}
	for _, c := range []struct {
		name    string
		before  []uint64 // what is used of each key
		costs   []uint64
		refunds []bool
	}{
		{"new", []uint64{0, 0, 0, 0}, []uint64{1, 1, 1, 1}, []bool{false, false, false, false}},
		{"known", []uint64{2, 2, 2, 2}, []uint64{1, 1, 1, 1}, []bool{false, false, false, false}},
		{"known, then new", []uint64{2, 2, 0, 0}, []uint64{1, 1, 1, 1}, []bool{false, false, false, false}},
		{"new, then known", []uint64{0, 0, 2, 2}, []uint64{1, 1, 1, 1}, []bool{false, false, false, false}},
		{"charges, then all given back", []uint64{0, 2, 2, 2}, []uint64{1, 1, 2, 2}, []bool{false, false, true, true}},
		{"all given back, then charges", []uint64{2, 2, 2, 0}, []uint64{2, 2, 1, 1}, []bool{true, true, false, false}},
		{"some given back", []uint64{2, 2, 2, 2}, []uint64{1, 1, 1, 1}, []bool{true, false, true, false}},
	} {
		do(t, connect(t, r), "flushdb")
		var charge, hits, peek []limiter.Hit
		for i, key := range keys {
			h := limiter.Hit{Limit: limits[i], Key: []byte(key)}
			peek = append(peek, h)
			h.Cost = c.before[i]
			charge = append(charge, h)
			h.Cost, h.Refund = c.costs[i], c.refunds[i]
			hits = append(hits, h)
		}
		out := make([]limiter.Decision, len(keys))
		testenv.Must(able.Decide(context.Background(), charge, out))(t)
		if _, err := s.Decide(context.Background(), hits, out); err != nil {
			t.Errorf("%s: Ping says that Redis can decide, but: %v", c.name, err)
		}
		testenv.Must(able.Decide(context.Background(), peek, out))(t)
		for i, key := range keys {
			want := int64(c.before[i] + c.costs[i])
			if c.refunds[i] {
				want = int64(c.before[i] - c.costs[i])
			}
			if out[i].Used != want {
				t.Errorf("%s: %d used of %s, want %d", c.name, out[i].Used, key, want)
			}
			if ttl := do(t, connect(t, r), "pttl", key).(int64); ttl == -1 {
				t.Errorf("%s: %s never expires", c.name, key)
			}
		}
	}
}
