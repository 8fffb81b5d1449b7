package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

func openShared(t *testing.T, o Server, prefix string) *shared {
	t.Helper()
	s := testenv.Must(OpenShared(o, prefix))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s.(*shared)
}

func TestSharedHashes(t *testing.T) {
	for name, o := range map[string]Server{"real": at(testenv.RedisServer(t).Addr()), "miniature": at(miniredis.RunT(t).Addr())} {
		t.Run(name, func(t *testing.T) { testSharedHashes(t, o) })
	}
}

// testSharedHashes changes a hash in each way, and wants another server to see it.
func testSharedHashes(t *testing.T, o Server) {
	a, b, foreign := openShared(t, o, "p:"), openShared(t, o, "p:"), openShared(t, o, "q:")
	ctx, epoch := t.Context(), ""
	binary := strings.Repeat("\x00\xff<script>", 1000)
	for i, step := range []struct {
		set    map[string]string
		remove []string
		there  int
		count  string
		want   map[string]string
	}{
		{set: map[string]string{"x": "1", "y": binary}, count: "1", want: map[string]string{"x": "1", "y": binary}},
		{set: map[string]string{"x": "2", "z": "3"}, there: 1, count: "2", want: map[string]string{"x": "2", "y": binary, "z": "3"}},
		{set: map[string]string{"nobody": ""}, count: "2", want: map[string]string{"x": "2", "y": binary, "z": "3"}},
		{set: map[string]string{"y": "", "nobody": ""}, there: 1, count: "3", want: map[string]string{"x": "2", "z": "3"}},
		{remove: []string{"z", "nobody"}, count: "3", want: map[string]string{"x": "2"}},
		{set: map[string]string{"x": ""}, there: 1, count: "4"},
		{set: map[string]string{"x": "5"}, count: "5", want: map[string]string{"x": "5"}},
	} {
		var there int
		var err error
		if step.set != nil {
			there, err = a.Set(ctx, "hash", step.set)
		} else {
			err = a.Remove(ctx, "hash", step.remove...)
		}
		if there != step.there || err != nil {
			t.Errorf("step %d: %d were there, error %v", i, there, err)
		}
		got, err := b.Fields(ctx, "hash")
		if err != nil || got[".count"] != step.count || got[".epoch"] == "" || epoch != "" && got[".epoch"] != epoch {
			t.Errorf("step %d: got epoch %q, count %s, error %v", i, got[".epoch"], got[".count"], err)
		}
		epoch = got[".epoch"]
		maps.DeleteFunc(got, func(name, _ string) bool { return name[0] == '.' })
		if !maps.Equal(got, step.want) {
			t.Errorf("step %d: got %q", i, got)
		}
	}
	if some, err := b.Fields(ctx, "hash", "nobody", ".count", "x"); err != nil || !maps.Equal(some, map[string]string{".count": "5", "x": "5"}) {
		t.Errorf("some fields: got %q, error %v", some, err)
	}
	if none, err := foreign.Fields(ctx, "hash"); len(none) != 0 || err != nil {
		t.Errorf("another prefix: got %q, error %v", none, err)
	}
}

func TestSharedReports(t *testing.T) { testSharedReports(t, at(testenv.RedisServer(t).Addr())) }

// testSharedReports leaves a report, and wants it to be there for its time.
func testSharedReports(t *testing.T, o Server) {
	a, b := openShared(t, o, ""), openShared(t, o, "")
	report := strings.Repeat("\x00\xff", 128<<10)
	testenv.OK(t, a.Report(t.Context(), "two", []byte(report), time.Second))
	if got, err := b.Reports(t.Context(), []string{"one", "two"}); err != nil || len(got) != 1 || got["two"] != report {
		t.Errorf("got %d reports, error %v", len(got), err)
	}
	testenv.Until(t, "the report is gone", func() bool {
		got, err := b.Reports(t.Context(), []string{"two"})
		return err == nil && len(got) == 0
	})
}

