package redis

import (
	"errors"
	"fmt"

	"weir/internal/limiter"
)

// reply is what a script says about a batch, see decide.lua and giveback.lua.
type reply struct {
	batch    *batch
	now      int64   // time of the decisions, in microseconds since the epoch
	integers []int64 // all of it
	// singles says of each request at which integer its own decision begins; together, if it has
	// none. nil if no request has one.
	singles []int32
	states  []int32 // with which integer the state of each counter begins; nil if the script gave none
	later   []int64 // what requests behind its own charge the counter of each hit; nil if nothing
	refusal error   // of the requests whose writes Redis refused, nil if there are none
}

// together is a request whose hits were charged as part of the sums of their counters.
const together = -1

// The words of replies, as words.lua has them.
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
	if in.peek() == wordNoWindow {
		return reply{}, errNoWindow
	}
	if b.script == giveBackScript {
		r.singles = make([]int32, b.len())
		for place := range r.singles {
			if r.singles[place], err = in.state(); err != nil {
				return reply{}, err
			}
		}
		return r, in.end()
	}
	if word := in.peek(); word == wordSingle || word == wordRefused {
		in.next++
		count, err := r.readSingles(&in)
		switch {
		case err != nil:
			return reply{}, err
		case word == wordRefused:
			if count < b.len() { // else nothing was refused but to bring back a state
				r.refusal = newScriptError(integers[in.next:])
			}
			return r, nil
		}
	}
	r.states = make([]int32, len(b.counters))
	for _, n := range b.order {
		if r.states[n], err = in.state(); err != nil {
			return reply{}, err
		}
	}
	if err = in.end(); err == nil {
		err = r.sumLater()
	}
	return r, err
}

// readSingles reads what became of single requests, and returns how many they are.
func (r *reply) readSingles(in *words) (count int, err error) {
	r.singles = make([]int32, r.batch.len())
	for place := range r.singles {
		r.singles[place] = together
	}
	n, err := in.number()
	for ; count < int(n) && err == nil; count++ {
		place, err := in.number()
		if err != nil || place >= int64(len(r.singles)) || r.singles[place] != together {
			return 0, errReply
		}
		r.singles[place] = int32(in.next)
		for range r.batch.hitsOf(int(place)) {
			if _, err := in.state(); err != nil {
				return 0, err
			}
		}
	}
	return count, err
}

// sumLater finds out what each hit's counter was charged after it, by the requests that were
// decided together. Their order is that of the batch.
func (r *reply) sumLater() error {
	b := r.batch
	if len(b.hits) == len(b.counters) {
		return nil
	}
	r.later = make([]int64, len(b.hits))
	sums := make([]int64, len(b.counters))
	for place := b.len() - 1; place >= 0; place-- {
		if r.isSingle(place) {
			continue
		}
		begin, hits := b.begin(place), b.hitsOf(place)
		for i, h := range hits {
			r.later[begin+i] = sums[h.counter]
		}
		for _, h := range hits {
			sums[h.counter] += h.cost
		}
	}
	for n, sum := range sums {
		if state, _, _ := r.read(r.states[n]); sum > state.Used {
			return errReply
		}
	}
	return nil
}

func (r *reply) isSingle(place int) bool { return r.singles != nil && r.singles[place] != together }

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

// state reads what is said of a counter, and returns where it begins.
func (w *words) state() (begin int32, err error) {
	begin = int32(w.next)
	if w.peek() == wordBanned {
		w.next++
		if _, err := w.number(); err != nil {
			return 0, err
		}
	}
	if word := w.peek(); word != wordAdmitted && word != wordOver && word != wordAlready {
		_, err = w.number()
		return begin, err
	}
	w.next++
	for range 3 {
		if _, err := w.number(); err != nil {
			return 0, err
		}
	}
	return begin, nil
}

// end returns an error unless all is read.
func (w *words) end() error {
	if rest := len(w.integers) - w.next; rest > 0 {
		return fmt.Errorf("%w: %d integers too many", errReply, rest)
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
	if r.isSingle(place) {
		next := r.singles[place]
		for i := range out {
			out[i].Already = r.integers[next] == wordAlready // which no banned one is
			var state limiter.State
			state, out[i].Over, next = r.read(next)
			states = append(states, state)
		}
		return states, nil
	}
	if r.refusal != nil {
		return nil, unavailable(r.refusal)
	}
	begin, hits := r.batch.begin(place), r.batch.hitsOf(place)
	for i := range out {
		state, _, _ := r.read(r.states[hits[i].counter])
		if r.later != nil {
			state.Used -= r.later[begin+i]
		}
		out[i].Over, out[i].Already = false, false
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
