package main

import (
	"fmt"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// results has the figures of all experiments. A figure of type rounds has a number for
// each round.
type results struct {
	Machine     machine
	Elsewhere   map[string]machine `json:",omitempty"` // machines of experiments that ran on another machine, by name
	Lengths     map[string]length  // lengths of the experiments, by name
	Cost        []cost
	Cluster     []cost
	Lines       []scriptLine // nil if instructions cannot be counted
	Wakeups     []wakeups
	Latency     []latency
	Descriptors []scaled
	Connections []scaled
	Rules       []ruleCount
	Reload      reload
	Counters    counters
	RedisMemory redisMemory
	Neighbours  neighbours
	Tuning      []cost
	Denials     []denialCost
	Allocations rounds // allocations per operation, in matching and in making keys
}

// length is the length of an experiment.
type length struct {
	Rounds  int
	Seconds float64 // length of each measurement, without its warm-up
}

func (l length) String() string { return fmt.Sprintf("%d of %v s", l.Rounds, l.Seconds) }

// machine describes the machine and the programs behind the figures.
type machine struct {
	CPU       string
	Cores     int
	Kernel    string
	Go        string
	Redis     string
	Allocator string // allocator of Redis; allocators round memory up differently
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, %s, Redis %s with %s", m.CPU, m.Cores, m.Kernel, m.Go, m.Redis, m.Allocator)
}

func thisMachine() (m machine, err error) {
	m = machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	output := func(command ...string) (text string) {
		if err == nil {
			var data []byte
			data, err = exec.Command(command[0], command[1:]...).Output() //nolint:gosec // the commands below
			text = strings.TrimSpace(string(data))
		}
		return text
	}
	m.Kernel = output("uname", "-sr")
	_, model, _ := strings.Cut(output("lscpu"), "Model name:")
	model, _, _ = strings.Cut(model, "\n")
	m.CPU = strings.TrimSpace(model)
	for field := range strings.FieldsSeq(output("redis-server", "--version")) {
		switch name, value, _ := strings.Cut(field, "="); name {
		case "v":
			m.Redis = value
		case "malloc":
			m.Allocator = value
		}
	}
	return m, err
}

// ranOn records the machine and the length of an experiment. Experiments on a machine other than
// r.Machine are in r.Elsewhere. When no experiment is left on r.Machine, m replaces it.
func (r *results) ranOn(m machine, experiment string, l length) {
	if r.Lengths == nil {
		r.Lengths = map[string]length{}
	}
	r.Lengths[experiment] = l
	if r.Machine == (machine{}) {
		r.Machine = m
	}
	if r.Elsewhere == nil {
		r.Elsewhere = map[string]machine{}
	}
	r.Elsewhere[experiment] = m
	if len(r.Elsewhere) == len(experiments) {
		r.Machine = m
	}
	maps.DeleteFunc(r.Elsewhere, func(_ string, other machine) bool { return other == r.Machine })
}

// rounds has a figure for each round.
type rounds []float64

// median returns the middle figure, or the upper of the two middle figures, or 0 without figures.
func (r rounds) median() float64 {
	if len(r) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(r))[len(r)/2]
}

// over divides each figure by the figure of the other in the same round.
func (r rounds) over(other rounds) (ratios rounds) {
	for i := range min(len(r), len(other)) {
		ratios = append(ratios, r[i]/other[i])
	}
	return ratios
}

// percentMore returns the amounts by which ratios are above 1, in percent.
func (r rounds) percentMore() (percents rounds) {
	for _, ratio := range r {
		percents = append(percents, 100*(ratio-1))
	}
	return percents
}

// in returns the figures in a larger unit.
func (r rounds) in(unit float64) (larger rounds) {
	for _, figure := range r {
		larger = append(larger, figure/unit)
	}
	return larger
}

// These are units for figures that are in microseconds and bytes.
const (
	milliseconds = 1000
	mib          = 1 << 20
)

const notMeasured = "not measured"

// show formats the median.
func (r rounds) show(format string) string {
	if len(r) == 0 {
		return notMeasured
	}
	return fmt.Sprintf(format, r.median())
}

// spread formats the median and, if they differ visibly, the smallest and the largest figure.
func (r rounds) spread(format string) string {
	if len(r) == 0 {
		return notMeasured
	}
	least, most := fmt.Sprintf(format, slices.Min(r)), fmt.Sprintf(format, slices.Max(r))
	if least == most {
		return most
	}
	return fmt.Sprintf("%s (%s–%s)", r.show(format), least, most)
}
