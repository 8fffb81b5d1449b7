package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/testenv"
)

const reportsWanted = 3 * time.Second

func openShared(t *testing.T, o Server, prefix string) *Shared {
	t.Helper()
	s := OpenShared(o, prefix)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestSharedEntries(t *testing.T) {
	for name, o := range map[string]Server{"real": at(testenv.RedisServer(t).Addr()), "miniature": at(miniredis.RunT(t).Addr())} {
		t.Run(name, func(t *testing.T) { testSharedEntries(t, o) })
	}
}

// entriesOf returns the texts of a part and its newest change, and checks their number.
func entriesOf(t *testing.T, s *Shared, part int) (texts map[string]string, newest string) {
	t.Helper()
	texts = map[string]string{}
	testenv.OK(t, s.Scan(t.Context(), part, func(id, text string) { texts[id] = text }))
	size, changes, _, _, err := s.Changes(t.Context(), part, "?")
	delete(texts, ".")
	if err != nil || max(size, 0) != len(texts) {
		t.Errorf("part %d has %d texts, want %d (error: %v)", part, size, len(texts), err)
	}
	if len(changes) > 0 {
		newest = changes[0]
	}
	return texts, newest
}

func token() string { return rand.Text()[:8] }

// putException sets the text of an exception, or removes it if text is empty.
func putException(ctx context.Context, s *Shared, text string) error {
	_, changes, _, _, err := s.Changes(ctx, 0, "?")
	if err == nil {
		_, err = s.Change(ctx, 0, append(changes, "")[0], token(), false, [][2]string{{"x", text}})
	}
	return err
}

// testSharedEntries changes texts on one server, and reads them on another.
func testSharedEntries(t *testing.T, o Server) {
	a, b, foreign := openShared(t, o, "p:"), openShared(t, o, "p:"), openShared(t, o, "q:")
	ctx, binary := t.Context(), strings.Repeat("\x00\xff<script>", 1000)
	for part := range 3 {
		versions, newest := map[string]bool{}, ""
		for i, step := range []struct {
			texts  [][2]string
			listed int    // number of changes in the list
			want   string // the texts by ID, but not the binary one
		}{
			{[][2]string{{"x", "1"}, {"\x00", binary}}, 2, "x:1"},
			{[][2]string{{"x", "2"}, {"z", "3"}, {"k", "5"}}, 3, "k:5 x:2 z:3"},
			{[][2]string{{"z"}, {"k", "5"}, {"nobody"}, {"x"}, {"k"}}, 3, ""},
			{[][2]string{{"a", "5\n1\nme\nnote\n"}, {"a", "12\n2\nyou\n\n"}}, 2, "a:12\n2\nyou\n\n"},
		} {
			if now, err := a.Change(ctx, part, "other", token(), false, step.texts); err != nil || now != "behind" {
				t.Errorf("step %d: with another newest change: %q, error %v", i, now, err)
			}
			made, err := a.Change(ctx, part, newest, token(), false, step.texts)
			version, errOfVersion := b.Version(ctx)
			if err != nil || errOfVersion != nil || version == "" || versions[version] {
				t.Errorf("step %d: got version %q, errors %v, %v", i, version, err, errOfVersion)
			}
			versions[version] = true
			_, changes, texts, found, err := b.Changes(ctx, part, newest)
			all, now := entriesOf(t, b, part)
			var got []string
			for _, id := range slices.Sorted(maps.Keys(all)) {
				if id != "\x00" {
					got = append(got, id+":"+all[id])
				}
			}
			if strings.Join(got, " ") != step.want || all["\x00"] != binary {
				t.Errorf("step %d: got %.200q", i, got)
			}
			if err != nil || !found || len(changes) != step.listed || changes[0] != now || made != now {
				t.Errorf("step %d: got the changes %q (found is %t), want %d with %q, error %v", i, changes, found, step.listed, made, err)
			}
			for j, change := range changes {
				testenv.Equal(t, texts[j], all[change[8:]], "step %d: text of the change %q", i, change)
			}
			newest = now
		}
		older, newer := [2]string{"a", "7\n1\nme\n\n"}, [2]string{"a", "8\n3\nme\n\n"}
		for _, lost := range [][2]string{older, newer} { // only the newer text replaces the stored one
			newest = testenv.Must(a.Change(ctx, part, newest, token(), true, [][2]string{lost}))(t)
		}
		if all, now := entriesOf(t, b, part); all["a"] != newer[1] || now != newest {
			t.Errorf("part %d: got %.200q after %q was lost", part, all, newer)
		}
		if now, err := a.Change(ctx, part, newest, token(), false, [][2]string{older}); now != "wait" || err != nil {
			t.Errorf("part %d: got %q while servers restore texts, error %v", part, now, err)
		}
		if none, change := entriesOf(t, foreign, part); len(none) != 0 || change != "" {
			t.Errorf("another prefix: got %q", none)
		}
	}
}

// TestSharedChangesAreBounded makes more changes than a list keeps. A caller that has read none gets
// the oldest ones first, until the list may have lost some.
func TestSharedChangesAreBounded(t *testing.T) {
	s, newest := openShared(t, at(testenv.RedisServer(t).Addr()), ""), ""
	for i := range 41 {
		var some [][2]string
		for j := range 100 {
			some = append(some, [2]string{fmt.Sprint(100*i + j), "x"})
		}
		testenv.Must(s.Change(t.Context(), 1, newest, token(), false, some))(t)
		size, all, texts, found, err := s.Changes(t.Context(), 1, "")
		if want := i < 40; err != nil || size != 100*(i+1) || found != want || len(all) != min(100*(i+1), 1000+3096*(i/40)) || want && all[len(all)-1][8:] != "0" || len(texts) > len(all) {
			t.Fatalf("after %d changes: %d texts, the changes %d to %.20q, found %t, error %v", 100*(i+1), size, len(all), all[len(all)-1], found, err)
		}
		_, newest = entriesOf(t, s, 1)
	}
}

func TestSharedReports(t *testing.T) { testSharedReports(t, at(testenv.RedisServer(t).Addr())) }

// testSharedReports stores reports that another server asks for, and checks that they expire.
func testSharedReports(t *testing.T, o Server) {
	a, b := openShared(t, o, ""), openShared(t, o, "")
	report := strings.Repeat("\x00\xff", 128<<10)
	if wanted, err := a.ReportsWanted(t.Context()); wanted || err != nil {
		t.Errorf("wanted is %t, error %v", wanted, err)
	}
	if got, err := b.Reports(t.Context(), reportsWanted); err != nil || len(got) != 0 {
		t.Errorf("got %d reports, error %v", len(got), err)
	}
	if wanted, err := a.ReportsWanted(t.Context()); !wanted || err != nil {
		t.Errorf("wanted is %t, error %v", wanted, err)
	}
	testenv.OK(t, a.Report(t.Context(), "one", []byte(report)))
	testenv.OK(t, a.Report(t.Context(), "two", nil))
	if got, err := b.Reports(t.Context(), reportsWanted); err != nil || len(got) != 2 || got["one"] != report {
		t.Errorf("got %d reports, error %v", len(got), err)
	}
	testenv.Until(t, "the reports are gone", func() bool {
		got, err := b.Reports(t.Context(), reportsWanted)
		return err == nil && len(got) == 0
	})
	testenv.Until(t, "no more reports are wanted", func() bool {
		wanted, err := a.ReportsWanted(t.Context())
		return err == nil && !wanted
	})
}

// TestSharedMarks claims a mark on two servers. Until the mark expires, only one of them gets it.
func TestSharedMarks(t *testing.T) {
	r := testenv.RedisServer(t)
	a, b, foreign := openShared(t, at(r.Addr()), "p:"), openShared(t, at(r.Addr()), "p:"), openShared(t, at(r.Addr()), "q:")
	claim := func(s *Shared, text, want string) {
		t.Helper()
		if other, err := s.Mark(t.Context(), "x", text, time.Hour, false); other != want || err != nil {
			t.Errorf("got %q, error %v, want %q", other, err, want)
		}
	}
	claim(a, "1", "")
	claim(b, "2", "1")
	claim(foreign, "3", "")
	replace := func(s *Shared, text string, lasts time.Duration) {
		t.Helper()
		if other, err := s.Mark(t.Context(), "x", text, lasts, true); other != "" || err != nil {
			t.Errorf("got %q, error %v", other, err)
		}
	}
	replace(b, "4", time.Hour)
	claim(a, "5", "4")
	replace(a, "released", time.Millisecond)
	testenv.Until(t, "the mark expires", func() bool {
		other, err := b.Mark(t.Context(), "x", "6", time.Hour, false)
		return err == nil && other == ""
	})
}

// TestPresent lets servers appear, change and disappear.
func TestPresent(t *testing.T) {
	addr := at(testenv.RedisServer(t).Addr())
	a, b, foreign := openShared(t, addr, ""), openShared(t, addr, ""), openShared(t, addr, "q:")
	present := func(s *Shared, server, state string, lasts time.Duration, want map[string]string) {
		t.Helper()
		if got, err := s.Present(t.Context(), server, []byte(state), lasts); err != nil || !maps.Equal(got, want) {
			t.Errorf("got %q, want %q (error: %v)", got, want, err)
		}
	}
	present(a, "one", "x", time.Hour, map[string]string{"one": "x"})
	present(b, "two", "y\x00", time.Hour, map[string]string{"one": "x", "two": "y\x00"})
	present(foreign, "three", "z", time.Hour, map[string]string{"three": "z"})
	present(a, "one", "new", time.Hour, map[string]string{"one": "new", "two": "y\x00"})
	testenv.Must(a.Present(t.Context(), "one", nil, time.Millisecond))(t) // may be gone before the states are read
	testenv.Until(t, "a stopped server is gone", func() bool {
		got, err := b.Present(t.Context(), "two", []byte("y"), time.Hour)
		return err == nil && maps.Equal(got, map[string]string{"two": "y"})
	})
	if reports, err := a.Reports(t.Context(), reportsWanted); err != nil || len(reports) != 0 {
		t.Errorf("got the reports %q, error %v", reports, err)
	}
}

// TestSharedOnARedisThatFails expects errors in time. In a full Redis, exceptions can be
// changed.
func TestSharedOnARedisThatFails(t *testing.T) {
	calls := func(s *Shared) map[string]error {
		ctx := context.Background()
		_, version := s.Version(ctx)
		_, _, _, _, changes := s.Changes(ctx, 0, "")
		_, wanted := s.ReportsWanted(ctx)
		_, reports := s.Reports(ctx, reportsWanted)
		_, present := s.Present(ctx, "one", nil, time.Hour)
		_, claim := s.Mark(ctx, "x", "", time.Second, false)
		_, mark := s.Mark(ctx, "x", "", time.Second, true)
		return map[string]error{
			"Version": version, "Changes": changes, "Scan": s.Scan(ctx, 0, func(string, string) {}), "Change": putException(ctx, s, "2"), "remove": putException(ctx, s, ""),
			"ReportsWanted": wanted, "Report": s.Report(ctx, "one", []byte("x")), "Reports": reports,
			"Mark": mark, "Mark if unset": claim, "Present": present,
		}
	}
	// wantErrors expects errors of all calls except the named ones.
	wantErrors := func(t *testing.T, s *Shared, kind conn.Kind, works ...string) {
		t.Helper()
		for name, err := range calls(s) {
			if slices.Contains(works, name) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if !errors.Is(err, limiter.ErrUnavailable) || conn.Classify(err) != kind || strings.Contains(err.Error(), "swordfish") {
				t.Errorf("%s: got error %v of kind %s, want kind %s", name, err, conn.Classify(err), kind)
			}
		}
	}
	t.Run("nobody there", func(t *testing.T) {
		wantErrors(t, openShared(t, Server{Addr: testenv.OwnAddr(t), Password: "swordfish"}, ""), conn.KindConnection)
	})
	t.Run("replica", func(t *testing.T) {
		primary := testenv.RedisServer(t)
		s := openShared(t, at(primary.Addr()), "")
		testenv.OK(t, putException(t.Context(), s, "1"))
		do(t, connect(t, primary), "config", "set", "replica-serve-stale-data", "yes")
		do(t, connect(t, primary), "replicaof", "127.0.0.1", "1")
		wantErrors(t, s, conn.KindReadOnly, "Version", "Changes", "Scan", "ReportsWanted")
	})
	t.Run("full", func(t *testing.T) {
		r := testenv.RedisServer(t)
		s := openShared(t, at(r.Addr()), "")
		do(t, connect(t, r), "config", "set", "maxmemory", "1")
		wantErrors(t, s, conn.KindOOM, "Version", "Changes", "Scan", "Change", "remove", "ReportsWanted")
	})
}
