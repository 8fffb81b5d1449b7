package storetest

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/limiter"
)

// lives has histories of counters, step by step, that every store must reproduce. A request of
// two hits looks like this:
//
//	10s denies: a take 1 of 3 per minute => over, used 3, remaining 0, reset 44.322s, retry 44.322s
//	     and b take 1 of 3 per minute shadow => used 0, remaining 3, reset 44.322s
//
// The request begins with its time, relative to start, and its outcome. Each hit has its key, its
// cost and its limit and, after the arrow, its decision.
//
//go:embed lives
var lives embed.FS

// life is one history of some counters.
type life struct {
	name  string
	steps []step
}

// step is one request and its expected outcome.
type step struct {
	at     time.Duration // since start; the clock may step back
	denied bool
	hits   []limiter.Hit
	want   []limiter.Decision
}

// readLives reads all lives.
func readLives(t *testing.T) (all []life) {
	t.Helper()
	files, err := fs.Glob(lives, "lives/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no lives", err)
	}
	for _, file := range files {
		text, err := lives.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			switch line = strings.TrimSuffix(line, "\n"); {
			case line == "" || strings.HasPrefix(strings.TrimSpace(line), "#"):
			case !strings.HasPrefix(line, " "):
				all = append(all, life{name: line})
			default:
				if err := all[len(all)-1].read(line); err != nil {
					t.Fatalf("%s:%d: %v", file, n, err)
				}
			}
		}
	}
	return all
}

// read reads one line, and adds its hit to a new step or, if the line begins with "and", to the
// last step.
func (l *life) read(text string) error {
	asked, decided, _ := strings.Cut(text, " => ")
	w := line{list: strings.Fields(asked)}
	if first := w.next(); first != "and" {
		s := step{at: w.duration(first)}
		verdict := w.next()
		s.denied = verdict == "denies:"
		if !s.denied && verdict != "admits:" {
			return fmt.Errorf("%q is no verdict", verdict)
		}
		l.steps = append(l.steps, s)
	}
	s := &l.steps[len(l.steps)-1]
	s.hits = append(s.hits, w.hit())
	d, of := limiter.Decision{}, line{list: strings.Fields(strings.ReplaceAll(decided, ",", ""))}
	for len(of.list) > 0 {
		switch word := of.next(); word {
		case "over":
			d.Over = true
		case "charged":
			d.Charged = true
		case "already":
			d.Already = true
		case "reserved":
			d.Reserved = int64(of.number())
		case "used":
			d.Used = int64(of.number())
		case "remaining":
			d.Remaining = int64(of.number())
		case "reset":
			d.ResetAfter = of.duration(of.next())
		case "retry":
			d.RetryAfter = of.duration(of.next())
		default:
			return fmt.Errorf("%q is no part of a decision", word)
		}
	}
	s.want = append(s.want, d)
	return errors.Join(w.err, of.err)
}

// line has the unread words of a line, and the last error in the words read so far.
type line struct {
	list []string
	err  error
}

func (w *line) next() string {
	if len(w.list) == 0 {
		w.err = errors.New("something is missing")
		return ""
	}
	word := w.list[0]
	w.list = w.list[1:]
	return word
}

func (w *line) number() uint64 {
	n, err := strconv.ParseUint(w.next(), 10, 64)
	if err != nil {
		w.err = err
	}
	return n
}

func (w *line) duration(text string) time.Duration {
	if text == "never" {
		return limiter.Never
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		w.err = err
	}
	return d
}

// hit reads a key, a cost or hold, and the limit.
func (w *line) hit() (h limiter.Hit) {
	h.Key = []byte(w.next())
	for {
		switch word := w.next(); word {
		case "peek":
		case "take":
			h.Cost = w.number()
		case "refund":
			h.Refund, h.Cost = true, w.number()
		case "always":
			h.Always, h.Cost = true, w.number()
		case "hold":
			h.Hold = name(w.number())
		case "reserve", "settle":
			h.Refund, h.Reservation = word == "settle", reservation(string(h.Key), w.number())
		case "in":
			h.Mode = modes[w.next()]
		case "group":
			h.Group = uint8(w.number())
		case "of":
			h.Limit = w.limit()
			return h
		default:
			w.err = fmt.Errorf("%q is nothing that a hit asks for", word)
			return h
		}
	}
}

var modes = map[string]limiter.Mode{"shadow": limiter.Shadow, "quota": limiter.Quota}

// limit reads a limit, up to the end of the line.
func (w *line) limit() *limiter.Limit {
	s := limiter.Spec{RequestsPerUnit: w.number(), Settle: "reservation"}
	for len(w.list) > 0 {
		word := w.next()
		if unit, isUnit := limiter.ParseUnit(word); isUnit {
			s.Unit = unit
		} else if i := slices.Index(limiter.AlgorithmNames(), word); i >= 0 {
			s.Algorithm = limiter.Algorithm(i)
		} else if n, err := strconv.ParseUint(word, 10, 32); err == nil {
			s.UnitMultiplier = uint32(n)
		} else {
			switch word {
			case "per":
			case "burst":
				s.Burst = w.number()
			case "zone":
				s.TimeZone = w.next()
			case "deny_for":
				s.DenyFor = w.duration(w.next())
			case "shadow", "quota":
				s.Mode = modes[word]
			default:
				w.err = fmt.Errorf("%q is nothing that limits have", word)
			}
		}
	}
	l, err := limiter.NewLimit(s)
	if err != nil {
		w.err = err
	}
	return l
}