// TestManyFields keeps as many exceptions as there may be, each with much text, and does
// not let them expire.
func TestManyFields(t *testing.T) {
	r := testenv.RedisServer(t)
	s := openShared(t, at(r.Addr()), "")
	fields, text := map[string]string{}, strings.Repeat("<script>", 100)
	for i := range 10_000 {
		fields[fmt.Sprintf("id%05d", i)] = text
	}
	testenv.Must(s.Set(t.Context(), "exceptions", fields))(t)
	if got, err := s.Fields(t.Context(), "exceptions"); err != nil || len(got) != len(fields)+2 || got["id09999"] != text {
		t.Errorf("got %d fields, error %v", len(got), err)
	}
	if ttl := do(t, connect(t, r), "pttl", s.key("exceptions")).(int64); ttl != -1 {
		t.Errorf("they expire in %d ms", ttl)
	}
}

// TestSharedOnARedisThatFails wants an error in time, and changes of hashes in a Redis that
// is full.
func TestSharedOnARedisThatFails(t *testing.T) {
	calls := func(s *shared) map[string]error {
		ctx := context.Background()
		_, fields := s.Fields(ctx, "hash", "x")
		_, all := s.Fields(ctx, "hash")
		_, set := s.Set(ctx, "hash", map[string]string{"x": "2"})
		_, reports := s.Reports(ctx, []string{"one"})
		return map[string]error{
			"Fields": fields, "all Fields": all, "Set": set, "Remove": s.Remove(ctx, "hash", "x"),
			"Report": s.Report(ctx, "one", []byte("x"), time.Second), "Reports": reports,
		}
	}
	// wantErrors wants errors of all calls but those that work.
	wantErrors := func(t *testing.T, s *shared, kind kind, works ...string) {
		t.Helper()
		for name, err := range calls(s) {
			if slices.Contains(works, name) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if !errors.Is(err, limiter.ErrUnavailable) || classify(err) != kind || strings.Contains(err.Error(), "swordfish") {
				t.Errorf("%s: got error %v of kind %s, want kind %s", name, err, classify(err), kind)
			}
		}
	}
	t.Run("nobody there", func(t *testing.T) {
		wantErrors(t, openShared(t, Server{Addr: testenv.OwnAddr(t), Password: "swordfish"}, ""), kindConnection)
	})
	t.Run("silent", func(t *testing.T) {
		r := testenv.RedisServer(t)
		s := openShared(t, Server{Addr: r.Addr(), Timeout: time.Millisecond}, "")
		testenv.Must(s.Fields(t.Context(), "hash"))(t)
		r.Pause()
		began := time.Now()
		if _, err := s.Fields(t.Context(), "hash"); classify(err) != kindTimeout || time.Since(began) > 30*time.Second {
			t.Errorf("got error %v after %v", err, time.Since(began))
		}
		r.Resume()
	})
	t.Run("replica", func(t *testing.T) {
		primary := testenv.RedisServer(t)
		s := openShared(t, at(primary.Addr()), "")
		testenv.Must(s.Set(t.Context(), "hash", map[string]string{"x": "1"}))(t)
		do(t, connect(t, primary), "config", "set", "replica-serve-stale-data", "yes")
		do(t, connect(t, primary), "replicaof", "127.0.0.1", "1")
		wantErrors(t, s, kindReadOnly, "Fields", "all Fields", "Reports")
	})
	t.Run("full", func(t *testing.T) {
		r := testenv.RedisServer(t)
		s := openShared(t, at(r.Addr()), "")
		do(t, connect(t, r), "config", "set", "maxmemory", "1")
		wantErrors(t, s, kindOOM, "Fields", "all Fields", "Set", "Remove", "Reports")
	})
	t.Run("something else under the key", func(t *testing.T) {
		r := testenv.RedisServer(t)
		s := openShared(t, at(r.Addr()), "")
		do(t, connect(t, r), "set", s.key("hash"), "x")
		wantErrors(t, s, kindOther, "Report", "Reports")
	})
}
