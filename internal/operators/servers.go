package operators

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// Servers is this server among those that share its Redis: it reports to them, and asks them
// for reports. It is safe for concurrent use.
type Servers struct {
	shared limiter.Shared
	name   string
	asked  atomic.Int64 // when, in nanoseconds since the epoch
}

// Report is what a server says of itself.
type Report struct {
	Denials Denials `json:"denials"`
	// Uses is how often each exception was applied, by its ID.
	Uses map[string]uint64 `json:"uses"`
}

// NewServers returns the servers that share a Redis.
func NewServers(shared limiter.Shared) *Servers {
	return &Servers{shared: shared, name: rand.Text()}
}

const (
	// reportEvery is how often this server looks whether somebody wants a report.
	reportEvery = 750 * time.Millisecond
	// reportPatience is how long the first reports are waited for.
	reportPatience = 1250 * time.Millisecond
)

// Run reports what report returns, while somebody wants it, until ctx ends.
func (s *Servers) Run(ctx context.Context, report func() Report) {
	for ctx.Err() == nil {
		if wanted, err := s.shared.ReportsWanted(ctx); err == nil && wanted {
			text, _ := json.Marshal(report())      // which has nothing that JSON has not
			_ = s.shared.Report(ctx, s.name, text) // or the next one
		}
		select {
		case <-time.After(reportEvery):
		case <-ctx.Done():
		}
	}
}

// Reports returns what the other servers report. The first time, it waits for them. It never
// fails for one of them, but if Redis does.
func (s *Servers) Reports(ctx context.Context) (reports []Report, err error) {
	found, err := s.shared.Reports(ctx)
	if err == nil && time.Since(time.Unix(0, s.asked.Load())) >= limiter.ReportsWantedFor {
		select {
		case <-time.After(reportPatience):
		case <-ctx.Done():
		}
		found, err = s.shared.Reports(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.asked.Store(time.Now().UnixNano())
	delete(found, s.name)
	for _, text := range found {
		var report Report
		if json.Unmarshal([]byte(text), &report) == nil { // else of a server of another version
			reports = append(reports, report)
		}
	}
	return reports, nil
}
