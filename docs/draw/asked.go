package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
)

// service decides requests as a server does, by rules of the repository and its own clock.
type service struct {
	decider plan.Decider
	tree    *descriptors.Tree
	now     time.Time
}

// newService returns a service with the rules of a file.
func newService(root, file string) *service {
	return newServiceOf(file, string(must(os.ReadFile(filepath.Join(root, file)))))
}

func newServiceOf(name, rules string) *service {
	tree := must(descriptors.Load([]descriptors.File{{Name: name, Data: []byte(rules)}}, descriptors.Options{}))
	s := &service{tree: tree, now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	s.decider = plan.Decider{
		Planner: plan.New(plan.Options{}), Rules: func() *descriptors.Tree { return tree },
		Store: memory.New(memory.Options{Now: func() time.Time { return s.now }}),
	}
	return s
}

// answer is the answer to a request.
type answer struct {
	denied   bool
	statuses []plan.Status
}

// ask sends a request with descriptors such as user=alice,path=/login. addend is the cost of each.
func (s *service) ask(domain string, addend uint64, refund bool, spelled ...string) answer {
	request := plan.Request{Domain: domain}
	for _, text := range spelled {
		request.Descriptors = append(request.Descriptors, plan.Descriptor{Entries: entriesOf(text), HasHitsAddend: addend != 1, HitsAddend: addend, Refund: refund})
	}
	var result plan.Result
	if err := s.decider.Decide(context.Background(), &request, &result); err != nil {
		panic(err)
	}
	return answer{result.Denied, result.Statuses}
}

func entriesOf(spelled string) (entries []limiter.Entry) {
	for pair := range strings.SplitSeq(spelled, ",") {
		key, value, _ := strings.Cut(pair, "=")
		entries = append(entries, limiter.Entry{Key: key, Value: value})
	}
	return entries
}

// String returns the code and the remaining units of each limit.
func (a answer) String() string {
	if a.denied {
		for _, s := range a.statuses {
			if s.OverLimit {
				return fmt.Sprintf("OVER_LIMIT, retry after %v", spellDuration(s.UntilReset))
			}
		}
	}
	var left []string
	for _, s := range a.statuses {
		left = append(left, fmt.Sprintf("%s of %s left", plaintext.Number(s.Remaining), plaintext.Number(s.Limit.RequestsPerUnit)))
	}
	return "OK, " + strings.Join(left, ", ")
}

// spellDuration formats 12h0m0s as 12h.
func spellDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if short, found := strings.CutSuffix(text, zero); found {
			text = short + zero[:1]
		}
	}
	return text
}
