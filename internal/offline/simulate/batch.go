package simulate

import (
	"math"
	"slices"

	"weir/internal/limiter"
)

// batch is what became of a block of lines, in the order of their times.
type batch struct {
	log    string
	number uint64 // of batches, in the order in which they were read
	events []event
	hits   []hit
	texts  []byte // keys of counters, one after the other
	next   int    // event, see merge

	times            []lineTime // of all lines that can be read, in their order
	earliest, latest int64      // of times
	disordered       bool       // a line is more than the allowed disorder before one that precedes it

	lines, bad, idle, refused, endless, noRequest int64 // see Report
	wrong                                         []WrongLine
	refusal                                       string // the first
}

// lineTime is the time of a line.
type lineTime struct{ at, line int64 }

// event is a request that asks for limits.
type event struct {
	at       int64 // in microseconds since the epoch, whole milliseconds
	line     int64
	duration int32  // in milliseconds
	first    uint32 // hit
	// How many hits there are from first on: those when the request begins, those when it ends, and those
	// by the old rules, in turn.
	begin, end, oldBegin, oldEnd uint16
}

// hit is limiter.Hit in few bytes.
type hit struct {
	hash   uint64 // of the key
	cost   uint64
	limit  uint32 // place in engine.limits
	text   uint32 // where the key is in texts
	length uint16 // of the key
	flags  flags
	mode   limiter.Mode
}

// flags are what a hit is.
type flags uint8

const (
	newCall flags = 1 << iota // it is the first of a request to the server
	refund
	always
)

func (b *batch) reset() {
	*b = batch{
		events: b.events[:0], hits: b.hits[:0], texts: b.texts[:0], wrong: b.wrong[:0], times: b.times[:0],
		earliest: math.MaxInt64, latest: math.MinInt64,
	}
}

// read notes the time of a line.
func (b *batch) read(at, line int64) {
	b.disordered = b.disordered || b.latest > math.MinInt64 && at < b.latest-disorder
	b.earliest, b.latest = min(b.earliest, at), max(b.latest, at)
	b.times = append(b.times, lineTime{at, line})
}

func (b *batch) key(h *hit) []byte { return b.texts[h.text : h.text+uint32(h.length)] }

// sort puts the events in the order of their times.
func (b *batch) sort() {
	byTime := func(x, y event) int {
		switch {
		case x.at < y.at:
			return -1
		case x.at > y.at:
			return 1
		default:
			return 0
		}
	}
	if !slices.IsSortedFunc(b.events, byTime) {
		slices.SortStableFunc(b.events, byTime)
	}
}
