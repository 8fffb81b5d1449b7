// Command generate writes an access log, and the correct results for hourly limits per address. It
// finds these results by counting the requests of each client while it makes the lines. Tests and
// measurements of weir simulate use the command, which does not import code of weir simulate.
//
//	go run ./internal/offline/simulate/accesslog/generate -lines 1000000 -truth truth.json > access.log
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// abusers are clients that each make a large share of all lines, within a few hours of the log.
var abusers = [...]struct {
	share float64
	hours int
}{{0.04, 3}, {0.03, 3}, {0.02, 3}}

// generator makes lines in the order of their times.
type generator struct {
	lines, clients int // clients does not include the abusers
	span           time.Duration

	random *rand.Rand
	often  *rand.Zipf
	hours  [len(abusers)]int // first hour of each abuser
	hour   int               // hour of the last line
	counts []uint32          // lines in that hour, by client
	peaks  []uint32          // maximum of counts over all hours
	all    []int             // lines in the log, by client
}

// truth is the correct result for a log.
type truth struct {
	Lines   int      `json:"lines"`
	Clients int      `json:"clients"` // clients with at least one line
	Abusers []abuser `json:"abusers"` // the worst first
	// Amounts are the smallest amounts per hour at which at most 0, 0.1 and 1 % of the
	// clients would have been denied at least once.
	Amounts []uint32 `json:"amounts"`
}

type abuser struct {
	Address string `json:"address"`
	Lines   int    `json:"lines"`
	Peak    uint32 `json:"peak"` // maximum number of lines in an hour
}

func main() {
	g := generator{random: rand.New(rand.NewPCG(1, 0))} //nolint:gosec // G404: the same seed makes the same log
	flag.IntVar(&g.lines, "lines", 100_000, "lines of the log")
	flag.IntVar(&g.clients, "clients", 10_000, "clients, of whom some come often and most seldom")
	flag.DurationVar(&g.span, "span", 24*time.Hour, "time from the first line to the last")
	truthFile := flag.String("truth", "", "file for what is known of the log, as JSON")
	flag.Parse()
	err := g.write(os.Stdout)
	if err == nil && *truthFile != "" {
		data, _ := json.MarshalIndent(g.truth(), "", "  ") // truth always marshals
		err = os.WriteFile(*truthFile, append(data, '\n'), 0o600)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "generate: %v\n", err)
		os.Exit(2)
	}
}

// disorder is the span of time of a block of lines. Within a block, the order of lines is random.
const disorder = 20 * time.Second

// write writes the lines, in random order within blocks.
func (g *generator) write(w io.Writer) error {
	n := g.clients + len(abusers)
	g.counts, g.peaks, g.all = make([]uint32, n), make([]uint32, n), make([]int, n)
	g.often = rand.NewZipf(g.random, 1.3, float64(g.clients)/4+10, uint64(g.clients-1))
	for i := range g.hours {
		g.hours[i] = g.random.IntN(max(int(g.span/time.Hour)-abusers[i].hours, 1))
	}
	b := bufio.NewWriterSize(w, 1<<20)
	var block []string
	var began time.Duration // start of the block
	for i := range g.lines {
		at := time.Duration(float64(g.span) / float64(g.lines) * float64(i)).Truncate(time.Millisecond)
		if at-began > disorder {
			g.flush(b, block)
			block, began = block[:0], at
		}
		block = append(block, line(i, at, g.draw(at)))
	}
	g.flush(b, block)
	return b.Flush()
}

func (g *generator) flush(b *bufio.Writer, block []string) {
	g.random.Shuffle(len(block), func(i, j int) { block[i], block[j] = block[j], block[i] })
	for _, line := range block {
		_, _ = b.WriteString(line) // the last Flush returns any error
	}
}

// draw draws the client of a line, and counts the line.
func (g *generator) draw(at time.Duration) int {
	client := g.anyone(at)
	if hour := int(at / time.Hour); hour != g.hour {
		clear(g.counts)
		g.hour = hour
	}
	g.counts[client]++
	g.peaks[client] = max(g.peaks[client], g.counts[client])
	g.all[client]++
	return client
}

// anyone draws a client, which is an abuser only within the abuser's hours.
func (g *generator) anyone(at time.Duration) int {
	hour, chance, hours := int(at/time.Hour), g.random.Float64(), max(g.span.Hours(), 1)
	for i, a := range abusers {
		if hour >= g.hours[i] && hour < g.hours[i]+a.hours {
			share := a.share * hours / min(float64(a.hours), hours)
			if chance < share {
				return i
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
	for i := range abusers {
		if g.all[i] > 0 {
			t.Abusers = append(t.Abusers, abuser{address(i), g.all[i], g.peaks[i]})
		}
	}
	peaks := slices.DeleteFunc(g.peaks, func(p uint32) bool { return p == 0 })
	slices.Sort(peaks)
	t.Clients = len(peaks)
	for _, share := range []float64{0, 0.001, 0.01} {
		t.Amounts = append(t.Amounts, peaks[len(peaks)-1-int(share*float64(len(peaks)))])
	}
	return t
}

func address(client int) string {
	if client < len(abusers) {
		return fmt.Sprintf("203.0.113.%d", client+1)
	}
	client -= len(abusers)
	return fmt.Sprintf("10.%d.%d.%d", client>>16&255, client>>8&255, client&255)
}

var paths = [...]string{"/", "/login", "/api/items?page=2", "/api/items/17", "/search?q=weir"}

// line returns line i of the log, in JSON as Envoy writes it.
func line(i int, at time.Duration, client int) string {
	begin := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	return fmt.Sprintf(`{"start_time":%q,"method":"GET","path":%q,"protocol":"HTTP/1.1","response_code":200,"response_flags":"-","duration":%d,"authority":"shop.example","downstream_remote_address":"%s:%d","request_id":"%08x"}`+"\n",
		begin.Add(at).Format("2006-01-02T15:04:05.000Z"), paths[i%len(paths)], i%50, address(client), 1024+i%60000, i)
}
