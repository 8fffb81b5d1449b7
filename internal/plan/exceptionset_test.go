package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/limiter"
)

// naive finds the exception for a descriptor by comparing all exceptions.
func naive(all []*Exception, domain string, entries []limiter.Entry) (found *Exception) {
	for _, e := range all {
		of, first := e.Bytes()
		begins := of == domain && len(first) <= len(entries) && slices.Equal(first, entries[:len(first)])
		if begins && (found == nil || len(e.Entries) > len(found.Entries) || len(e.Entries) == len(found.Entries) && e.Created.After(found.Created)) {
			found = e
		}
	}
	return found
}

// TestFindAgreesWithNaiveSearch draws from few texts, so that many descriptors have exceptions.
// Some of the texts are equal after joining.
func TestFindAgreesWithNaiveSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"a", "b", "a\x00b", "b\x00", "\xff", "=", ",", "ab"}
	text := func() string { return texts[random.IntN(len(texts))] }
	descriptor := func(least, most int) (domain string, entries []limiter.Entry) {
		for range least + random.IntN(most-least+1) {
			entries = append(entries, limiter.Entry{Key: text(), Value: append(texts, "", "")[random.IntN(len(texts)+2)]})
		}
		return texts[random.IntN(3)], entries
	}
	found := 0
	for range 200 {
		var all []*Exception
		for i := range random.IntN(300) {
			domain, entries := descriptor(1, 3)
			all = append(all, &Exception{ID: fmt.Sprint(i), JSONDescriptor: NewJSONDescriptor(domain, entries), Created: time.Unix(int64(i), 0)})
		}
		s := NewExceptions(all)
		for range 300 {
			domain, entries := descriptor(0, 5)
			got, want := s.Find(domain, entries), naive(all, domain, entries)
			if got != want {
				t.Fatalf("domain %q, entries %q: got %+v, want %+v", domain, entries, got, want)
			}
			if got != nil {
				found++
			}
		}
	}
	if found < 10_000 {
		t.Errorf("only %d descriptors have an exception", found)
	}
}
