package denials

import (
	"testing"
	"time"
	"unsafe"
)

// What each denial needs of a shard is in one line of the cache, and no two shards share
// one.
func TestShardsAreAligned(t *testing.T) {
	const line = 64
	r := New(time.Now())
	var s shard
	if at, size := unsafe.Offsetof(r.shards), unsafe.Sizeof(s); at%line != 0 || size%line != 0 {
		t.Errorf("shards begin at %d and are %d bytes long", at, size)
	}
	if uintptr(unsafe.Pointer(r))%line != 0 {
		t.Errorf("the recorder is at %p", r)
	}
	if end := unsafe.Offsetof(s.last) + unsafe.Offsetof(s.last.denials); end > line {
		t.Errorf("the first part of a shard is %d bytes long", end)
	}
}

// In a flood of new keys those that were denied once have no text, and are not shown. Those
// denied again are, and what is left out is bounded.
func TestFloodIsNotSpelled(t *testing.T) {
	r := New(noon)
	l := newLimit(t, "user")
	for i := range 100_000 {
		r.Record(noon.Add(time.Duration(i)*10*time.Microsecond), denialOf(l, time.Duration(i).String()))
		if i%50 == 0 {
			r.Record(noon.Add(time.Duration(i)*10*time.Microsecond), denialOf(l, "abuser"))
		}
	}
	s := r.Summary(noon.Add(time.Second), MaxKeys)
	for _, w := range []Window{s.Minute, s.Hour} {
		got := w.Limits[0]
		if got.Denied != 102_000 || len(got.Keys) == 0 || got.Keys[0].Descriptor.Entries[0].Value != "abuser" || got.OthersAtMost < 1 {
			t.Errorf("got %+v", got)
		}
		for _, k := range got.Keys {
			if len(k.Descriptor.Entries) != 1 || k.Descriptor.Entries[0].Value == "" {
				t.Errorf("a key without text is shown: %+v", k)
			}
		}
	}
	if len(s.Last) != MaxLast {
		t.Errorf("got %d last denials", len(s.Last))
	}
}
