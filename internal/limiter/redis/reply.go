package redis

import (
	"errors"

	"weir/internal/limiter"
)

// reply is what the script says about a batch, see straight.lua and decide.lua.
type reply struct {
	batch    *batch
	now      int64   // time of the decisions, in microseconds since the epoch
	integers []int64 // all of it
	// singles says of each request at which integer its own decision begins; nil if all were
	// charged together.
	singles []int32
	later   []int64 // what requests behind its own charge the counter of each hit, if together; nil if nothing
	places  []int32 // of the counters in the reply, if together
	refusal error   // of the requests whose writes Redis refused, nil if there are none
}

// The words of replies, as time.lua has them.
const (
	wordAdmitted = -1
	wordOver     = -2
	wordSingle   = -3
	wordRefused  = -4
	wordBanned   = -5
	wordAlready  = -6
	wordNoWindow = -7
)

// noWindow reports whether the script has done nothing because the windows of a calendar were
// not those of its time, and returns that time.
func (a answer) noWindow() (now int64, ok bool) {
	if a.err != nil || len(a.integers) != 2 || a.integers[1] != wordNoWindow || !possible(a.integers[0]) {
		return 0, false
	}
	return a.integers[0], true
}

// What a short state is reckoned with, see state.lua.
const million = 1_000_000

var errReply = errors.New("the script's reply is cut off or garbled")

// errNoWindow is that of a call that was repeated for it, in vain.
var errNoWindow = errors.New("the clock of Redis has stepped twice, by more than a window of a calendar")

// newReply reads the reply on a batch.
func newReply(integers []int64, b *batch) (reply, error) {
	r, in := reply{batch: b, integers: integers}, words{integers, 0}
	var err error
	if r.now, err = in.number(); err != nil {
		return reply{}, err
	}
	switch in.peek() {
	case wordNoWindow:
		return reply{}, errNoWindow
	case wordSingle:
		in.next++
		err = r.readSingles(&in)
	default:
		err = r.readTogether()
	}
	return r, err
}

// readSingles reads what became of each request.
func (r *reply) readSingles(in *words) error {
	r.singles = make([]int32, r.batch.len())
	refused := false
	for place := range r.singles {
		r.singles[place] = int32(in.next)
		if in.peek() == wordRefused {
			in.next++
			refused = true
			continue
		}
		for range r.batch.hitsOf(place) {
			if err := in.state(); err != nil {
				return err
			}
		}
	}
	switch rest := in.integers[in.next:]; {
	case refused:
		r.refusal = newScriptError(rest)
	case len(rest) > 0 && rest[0] < 0: // else nothing was refused but to bring back a state
		return errReply
	}
	return nil
}

// readTogether reads the state of each counter, and finds out what it was charged after each hit.
// The order of the requests is that of the batch.
func (r *reply) readTogether() error {
	b := r.batch
	if len(r.integers) != 1+len(b.order) {
		return errReply
	}
	r.places = make([]int32, len(b.order))
	for i, n := range b.order {
		if !possible(r.integers[i+1]) || r.integers[i+1]%million < b.counters[n].sum {
			return errReply
		}
		r.places[n] = int32(i + 1)
	}
	if len(b.hits) == len(b.counters) {
		return nil
	}
	r.later = make([]int64, len(b.hits))
	sums := make([]int64, len(b.counters))
	for place := b.len() - 1; place >= 0; place-- {
		begin, hits := b.begin(place), b.hitsOf(place)
		for i, h := range hits {
			r.later[begin+i] = sums[h.counter]
		}
		for _, h := range hits {
			sums[h.counter] += h.cost
		}
	}
	return nil
}

// words reads what scripts reply.
type words struct {
	integers []int64
	next     int // of them
}

// peek returns the next word, 0 if there is none.
func (w *words) peek() int64 {
	if w.next < len(w.integers) {
		return w.integers[w.next]
	}
	return 0
}

// number reads a number.
func (w *words) number() (int64, error) {
	if w.next >= len(w.integers) || !possible(w.integers[w.next]) {
		return 0, errReply
	}
	w.next++
	return w.integers[w.next-1], nil
}

// state reads what is said of a counter.
func (w *words) state() error {
	if w.peek() == wordBanned {
		w.next++
		if _, err := w.number(); err != nil {
			return err
		}
	}
	numbers := 1
	if word := w.peek(); word == wordAdmitted || word == wordOver || word == wordAlready {
		w.next++
		numbers = 3
	}
	for range numbers {
		if _, err := w.number(); err != nil {
			return err
		}
	}
	return nil
}

// possible reports whether a script says such a number.
func possible(n int64) bool { return n >= 0 && n <= limiter.MaxExact }

// decisions reads what became of hits, which are the request at place, into
// out, and reports whether the request is denied. It appends the states of the
// hits' counters to states.
func (r *reply) decisions(place int, hits []limiter.Hit, out []limiter.Decision, states []limiter.State) (_ []limiter.State, denied bool, err error) {
	if states, err = r.outcomes(place, out, states); err != nil {
		return nil, false, err
	}
	denied = limiter.Settle(hits, out)
	limiter.Describe(hits, states, r.now, out)
	return states, denied, nil
}

// outcomes reads which hits of the request at place are over, and appends the
// states of their counters after it.
func (r *reply) outcomes(place int, out []limiter.Decision, states []limiter.State) ([]limiter.State, error) {
	if r.singles == nil {
		begin, hits := r.batch.begin(place), r.batch.hitsOf(place)
		for i := range out {
			state, _, _ := r.read(r.places[hits[i].counter])
			if r.later != nil {
				state.Used -= r.later[begin+i]
			}
			out[i].Over, out[i].Already = false, false
			states = append(states, state)
		}
		return states, nil
	}
	next := r.singles[place]
	if r.integers[next] == wordRefused {
		return nil, unavailable(r.refusal)
	}
	for i := range out {
		out[i].Already = r.integers[next] == wordAlready // which no banned one is
		var state limiter.State
		state, out[i].Over, next = r.read(next)
		states = append(states, state)
	}
	return states, nil
}

// read reads a state from the integers, from the given one on, and whether the hit
// is over. It returns where they end.
func (r *reply) read(begin int32) (s limiter.State, over bool, end int32) {
	if r.integers[begin] == wordBanned {
		s.Until, begin = r.integers[begin+1], begin+2
	}
	word := r.integers[begin]
	if word >= 0 {
		s.At, s.Used = word/million, word%million
		return s, false, begin + 1
	}
	s.At, s.Used, s.Prev = r.integers[begin+1], r.integers[begin+2], r.integers[begin+3]
	return s, word == wordOver, begin + 4
}

// scriptError is an error that Redis replied to a command of the script.
type scriptError string

// newScriptError makes it of its bytes.
func newScriptError(integers []int64) scriptError {
	text := make([]byte, len(integers))
	for i, n := range integers {
		text[i] = byte(n)
	}
	return scriptError(text)
}

func (e scriptError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (e scriptError) RedisError() {}
