package limiter

import (
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"weir/internal/testenv"
)

func TestRecentKeepsTheLastTouched(t *testing.T) {
	r := NewRecent[int](0) // one set
	touch := func(key string, value int) { r.Touch([]byte(key), func(v *int) { *v += value }) }
	want := func(key string, value int) {
		t.Helper()
		testenv.Equal(t, r.Get([]byte(key)), value, "%s", key)
	}
	for i := range recentWays {
		touch(fmt.Sprint("key", i), i+1)
	}
	touch("key0", 10)
	touch("new", 5)
	for key, value := range map[string]int{"key0": 11, "new": 5, "key1": 0 /* touched longest ago */, "key2": 3, "key3": 4} {
		want(key, value)
	}
	touch("key1", 1)
	want("key1", 1)
}

func TestRecentIsBounded(t *testing.T) {
	for _, bytes := range []int{0, 1000, 1 << 20, 3 << 20} {
		r := NewRecent[State](bytes)
		set := int(unsafe.Sizeof(r.sets[0]))
		if got := len(r.sets) * set; got > max(bytes, set) || 2*got <= bytes {
			t.Errorf("%d bytes for %d", got, bytes)
		}
	}
}

func TestRecentOfManyCallers(t *testing.T) {
	r := NewRecent[int](1 << 10)
	key := []byte("k")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				r.Touch(key, func(v *int) { *v++ })
				r.Get(fmt.Append(nil, i))
			}
		})
	}
	wg.Wait()
	testenv.Equal(t, r.Get(key), 8000, "times that it was touched")
}
