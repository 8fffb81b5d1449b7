package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestTexts compares random changes of texts with a map.
func TestTexts(t *testing.T) {
	var got texts
	want, seed := map[string]string{}, rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50_000 {
		id, text := fmt.Sprint(random.IntN(300)), ""
		if random.IntN(3) > 0 {
			text = fmt.Sprint(random.Uint64() >> random.IntN(64))
		}
		now, before := got.all(), map[string]string(nil)
		compares := random.IntN(100) == 0
		if compares {
			before = maps.Collect(got.all())
		}
		got.put(id, text)
		if want[id] = text; text == "" {
			delete(want, id)
		}
		if compares && !maps.Equal(maps.Collect(now), before) {
			t.Fatalf("seed %d: all changed afterwards", seed)
		}
		if string(got.find([]byte(id))) != text || got.n != len(want) || len(got.records) > 64<<10 {
			t.Fatalf("seed %d: %d texts with %d bytes, want %d", seed, got.n, len(got.records), len(want))
		}
	}
	if all := maps.Collect(got.all()); !maps.Equal(all, want) {
		t.Errorf("seed %d: got %v, want %v", seed, all, want)
	}
}

// TestTextsWithOneHash stores texts of two IDs with the same hash.
func TestTextsWithOneHash(t *testing.T) {
	var got texts
	got.put("a", "1")
	got.index[got.place([]byte("b"))] = got.index[got.place([]byte("a"))] // "a" has this hash, too
	if text := got.find([]byte("b")); text != nil {
		t.Errorf("got %q for b, want nothing", text)
	}
	got.put("b", "2")
	if a, b := got.find([]byte("a")), got.find([]byte("b")); string(a) != "1" || string(b) != "2" {
		t.Errorf("got %q and %q, want 1 and 2", a, b)
	}
}
