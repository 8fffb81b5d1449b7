package redis

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/redis/wire"
	"weir/internal/testenv"
)

// commands returns the names of the commands that the scripts call or that run scripts.
func commands(t *testing.T) []string {
	t.Helper()
	names := map[string]bool{"evalsha": true, "eval": true}
	calls, literal := regexp.MustCompile(`\b(?:p?call|try|ask)\([^.]`), regexp.MustCompile(`\b(?:p?call|try|ask)\("([A-Z]+)"`) // call(...) has a command that is named elsewhere
	for _, text := range []string{wire.Script, changeScript, changesScript, versionScript} {
		found := literal.FindAllStringSubmatch(text, -1)
		testenv.Equal(t, len(calls.FindAllString(text, -1)), len(found), "calls of a script that name their command")
		for _, c := range found {
			names[strings.ToLower(c[1])] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// TestAUserWhoLacksACommand forbids one command of the scripts at a time. Either Ping fails, or
// everything works without the command. Only requests with holds may fail, and then completely.
func TestAUserWhoLacksACommand(t *testing.T) {
	able, two := newFixture(t, Options{}), atOncePerHour(2)
	forHolds := []string{"zrange", "zcount", "zcard", "zscore", "zadd", "pexpire", "zrem"}
	for _, command := range commands(t) {
		t.Run(command, func(t *testing.T) {
			able.do("flushall")
			able.do("script", "flush")
			s := able.openAs(t, "+@all", "-"+command)
			if err := s.Ping(t.Context()); err != nil {
				if conn.Classify(err) != conn.KindAuth || !errors.Is(err, limiter.ErrUnavailable) || slices.Contains(forHolds, command) {
					t.Errorf("Ping: %v", err)
				}
				return
			}
			for _, limits := range [][]*limiter.Limit{{perYear, slidingYear, bucketYear, firstHitYear}, {perYear, perYear, perYear, perYear}} {
				checkWhole(t, able, s, limits)
			}
			able.do("flushall")
			mustDecide(t, able, holding("k", two, 1, false))
			hits := []limiter.Hit{hit("day", perYear, 1), holding("new", two, 2, false), holding("k", two, 1, true)}
			_, err := s.Decide(t.Context(), hits, make([]limiter.Decision, len(hits)))
			if slices.Contains(forHolds, command) != (err != nil) || err != nil && (!errors.Is(err, limiter.ErrUnavailable) || conn.Classify(err) != conn.KindAuth) {
				t.Errorf("holds: error %v of kind %s", err, conn.Classify(err))
			}
		})
	}
}

// TestDocumentedPermissions has a user with only the permissions in docs/operations.md.
func TestDocumentedPermissions(t *testing.T) {
	text := string(testenv.Must(os.ReadFile(filepath.Join(testenv.Repository(t), "docs/operations.md")))(t))
	_, text, _ = strings.Cut(text, "**The user** needs ")
	text, _, _ = strings.Cut(text, "; in a cluster")
	able, rules := newFixture(t, Options{}), []string(nil)
	for _, command := range regexp.MustCompile(`\b[A-Z]{3,}\b`).FindAllString(text, -1) {
		rules = append(rules, "+"+strings.ToLower(command))
	}
	s := able.openAs(t, rules...)
	user := Server{Addr: able.redis.Addr(), Username: "weir", Password: "pw", Timeout: long}
	testenv.OK(t, s.Ping(t.Context()))
	checkWhole(t, able, s, []*limiter.Limit{perYear, slidingYear, bucketYear, firstHitYear})
	testSharedEntries(t, user)
	shared := openShared(t, user, "")
	for range 2 { // the first call asks for reports, the second finds one
		testenv.Must(shared.Reports(t.Context(), reportsWanted))(t)
		testenv.OK(t, shared.Report(t.Context(), "a", []byte("{}")))
	}
	wanted, err := shared.ReportsWanted(t.Context())
	reports, errOfReports := shared.Reports(t.Context(), reportsWanted)
	if err != nil || errOfReports != nil || !wanted || len(reports) != 1 {
		t.Errorf("reports are wanted: %t, there are %d (errors: %v, %v)", wanted, len(reports), err, errOfReports)
	}
	hits := []limiter.Hit{{Limit: perYear, Key: []byte("k")}}
	testenv.Must(s.Peek(t.Context(), hits))(t)
	testenv.OK(t, s.Reset(t.Context(), hits))
}

// checkWhole decides requests on four counters in every part of the script. Each request must be
// counted completely.
func checkWhole(t *testing.T, able *fixture, s *Store, limits []*limiter.Limit) {
	t.Helper()
	keys := []string{"a", "b", "c", "d"}
	for _, c := range []struct {
		name   string
		before []int // use of each key
		change []int
	}{
		{"new", []int{0, 0, 0, 0}, []int{1, 1, 1, 1}},
		{"known", []int{2, 2, 2, 2}, []int{1, 1, 1, 1}},
		{"known, then new", []int{2, 2, 0, 0}, []int{1, 1, 1, 1}},
		{"new, then known", []int{0, 0, 2, 2}, []int{1, 1, 1, 1}},
		{"charges, then all given back", []int{0, 2, 2, 2}, []int{1, 1, -2, -2}},
		{"all given back, then charges", []int{2, 2, 2, 0}, []int{-2, -2, 1, 1}},
		{"some given back", []int{2, 2, 2, 2}, []int{-1, 1, -1, 1}},
	} {
		able.do("flushdb")
		var before, hits, peek []limiter.Hit
		for i, key := range keys {
			before, peek = append(before, hit(key, limits[i], uint64(c.before[i]))), append(peek, hit(key, limits[i], 0))
			if n := c.change[i]; n < 0 {
				hits = append(hits, refund(key, limits[i], uint64(-n)))
			} else {
				hits = append(hits, hit(key, limits[i], uint64(n)))
			}
		}
		mustDecide(t, able, before...)
		if _, err := s.Decide(t.Context(), hits, make([]limiter.Decision, len(hits))); err != nil {
			t.Errorf("%s: Ping says that Redis can decide, but: %v", c.name, err)
		}
		out, _ := mustDecide(t, able, peek...)
		for i, key := range keys {
			testenv.Equal(t, out[i].Used, int64(c.before[i]+c.change[i]), "%s: used of %s", c.name, key)
			if able.do("pttl", key).(int64) == -1 {
				t.Errorf("%s: %s never expires", c.name, key)
			}
		}
	}
}
