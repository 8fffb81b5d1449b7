package loadgen

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// cpuMeter measures the CPU time that processes take while requests are
// measured, to 10 ms, as /proc tells it.
type cpuMeter struct {
	processes []process // the last one is this
}

type process struct {
	procfs.Proc
	before float64 // CPU seconds at the start
}

// newCPUMeter finds the processes.
func newCPUMeter(pids []int) (*cpuMeter, error) {
	m := new(cpuMeter)
	if len(pids) == 0 {
		return m, nil
	}
	for _, pid := range append(pids[:len(pids):len(pids)], os.Getpid()) {
		p, err := procfs.NewProc(pid)
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
		m.processes = append(m.processes, process{Proc: p})
	}
	return m, nil
}

// startAt reads the first values at the given time, or if done is closed before.
func (m *cpuMeter) startAt(from time.Time, done <-chan struct{}) {
	select {
	case <-time.After(time.Until(from)):
	case <-done:
	}
	for i := range m.processes {
		p := &m.processes[i]
		if stat, err := p.Stat(); err == nil {
			p.before = stat.CPUTime()
		}
	}
}

// read tells what was used since the start, which answered so many requests.
func (m *cpuMeter) read(answered int64, took time.Duration) (used []Process, err error) {
	for _, p := range m.processes {
		stat, err := p.Stat()
		if err != nil {
			return nil, fmt.Errorf("process %d is gone: %w", p.PID, err)
		}
		seconds := stat.CPUTime() - p.before
		used = append(used, Process{
			PID: p.PID, Name: stat.Comm, Load: p.PID == os.Getpid(),
			CPUPerRequest: seconds * 1e6 / float64(max(answered, 1)),
			Cores:         seconds / took.Seconds(),
			ResidentBytes: int64(stat.ResidentMemory()),
		})
	}
	return used, nil
}
