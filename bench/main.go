// Command bench compares the server, in memory and with its own Redis, with the floor
// (see floor), and that Redis with plain commands. It writes the figures in
// README.md, docs/performance.md and docs/scale.md: raw figures as JSON, tables and
// plots. `make measure` runs it. All load is on loopback.
//
// Each round measures everything once, and figures are compared within a round, so
// that other load on the machine affects them all alike. The reported figures are
// medians of the rounds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// repository is the path of the server's module from the directory of this program,
// which is the working directory under go -C bench run.
const repository = ".."

// bench is one run of the program.
type bench struct {
	*workshop
	rounds  int
	seconds time.Duration // length of each measurement, without its warm-up
	stored  string        // file of the results
	results results
}

// experiment is a measurement that can be run alone.
type experiment struct {
	name string
	run  func(*bench, context.Context) error
}

// experiments are all experiments in the order in which they run.
var experiments = []experiment{
	{"cost", (*bench).cost},
	{"cluster", (*bench).cluster},
	{"lines", (*bench).lines},
	{"wakeups", (*bench).wakeups},
	{"latency", (*bench).latency},
	{"descriptors", (*bench).descriptors},
	{"connections", (*bench).connections},
	{"rules", (*bench).rules},
	{"reload", (*bench).reload},
	{"counters", (*bench).counters},
	{"redismemory", (*bench).redisMemory},
	{"neighbours", (*bench).neighbours},
	{"tuning", (*bench).tuning},
	{"denials", (*bench).denials},
	{"allocations", (*bench).allocations},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// options are the values of the flags.
type options struct {
	root     string
	rounds   int
	seconds  time.Duration
	only     *regexp.Regexp
	drawOnly bool
}

func parse(args []string) (o options, err error) {
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", repository, "directory whose documents show the figures")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds of interleaved measurements")
	flags.DurationVar(&o.seconds, "seconds", 3*time.Second, "length of each measurement")
	flags.StringVar(&only, "run", "", "run only experiments whose name matches this regular expression; the figures of others stay")
	flags.BoolVar(&o.drawOnly, "draw", false, "measure nothing, draw the stored figures again")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.seconds <= 0 {
		return o, errors.New("it takes flags only, and at least one round of some length")
	}
	if o.only, err = regexp.Compile(only); err != nil {
		return o, err
	}
	if !slices.ContainsFunc(experiments, func(e experiment) bool { return o.only.MatchString(e.name) }) {
		return o, fmt.Errorf("no experiment matches %q", only)
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	b := &bench{rounds: o.rounds, seconds: o.seconds, stored: filepath.Join(o.root, plots, "results.json")}
	if err := b.results.read(b.stored); err != nil {
		return err
	}
	if !o.drawOnly {
		if _, err := drawn(o.root, &b.results); err != nil {
			return err // fail before the measurements, which take long
		}
		if err := b.measure(ctx, o.only); err != nil {
			return err
		}
	}
	return draw(o.root, &b.results)
}

func (b *bench) measure(ctx context.Context, only *regexp.Regexp) (err error) {
	machine, err := thisMachine()
	if err != nil {
		return err
	}
	if b.workshop, err = newWorkshop(); err != nil {
		return err
	}
	defer b.close()
	for _, e := range experiments {
		if !only.MatchString(e.name) {
			continue
		}
		start := time.Now()
		if err := e.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		b.stopAll()
		b.results.ranOn(machine, e.name, length{b.rounds, b.seconds.Seconds()})
		if err := b.results.write(b.stored); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: %.0f s\n", e.name, time.Since(start).Seconds())
	}
	return nil
}

// read reads the figures of earlier runs, if there are any.
func (r *results) read(name string) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(data, r)
}

func (r *results) write(name string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // a directory of the repository
		return err
	}
	return os.WriteFile(name, append(data, '\n'), 0o644) //nolint:gosec // a file of the repository
}
