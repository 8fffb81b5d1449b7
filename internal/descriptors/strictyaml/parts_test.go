package strictyaml

import (
	"bytes"
	"testing"
)

// Neither looking for the places to cut at nor parsing a part goes on for long
// without a pause.
func TestPartsPause(t *testing.T) {
	item := []byte("- {key: user, value: alice}\n")
	const items, most = 1000, 4 << 10 // bytes without a pause
	data := append([]byte("name: x\nlist:\n"), bytes.Repeat(item, items)...)
	pauses := 0
	parts := Split(data, "list", len(data)/2, func() { pauses++ })
	if parts == nil {
		t.Fatal("the file cannot be cut")
	}
	if pauses < len(data)/most {
		t.Errorf("%d pauses in the search of %d bytes", pauses, len(data))
	}
	for read := 0; read < items; {
		before := pauses
		list, ok := parts.Next()
		if !ok || len(list) == 0 {
			t.Fatalf("%d items, want %d", read, items)
		}
		if size := len(list) * len(item); pauses-before < size/most {
			t.Errorf("%d pauses in the parsing of %d bytes", pauses-before, size)
		}
		read += len(list)
	}
}
