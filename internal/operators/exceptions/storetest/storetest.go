// Package storetest checks that a store of exceptions does what exceptions.Store says.
package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/operators/exceptions"
)

// Run tests the stores that open returns: the first call in each test opens an empty one,
// further calls open the same one for other servers.
func Run(t *testing.T, open func(t *testing.T) exceptions.Store) {
	for name, test := range map[string]func(*testing.T, exceptions.Store, exceptions.Store){
		"versions": versions, "any bytes": anyBytes, "full": full, "restore": restore, "together": together,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t), open(t)) })
	}
}

func record(id, body string) exceptions.Record {
	return exceptions.Record{ID: id, Body: []byte(body)}
}

// load returns the records of a store as text, in order, and their version.
func load(t *testing.T, s exceptions.Store, known exceptions.Version) (string, exceptions.Version) {
	t.Helper()
	records, version, err := s.Load(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(records, func(a, b exceptions.Record) int { return cmp.Compare(a.ID, b.ID) })
	var texts []string
	for _, r := range records {
		texts = append(texts, r.ID+"="+string(r.Body))
	}
	return strings.Join(texts, " "), version
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// versions changes a store in each way, and wants another server to see it.
func versions(t *testing.T, a, b exceptions.Store) {
	ctx := t.Context()
	if got, version := load(t, b, exceptions.Version{}); got != "" || version != (exceptions.Version{}) {
		t.Fatalf("an empty store has %q in version %+v", got, version)
	}
	remove := func(id string, want bool) error {
		found, err := a.Remove(ctx, id)
		if found != want {
			t.Errorf("removing %s: found %t, want %t", id, found, want)
		}
		return err
	}
	var last exceptions.Version
	for i, step := range []struct {
		do      func() error
		want    string
		changes uint64
	}{
		{func() error { return a.Add(ctx, record("x", "1"), 10) }, "x=1", 1},
		{func() error { return a.Add(ctx, record("y", "2"), 10) }, "x=1 y=2", 1},
		{func() error { return a.Add(ctx, record("x", "3"), 2) }, "x=3 y=2", 1},
		{func() error { return remove("nobody", false) }, "x=3 y=2", 0},
		{func() error { return remove("x", true) }, "y=2", 1},
		{func() error { return remove("x", false) }, "y=2", 0},
		{func() error { return a.Forget(ctx, []string{"y", "nobody"}) }, "", 0},
		{func() error { return a.Forget(ctx, nil) }, "", 0},
		{func() error { return a.Add(ctx, record("z", ""), 10) }, "z=", 1},
		{func() error { return remove("z", true) }, "", 1},
	} {
		must(t, step.do())
		got, version := load(t, b, exceptions.Version{})
		if got != step.want || version.Count != last.Count+step.changes || last.Epoch != "" && version.Epoch != last.Epoch {
			t.Errorf("step %d: got %q in version %+v after %+v, want %q and %d changes", i, got, version, last, step.want, step.changes)
		}
		if n := len(version.Epoch); n < 1 || n > 64 {
			t.Errorf("the epoch is %q", version.Epoch)
		}
		if again, same := load(t, b, version); again != "" || same != version {
			t.Errorf("step %d: a known version loads %q in version %+v", i, again, same)
		}
		last = version
	}
}

// anyBytes wants records back as they were.
func anyBytes(t *testing.T, a, b exceptions.Store) {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	want := bytes.Repeat(all, 40) // 10 KiB
	must(t, a.Add(t.Context(), exceptions.Record{ID: "Az09", Body: want}, 1))
	records, _, err := b.Load(t.Context(), exceptions.Version{})
	must(t, err)
	if len(records) != 1 || records[0].ID != "Az09" || !bytes.Equal(records[0].Body, want) {
		t.Errorf("got %q", records)
	}
}

// full fills a store.
func full(t *testing.T, a, b exceptions.Store) {
	ctx := t.Context()
	must(t, a.Add(ctx, record("x", "1"), 2))
	must(t, b.Add(ctx, record("y", "1"), 2))
	_, before := load(t, a, exceptions.Version{})
	if err := a.Add(ctx, record("z", "1"), 2); !errors.Is(err, exceptions.ErrFull) {
		t.Errorf("one too many: got %v", err)
	}
	if got, after := load(t, b, exceptions.Version{}); got != "x=1 y=1" || after != before {
		t.Errorf("one too many leaves %q in version %+v, want %+v", got, after, before)
	}
	must(t, a.Forget(ctx, []string{"x"}))
	must(t, a.Add(ctx, record("z", "1"), 2))
}

// restore puts back what is missing, however much there is.
func restore(t *testing.T, a, b exceptions.Store) {
	ctx := t.Context()
	must(t, a.Restore(ctx, []exceptions.Record{record("x", "1"), record("y", "1")}))
	got, first := load(t, b, exceptions.Version{})
	if got != "x=1 y=1" || first.Count != 1 {
		t.Errorf("got %q in version %+v", got, first)
	}
	must(t, b.Restore(ctx, []exceptions.Record{record("y", "2"), record("z", "2")}))
	got, second := load(t, a, exceptions.Version{})
	if got != "x=1 y=1 z=2" || second != (exceptions.Version{Epoch: first.Epoch, Count: 2}) {
		t.Errorf("got %q in version %+v", got, second)
	}
	must(t, b.Restore(ctx, []exceptions.Record{record("y", "3")}))
	must(t, b.Restore(ctx, nil))
	if got, third := load(t, a, exceptions.Version{}); got != "x=1 y=1 z=2" || third != second {
		t.Errorf("nothing was missing: got %q in version %+v", got, third)
	}
}

// together adds from two servers at the same time: each is there, and no more than may be.
func together(t *testing.T, a, b exceptions.Store) {
	const each, most = 30, 40
	var all sync.WaitGroup
	var mu sync.Mutex
	admitted := 0
	for i, s := range []exceptions.Store{a, b} {
		all.Go(func() {
			for n := range each {
				err := s.Add(context.WithoutCancel(t.Context()), record(fmt.Sprintf("s%dn%d", i, n), "1"), most)
				mu.Lock()
				if err == nil {
					admitted++
				} else if !errors.Is(err, exceptions.ErrFull) {
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	records, version, err := a.Load(t.Context(), exceptions.Version{})
	must(t, err)
	if admitted != most || len(records) != most || version.Count != most {
		t.Errorf("%d were added, the store has %d in version %+v, want %d", admitted, len(records), version, most)
	}
}
