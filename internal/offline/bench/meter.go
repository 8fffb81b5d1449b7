package bench

import (
	"cmp"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"
)

// meter measures the interval of a run whose rate and CPU times are reported, which
// begins after the warm-up and ends when nothing more is sent: while the last
// answers are waited for, the load is not the one that was asked for.
type meter struct {
	processes  []procfs.Proc // the last one is this; none if no other is wanted
	answered   *atomic.Int64 // requests so far
	begin, end reading
}

// reading is what has been done by a moment.
type reading struct {
	at       time.Time
	answered int64
	stats    []procfs.ProcStat // of each process
	err      error             // a process is gone
}

// newMeter finds the processes, and reads where they are.
func newMeter(pids []int, answered *atomic.Int64) (*meter, error) {
	m := &meter{answered: answered}
	if len(pids) > 0 {
		for _, pid := range append(pids[:len(pids):len(pids)], os.Getpid()) {
			p, err := procfs.NewProc(pid)
			if err != nil {
				return nil, wrong("PIDs", "process %d: %w", pid, err)
			}
			m.processes = append(m.processes, p)
		}
	}
	m.begin = m.read()
	return m, m.begin.err
}

// measure reads at both ends of the interval. If that ends before it begins, it
// is empty.
func (m *meter) measure(from time.Time, over <-chan struct{}) {
	if warmup := time.Until(from); warmup > 0 {
		select {
		case <-time.After(warmup):
		case <-over:
		}
		m.begin = m.read()
	}
	<-over
	m.end = m.read()
}

func (m *meter) read() reading {
	r := reading{at: time.Now(), answered: m.answered.Load()}
	for _, p := range m.processes {
		stat, err := p.Stat()
		if err != nil {
			r.err = fmt.Errorf("process %d is gone: %w", p.PID, err)
			return r
		}
		r.stats = append(r.stats, stat)
	}
	return r
}

// seconds is how long the interval was.
func (m *meter) seconds() float64 { return m.end.at.Sub(m.begin.at).Seconds() }

// received is how many answers came within the interval.
func (m *meter) received() int64 { return m.end.answered - m.begin.answered }

// used returns what each process used within the interval.
func (m *meter) used() (used []Process, err error) {
	if err := cmp.Or(m.begin.err, m.end.err); err != nil {
		return nil, err
	}
	for i, p := range m.processes {
		stat := m.end.stats[i]
		seconds := stat.CPUTime() - m.begin.stats[i].CPUTime()
		used = append(used, Process{
			PID: p.PID, Name: stat.Comm, Load: p.PID == os.Getpid(),
			CPUPerRequest: ratio(seconds*1e6, float64(m.received())),
			Cores:         ratio(seconds, m.seconds()),
			ResidentBytes: int64(stat.ResidentMemory()),
		})
	}
	return used, nil
}

// ratio is 0 for parts of nothing.
func ratio(part, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return part / of
}
