// Command generate writes an access log of which it is known what limits by address and
// hour would do: it counts what each client asks for while it makes the lines. It is for tests and
// measurements of weir simulate, and imports nothing of it.
//
//	go run ./internal/offline/simulate/accesslog/generate -lines 1000000 -truth truth.json > access.log
package main

import (
	"bufio"
	"container/heap"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// options say which log is made.
type options struct {
	lines    int
	clients  int // beside the abusers
	distinct bool
	begin    time.Time
	span     time.Duration
	disorder time.Duration
}

// truth is what is known of a log.
type truth struct {
	Lines   int      `json:"lines"`
	Clients int      `json:"clients"` // that are in the log
	Abusers []abuser `json:"abusers"` // the worst first
	// Amounts are the smallest per hour at which no client, 0.1 % and 1 % of clients would
	// have been denied at least once.
	Amounts []uint32 `json:"amounts"`
}

type abuser struct {
	Address string `json:"address"`
	Lines   int    `json:"lines"`
	Peak    uint32 `json:"peak"` // in an hour
}

func main() {
	var o options
	flag.IntVar(&o.lines, "lines", 100_000, "lines of the log")
	flag.IntVar(&o.clients, "clients", 10_000, "clients, of whom some come often and most seldom")
	flag.BoolVar(&o.distinct, "distinct", false, "one line for each client, in the place of that")
	flag.DurationVar(&o.span, "span", 24*time.Hour, "time from the first line to the last")
	flag.DurationVar(&o.disorder, "disorder", 20*time.Second, "how much later than another that began later a line may come")
	truthFile := flag.String("truth", "", "file for what is known of the log, as JSON")
	flag.Parse()
	o.begin = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	if err := write(o, *truthFile); err != nil {
		fmt.Fprintf(os.Stderr, "generate: %v\n", err)
		os.Exit(2)
	}
}

func write(o options, truthFile string) error {
	known, err := generate(os.Stdout, o)
	if err != nil || truthFile == "" {
		return err
	}
	data, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(truthFile, append(data, '\n'), 0o600)
}

// abusers are so many, each with this share of all lines, in so many hours of the log.
var abusers = [...]struct {
	share float64
	hours int
}{{0.04, 3}, {0.03, 3}, {0.02, 3}}

// line is a request before it is written.
type line struct {
	at     time.Time
	client int
	number int
}

// generator makes lines in the order of their times.
type generator struct {
	options
	random *rand.Rand
	often  *rand.Zipf
	hour   int64
	counts []uint32 // of the hour, by client
	peaks  []uint32
	all    []int
	hours  [len(abusers)]int // in which they begin
}

func generate(w io.Writer, o options) (truth, error) {
	random := rand.New(rand.NewPCG(1, 0)) //nolint:gosec // G404: the same seed makes the same log
	g := generator{options: o, random: random}
	if o.distinct {
		g.clients = o.lines
	}
	n := g.clients + len(abusers)
	g.counts, g.peaks, g.all = make([]uint32, n), make([]uint32, n), make([]int, n)
	g.often = rand.NewZipf(random, 1.3, float64(g.clients)/4+10, uint64(g.clients-1))
	hours := max(int(o.span/time.Hour), 1)
	for i := range g.hours {
		g.hours[i] = random.IntN(max(hours-abusers[i].hours, 1))
	}
	b := bufio.NewWriterSize(w, 1<<20)
	var waiting lines
	var buf []byte
	flush := func(until time.Time) error {
		for len(waiting) > 0 && !waiting[0].written.After(until) {
			l := heap.Pop(&waiting).(delayed)
			buf = l.append(buf[:0])
			if _, err := b.Write(buf); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range o.lines {
		l := g.next(i)
		heap.Push(&waiting, delayed{l, l.at.Add(time.Duration(random.Int64N(int64(o.disorder) + 1)))})
		if err := flush(l.at); err != nil {
			return truth{}, err
		}
	}
	if err := flush(o.begin.Add(o.span + o.disorder)); err != nil {
		return truth{}, err
	}
	return g.truth(), b.Flush()
}

// next draws the client of line i, and counts it.
func (g *generator) next(i int) line {
	at := g.begin.Add(time.Duration(float64(g.span) / float64(g.lines) * float64(i))).Truncate(time.Millisecond)
	l := line{at, g.draw(i, at), i}
	if hour := at.Unix() / 3600; hour != g.hour {
		clear(g.counts)
		g.hour = hour
	}
	g.counts[l.client]++
	g.peaks[l.client] = max(g.peaks[l.client], g.counts[l.client])
	g.all[l.client]++
	return l
}

func (g *generator) draw(i int, at time.Time) int {
	if g.distinct {
		return len(abusers) + i
	}
	hour, chance := int(at.Sub(g.begin)/time.Hour), g.random.Float64()
	hours := max(g.span.Hours(), 1)
	for a := range abusers {
		if hour >= g.hours[a] && hour < g.hours[a]+abusers[a].hours {
			// all its lines are in these hours
			share := abusers[a].share * hours / min(float64(abusers[a].hours), hours)
			if chance < share {
				return a
			}
			chance -= share
		}
	}
	if g.random.IntN(3) == 0 {
		return len(abusers) + g.random.IntN(g.clients)
	}
	return len(abusers) + int(g.often.Uint64())
}

func (g *generator) truth() truth {
	t := truth{Lines: g.lines}
	for a := range abusers {
		if g.all[a] > 0 {
			t.Abusers = append(t.Abusers, abuser{address(a), g.all[a], g.peaks[a]})
		}
	}
	peaks := slices.DeleteFunc(g.peaks, func(p uint32) bool { return p == 0 })
	slices.Sort(peaks)
	t.Clients = len(peaks)
	for _, share := range []float64{0, 0.001, 0.01} {
		t.Amounts = append(t.Amounts, peaks[len(peaks)-1-int(math.Floor(share*float64(len(peaks))))])
	}
	return t
}

// delayed is a line that is written when its request ends.
type delayed struct {
	line
	written time.Time
}

type lines []delayed

func (l lines) Len() int           { return len(l) }
func (l lines) Less(i, j int) bool { return l[i].written.Before(l[j].written) }
func (l lines) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }

// Push implements heap.Interface.
func (l *lines) Push(x any) { *l = append(*l, x.(delayed)) }

// Pop implements heap.Interface.
func (l *lines) Pop() any {
	old := *l
	last := old[len(old)-1]
	*l = old[:len(old)-1]
	return last
}

// address returns that of a client.
func address(client int) string {
	if client < len(abusers) {
		return fmt.Sprintf("203.0.113.%d", client+1)
	}
	client -= len(abusers)
	return fmt.Sprintf("10.%d.%d.%d", client>>16&255, client>>8&255, client&255)
}

var paths = [...]string{"/", "/login", "/api/items?page=2", "/api/items/17", "/search?q=weir"}

// append appends the line, in JSON as Envoy writes it.
func (l *line) append(dst []byte) []byte {
	return fmt.Appendf(dst, `{"start_time":%q,"method":"GET","path":%q,"protocol":"HTTP/1.1","response_code":200,"response_flags":"-","duration":%d,"authority":"shop.example","downstream_remote_address":"%s:%d","request_id":"%08x"}`+"\n",
		l.at.Format("2006-01-02T15:04:05.000Z"), paths[l.number%len(paths)], l.number%50, address(l.client), 1024+l.number%60000, l.number)
}
