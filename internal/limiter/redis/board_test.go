package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/operators/exceptions"
	"weir/internal/operators/exceptions/storetest"
	"weir/internal/testenv"
)

func openBoard(t *testing.T, o Server, prefix string) *Board {
	t.Helper()
	b, err := OpenBoard(o, prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// records is a Board as package exceptions asks it.
type records struct{ *Board }

func (r records) Load(ctx context.Context, known exceptions.Version) (list []exceptions.Record, _ exceptions.Version, _ error) {
	all, version, err := r.Board.Load(ctx, Version(known))
	for _, one := range all {
		list = append(list, exceptions.Record(one))
	}
	return list, exceptions.Version(version), err
}

func (r records) Add(ctx context.Context, one exceptions.Record, most int) error {
	err := r.Board.Add(ctx, Record(one), most)
	if errors.Is(err, ErrFull) {
		return exceptions.ErrFull
	}
	return err
}

func (r records) Restore(ctx context.Context, list []exceptions.Record) error {
	var all []Record
	for _, one := range list {
		all = append(all, Record(one))
	}
	return r.Board.Restore(ctx, all)
}

func TestRecords(t *testing.T) {
	single := testenv.RedisServer(t)
	cluster, _, _ := startCluster(t, 0)
	for name, o := range map[string]Server{"real": at(single.Addr()), "cluster": cluster.Main, "miniature": at(miniredis.RunT(t).Addr())} {
		t.Run(name, func(t *testing.T) {
			stores := 0
			storetest.Run(t, func(t *testing.T) exceptions.Store {
				stores++
				return records{openBoard(t, o, fmt.Sprint("test ", (stores+1)/2, ":"))}
			})
		})
	}
}

// TestManyRecords keeps ten thousand, whose bodies are more than one reply may hold, and
// puts back those that were lost.
func TestManyRecords(t *testing.T) {
	r := testenv.RedisServer(t)
	b := openBoard(t, at(r.Addr()), "")
	body := []byte(strings.Repeat("\x00<script>", 220))
	var all []Record
	for i := range 10_000 {
		all = append(all, Record{fmt.Sprintf("id%05d", i), body})
	}
	if err := b.Restore(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	got, version, err := b.Load(t.Context(), Version{})
	if err != nil || len(got) != len(all) || string(got[0].Body) != string(body) {
		t.Fatalf("got %d records, error %v", len(got), err)
	}
	if err := b.Add(t.Context(), Record{ID: "more"}, len(all)); !errors.Is(err, ErrFull) {
		t.Errorf("one too many: got error %v", err)
	}
	if ttl := do(t, connect(t, r), "pttl", b.records).(int64); ttl != -1 {
		t.Errorf("the records expire in %d ms", ttl)
	}
	do(t, connect(t, r), "flushall")
	if got, lost, err := b.Load(t.Context(), version); len(got) != 0 || lost != (Version{}) || err != nil {
		t.Errorf("lost: got %d records in version %+v, error %v", len(got), lost, err)
	}
	if err := b.Restore(t.Context(), all[:300]); err != nil {
		t.Fatal(err)
	}
	if got, restored, err := b.Load(t.Context(), version); len(got) != 300 || restored.Epoch == version.Epoch || err != nil {
		t.Errorf("restored: got %d records in version %+v, error %v", len(got), restored, err)
	}
	if err := b.Add(t.Context(), Record{"large", make([]byte, MaxRecord+1)}, 0); err == nil {
		t.Error("a record that is too large was added")
	}
}

// TestServersReport lets servers come, report and go.
func TestServersReport(t *testing.T) {
	cluster, _, _ := startCluster(t, 0)
	for name, o := range map[string]Server{"real": at(testenv.RedisServer(t).Addr()), "cluster": cluster.Main} {
		t.Run(name, func(t *testing.T) {
			b, other := openBoard(t, o, "p:"), openBoard(t, o, "p:")
			foreign := openBoard(t, o, "q:")
			ctx := t.Context()
			poll := func(b *Board, name string, want Said) {
				t.Helper()
				if said, err := b.Poll(ctx, name); said != want || err != nil {
					t.Errorf("%s: got %+v, error %v, want %+v", name, said, err, want)
				}
			}
			want := func(b *Board, want ...string) {
				t.Helper()
				servers, err := b.Want(ctx)
				slices.Sort(servers)
				if err != nil || !slices.Equal(servers, want) {
					t.Errorf("got servers %q, error %v, want %q", servers, err, want)
				}
			}
			poll(b, "one", Said{})
			poll(other, "two", Said{})
			poll(foreign, "three", Said{})
			want(b, "one", "two")
			poll(other, "two", Said{Wanted: true})
			poll(foreign, "three", Said{})
			report := []byte(strings.Repeat("\x00\xff", MaxReport/2))
			if err := other.Report(ctx, "two", report); err != nil {
				t.Fatal(err)
			}
			if reports, err := b.Reports(ctx, []string{"one", "two", "three"}); err != nil || len(reports) != 1 || string(reports["two"]) != string(report) {
				t.Errorf("got %d reports, error %v", len(reports), err)
			}
			if err := other.Report(ctx, "two", append(report, 0)); err == nil {
				t.Error("a report that is too large was written")
			}
			testenv.Until(t, "the report is gone", func() bool {
				reports, err := b.Reports(ctx, []string{"two"})
				return err == nil && len(reports) == 0
			})
			if err := other.Leave(ctx, "two"); err != nil {
				t.Fatal(err)
			}
			poll(b, "one", Said{Wanted: true})
			want(b, "one")

			said := map[string]bool{"": true}
			for range 3 {
				if err := other.AnnounceReset(ctx); err != nil {
					t.Fatal(err)
				}
				got, err := b.Poll(ctx, "one")
				if err != nil || said[got.Reset] {
					t.Errorf("after a reset: got %+v, error %v", got, err)
				}
				said[got.Reset] = true
				poll(b, "one", got)
			}
			testenv.Until(t, "a server that does not poll is not there", func() bool {
				servers, err := b.Want(ctx)
				return err == nil && len(servers) == 0
			})
		})
	}
}

// TestBoardOnARedisThatFails wants an error in time, and the poll and resets of a Redis
// that is full.
func TestBoardOnARedisThatFails(t *testing.T) {
	calls := func(b *Board) map[string]error {
		ctx := context.Background()
		_, _, load := b.Load(ctx, Version{})
		_, remove := b.Remove(ctx, "id")
		_, poll := b.Poll(ctx, "one")
		_, want := b.Want(ctx)
		_, reports := b.Reports(ctx, []string{"one"})
		return map[string]error{
			"Load": load, "Remove": remove, "Poll": poll, "Want": want, "Reports": reports,
			"Add": b.Add(ctx, Record{ID: "id"}, 1), "Restore": b.Restore(ctx, []Record{{ID: "other"}}), "Forget": b.Forget(ctx, []string{"x"}),
			"Report": b.Report(ctx, "one", []byte("x")), "AnnounceReset": b.AnnounceReset(ctx), "Leave": b.Leave(ctx, "one"),
		}
	}
	// wantErrors wants errors of all calls but those that work.
	wantErrors := func(t *testing.T, b *Board, kind kind, works ...string) {
		t.Helper()
		for name, err := range calls(b) {
			if slices.Contains(works, name) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if !errors.Is(err, limiter.ErrUnavailable) || classify(err) != kind || strings.Contains(err.Error(), "swordfish") {
				t.Errorf("%s: got error %v of kind %s, want kind %s", name, err, classify(err), kind)
			}
		}
	}
	read := []string{"Load", "Reports"}
	t.Run("nobody there", func(t *testing.T) {
		wantErrors(t, openBoard(t, Server{Addr: testenv.OwnAddr(t), Password: "swordfish"}, ""), kindConnection)
	})
	t.Run("silent", func(t *testing.T) {
		r := testenv.RedisServer(t)
		b := openBoard(t, Server{Addr: r.Addr(), OpTimeout: time.Millisecond}, "")
		if _, err := b.Poll(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		r.Pause()
		began := time.Now()
		_, err := b.Poll(t.Context(), "one")
		if classify(err) != kindTimeout || time.Since(began) > 30*time.Second {
			t.Errorf("got error %v after %v", err, time.Since(began))
		}
		r.Resume()
	})
	t.Run("replica", func(t *testing.T) {
		primary := testenv.RedisServer(t)
		b := openBoard(t, at(primary.Addr()), "")
		if _, err := b.Poll(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		if err := b.Add(t.Context(), Record{"id", []byte("x")}, 1); err != nil {
			t.Fatal(err)
		}
		do(t, connect(t, primary), "config", "set", "replica-serve-stale-data", "yes")
		do(t, connect(t, primary), "replicaof", "127.0.0.1", "1")
		wantErrors(t, b, kindReadOnly, read...)
	})
	t.Run("full", func(t *testing.T) {
		r := testenv.RedisServer(t)
		b := openBoard(t, at(r.Addr()), "")
		if err := b.Add(t.Context(), Record{"id", []byte("x")}, 1); err != nil {
			t.Fatal(err)
		}
		do(t, connect(t, r), "config", "set", "maxmemory", "1")
		_, before, err := b.Load(t.Context(), Version{})
		if err != nil {
			t.Fatal(err)
		}
		if removed, err := b.Remove(t.Context(), "id"); !removed || err != nil {
			t.Errorf("Remove: %v, error %v", removed, err)
		}
		if _, after, err := b.Load(t.Context(), before); err != nil || after.Count != before.Count+1 {
			t.Errorf("after Remove the version is %+v, error %v", after, err)
		}
		wantErrors(t, b, kindOOM, append(read, "Remove", "Poll", "Want", "Forget", "AnnounceReset", "Leave")...)
	})
	t.Run("something else under the keys", func(t *testing.T) {
		r := testenv.RedisServer(t)
		b := openBoard(t, at(r.Addr()), "")
		do(t, connect(t, r), "set", b.records, "x")
		do(t, connect(t, r), "set", b.servers, "x")
		wantErrors(t, b, kindOther, "Report", "Reports")
		do(t, connect(t, r), "del", b.records, b.servers)
		do(t, connect(t, r), "hset", b.records, "foreign", "x", ".count", "many")
		do(t, connect(t, r), "hset", b.servers, ".wanted", "never", "foreign", "long ago", ".reset", "<script>")
		if _, version, err := b.Load(t.Context(), Version{}); err != nil || version != (Version{}) {
			t.Errorf("got version %+v, error %v", version, err)
		}
		if said, err := b.Poll(t.Context(), "one"); err != nil || said != (Said{Reset: "<script>"}) {
			t.Errorf("got %+v, error %v", said, err)
		}
		if servers, err := b.Want(t.Context()); err != nil || !slices.Equal(servers, []string{"one"}) {
			t.Errorf("got servers %q, error %v", servers, err)
		}
	})
}

// TestBoardFollowsThePrimary asks for the primary that a sentinel promotes.
func TestBoardFollowsThePrimary(t *testing.T) {
	primary := testenv.RedisServer(t)
	testenv.RedisReplica(t, primary)
	sentinel := testenv.RedisSentinel(t, primary, steady)
	b := openBoard(t, Server{Type: Sentinel, Primary: "weir", Addr: sentinel.Addr(), OpTimeout: long}, "")
	if err := b.Add(t.Context(), Record{"id", []byte("x")}, 1); err != nil {
		t.Fatal(err)
	}
	do(t, connect(t, primary), "wait", 1, long.Milliseconds())
	primary.Stop()
	admin := connect(t, sentinel)
	testenv.Until(t, "the promoted replica answers", func() bool {
		_ = admin.Do(t.Context(), "sentinel", "failover", "weir").Err() // refused while one is under way
		records, _, err := b.Load(t.Context(), Version{})
		if err != nil || len(records) != 1 {
			return false
		}
		_, err = b.Poll(t.Context(), "one")
		return err == nil
	})
}
