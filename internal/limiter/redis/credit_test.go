package redis

import (
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/queue"
	"weir/internal/testenv"
)

// TestGivingBackIsKnownAtOnce has a charge that makes a counter full taken back
// while the denial that it led to is remembered.
func TestGivingBackIsKnownAtOnce(t *testing.T) {
	l := yearly(1)
	t.Run("of a request denied elsewhere", func(t *testing.T) {
		f := newMemoryFixture(t)
		part := []limiter.Hit{hit("k", l, 1)}
		sent := testenv.Must(f.main.queues.Of(nil).Add(t.Context(), 0, part, true, time.Hour))(t)
		<-sent.Call.Done
		out := make([]limiter.Decision, 1)
		states := testenv.Must(sent.Outcomes(out, nil))(t)
		f.want("beside the charge", true, 1, hit("k", l, 1))
		f.want("known", true, 0, hit("k", l, 1))
		list, _ := releases(part, limiter.Firsts(part, nil), out, states)
		f.main.queues.Of(nil).Release(0, list)
		rest(f.store)
		f.want("after it was given back", false, 1, hit("k", l, 1))
	})
	t.Run("of a refund that is noted before an earlier denial", func(t *testing.T) {
		m := newMemo(1<<20, false, time.Now)
		denial := &queue.Call{Number: 1, Began: time.Now()}
		back := queue.NewCall()
		back.Number, back.Began, back.Err = 2, time.Now(), errOpen
		back.Batch.Add([]limiter.Hit{refund("k", l, 1)}, false)
		m.noteCredits(back)
		m.note(queue.Ticket{Call: denial}, []limiter.Hit{hit("k", l, 1)}, []limiter.State{{Used: 1}}, true)
		if m.last([]byte("k")).denies {
			t.Error("a denial from before the refund is remembered")
		}
	})
}
