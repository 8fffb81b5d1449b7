package xds

import (
	"log/slog"
	"time"
)

// refusals paces what is said of bad responses, to the control plane and to the
// log: once in an interval, whatever the control plane sends and however often it
// opens streams.
type refusals struct {
	interval time.Duration
	last     time.Time // when it was said
	told     string    // the problem that the log knows, "" after a good response
	leftOut  int       // bad responses of which the log does not know
}

// add notes a bad response.
func (r *refusals) add() { r.leftOut++ }

// wait returns how long the next refusal has to wait; 0 or less is not at all.
func (r *refusals) wait(now time.Time) time.Duration {
	if r.last.IsZero() {
		return 0
	}
	return r.last.Add(r.interval).Sub(now)
}

// tell notes that a problem is said now, and reports whether the log does not know it
// yet. Before, the log hears how many responses were left out.
func (r *refusals) tell(now time.Time, problem error, log *slog.Logger) bool {
	r.last = now
	if r.told == problem.Error() {
		return false
	}
	r.told = problem.Error()
	r.leftOut-- // which is told
	r.logLeftOut(log)
	return true
}

// end notes that there was a good response.
func (r *refusals) end(log *slog.Logger) {
	r.told = ""
	r.logLeftOut(log)
}

func (r *refusals) logLeftOut(log *slog.Logger) {
	if r.leftOut > 0 {
		log.Warn("bad responses of the control plane are not told of one by one", "left_out", r.leftOut)
	}
	r.leftOut = 0
}
