package redis

import (
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// TestGivingBackIsKnownAtOnce has a charge that makes a counter full taken back
// while the denial that it led to is remembered.
func TestGivingBackIsKnownAtOnce(t *testing.T) {
	l := yearly(1)
	t.Run("of a request denied elsewhere", func(t *testing.T) {
		f := newMemoryFixture(t)
		part := []limiter.Hit{hit("k", l, 1)}
		main := location{f.main, 0}
		sent := testenv.Must(main.queue(t.Context(), part, true, time.Hour))(t)
		<-sent.batch.done
		out := make([]limiter.Decision, 1)
		states := testenv.Must(sent.outcomes(out, nil))(t)
		f.want("beside the charge", true, 1, hit("k", l, 1))
		f.want("known", true, 0, hit("k", l, 1))
		main.queueGiveBacks(giveBacks(part, limiter.Firsts(part, nil), out, states))
		rest(f.store)
		f.want("after it was given back", false, 1, hit("k", l, 1))
	})
	t.Run("of a refund that is noted before an earlier denial", func(t *testing.T) {
		d := newDenials(1<<20, time.Now)
		denial := &batch{number: 1, asked: time.Now()}
		back := newBatch(0, 1)
		back.number, back.asked, back.err = 2, time.Now(), errLate
		back.add([]limiter.Hit{refund("k", l, 1)}, false)
		d.noteCredits(back)
		d.note(ticket{denial, 0}, []limiter.Hit{hit("k", l, 1)}, []limiter.State{{Used: 1}}, true)
		if d.last([]byte("k")).denies {
			t.Error("a denial from before the refund is remembered")
		}
	})
}
