package app

import "time"

// A load of many rules, and the collection of its garbage, can keep every
// processor of a small container busy for seconds. While rules serve, it
// therefore takes a rest after each stretch of work, which lets requests have
// their turn and the load take twice the time.
const (
	stretch     = time.Millisecond
	longestRest = 10 * time.Millisecond // should the system itself have interrupted the work
)

// rests returns a function for who works to call often. It rests as long as was
// worked since it last did, once that is a stretch.
func rests() func() {
	since := time.Now()
	return func() {
		if worked := time.Since(since); worked >= stretch {
			<-time.After(min(worked, longestRest))
			since = time.Now()
		}
	}
}
