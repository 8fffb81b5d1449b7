package main

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// results are the figures of all experiments. Of what was measured in several
// rounds, each number stands for a round.
type results struct {
	Machine     machine
	Cost        []cost
	Latency     []latency
	Descriptors []scaled
	Connections []scaled
	Rules       []ruleCount
	Reload      reload
	Counters    counters
	Neighbours  neighbours
}

// machine is where the figures come from.
type machine struct {
	CPU    string
	Cores  int
	Kernel string
	Go     string
	Redis  string
}

func thisMachine() (machine, error) {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return m, err
	}
	cpus, err := fs.CPUInfo()
	if err != nil {
		return m, err
	}
	m.CPU = cpus[0].ModelName
	for field, command := range map[*string][]string{
		&m.Kernel: {"uname", "-sr"},
		&m.Redis:  {"redis-server", "--version"},
	} {
		text, err := exec.Command(command[0], command[1:]...).Output() //nolint:gosec // the commands above
		if err != nil {
			return m, err
		}
		*field = strings.TrimSpace(string(text))
	}
	if fields := strings.Fields(m.Redis); len(fields) > 2 {
		m.Redis = strings.TrimPrefix(fields[2], "v=")
	}
	return m, nil
}

// rounds are the figures of all rounds.
type rounds []float64

// median is the middle one, or the upper of the two in the middle.
func (r rounds) median() float64 {
	if len(r) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(r))[len(r)/2]
}

// over divides each by that of the other in the same round.
func (r rounds) over(other rounds) (ratios rounds) {
	for i := range min(len(r), len(other)) {
		ratios = append(ratios, r[i]/other[i])
	}
	return ratios
}
