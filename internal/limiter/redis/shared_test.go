package redis

import (
	"context"
	"errors"
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

func TestSharedExceptions(t *testing.T) {
	for name, o := range map[string]Server{"real": at(testenv.RedisServer(t).Addr()), "miniature": at(miniredis.RunT(t).Addr())} {
		t.Run(name, func(t *testing.T) { testSharedExceptions(t, o) })
	}
}

// testSharedExceptions sets and removes texts on one server, and reads them on another.
func testSharedExceptions(t *testing.T, o Server) {
	a, b, foreign := openShared(t, o, "p:"), openShared(t, o, "p:"), openShared(t, o, "q:")
	ctx, binary := t.Context(), strings.Repeat("\x00\xff<script>", 1000)
	for i, step := range []struct {
		set    map[string]string
		remove []string
		want   map[string]string
	}{
		{set: map[string]string{"x": "1", "y": binary}, want: map[string]string{"x": "1", "y": binary}},
		{set: map[string]string{"x": "2", "z": "3"}, want: map[string]string{"x": "2", "y": binary, "z": "3"}},
		{remove: []string{"z", "y", "nobody"}, want: map[string]string{"x": "2"}},
		{remove: []string{"x"}, want: map[string]string{}},
	} {
		err := a.SetExceptions(ctx, step.set)
		if step.set == nil {
			err = a.RemoveExceptions(ctx, step.remove...)
		}
		testenv.OK(t, err)
		if got, err := b.Exceptions(ctx); err != nil || !maps.Equal(got, step.want) {
			t.Errorf("step %d: got %q, error %v", i, got, err)
		}
		if none, err := foreign.Exceptions(ctx); len(none) != 0 || err != nil {
			t.Errorf("another prefix: got %q, error %v", none, err)
		}
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
	present(a, "one", "new", time.Millisecond, map[string]string{"one": "new", "two": "y\x00"})
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
		_, exceptions := s.Exceptions(ctx)
		_, wanted := s.ReportsWanted(ctx)
		_, reports := s.Reports(ctx, reportsWanted)
		_, present := s.Present(ctx, "one", nil, time.Hour)
		_, claim := s.Mark(ctx, "x", "", time.Second, false)
		_, mark := s.Mark(ctx, "x", "", time.Second, true)
		return map[string]error{
			"Exceptions": exceptions, "SetExceptions": s.SetExceptions(ctx, map[string]string{"x": "2"}), "RemoveExceptions": s.RemoveExceptions(ctx, "x"),
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
	t.Run("silent", func(t *testing.T) {
		r := testenv.RedisServer(t)
		s := openShared(t, Server{Addr: r.Addr(), Timeout: time.Millisecond}, "")
		testenv.Must(s.Exceptions(t.Context()))(t)
		r.Pause()
		began := time.Now()
		if _, err := s.Exceptions(t.Context()); conn.Classify(err) != conn.KindTimeout || time.Since(began) > 30*time.Second {
			t.Errorf("got error %v after %v", err, time.Since(began))
		}
		r.Resume()
	})
	t.Run("replica", func(t *testing.T) {
		primary := testenv.RedisServer(t)
		s := openShared(t, at(primary.Addr()), "")
		testenv.OK(t, s.SetExceptions(t.Context(), map[string]string{"x": "1"}))
		do(t, connect(t, primary), "config", "set", "replica-serve-stale-data", "yes")
		do(t, connect(t, primary), "replicaof", "127.0.0.1", "1")
		wantErrors(t, s, conn.KindReadOnly, "Exceptions", "ReportsWanted")
	})
	t.Run("full", func(t *testing.T) {
		r := testenv.RedisServer(t)
		s := openShared(t, at(r.Addr()), "")
		do(t, connect(t, r), "config", "set", "maxmemory", "1")
		wantErrors(t, s, conn.KindOOM, "Exceptions", "SetExceptions", "RemoveExceptions", "ReportsWanted")
	})
}
