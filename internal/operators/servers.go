package operators

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"weir/internal/limiter"
)

// Servers is this server among those that share its Redis: it reports to them, and asks them
// for reports. It is safe for concurrent use.
type Servers struct {
	shared limiter.Shared
	name   string

	mu    sync.Mutex
	asked time.Time
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
	// reportPatience is how long the first reports are waited for, and keepAsking for how long
	// others follow, as limiter/redis says.
	reportPatience = 1250 * time.Millisecond
	keepAsking     = 3 * time.Second
	// maxReport bounds the text of a report: whatever else uses the Redis may write there.
	maxReport = 16 << 20
)

// Run reports what report returns, while somebody wants it, until ctx ends.
func (s *Servers) Run(ctx context.Context, report func() Report) {
	for ctx.Err() == nil {
		if wanted, err := s.shared.ReportsWanted(ctx); err == nil && wanted {
			_ = s.shared.Report(ctx, s.name, encode(report())) // or the next one
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
	s.mu.Lock()
	defer s.mu.Unlock() // who comes meanwhile need not wait anew
	found, err := s.shared.Reports(ctx)
	if err == nil && time.Since(s.asked) >= keepAsking {
		select {
		case <-time.After(reportPatience):
		case <-ctx.Done():
		}
		found, err = s.shared.Reports(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.asked = time.Now()
	delete(found, s.name)
	for _, text := range found {
		if report, err := decode(text); err == nil { // else of a server of another version
			reports = append(reports, report)
		}
	}
	return reports, nil
}

// encode returns a report as JSON, compressed.
func encode(report Report) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // which is a level
	_ = json.NewEncoder(w).Encode(report)           // which has nothing that JSON has not
	_ = w.Close()                                   // into memory
	return b.Bytes()
}

// decode reads a report.
func decode(text string) (r Report, err error) {
	unpacked, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		return Report{}, err
	}
	return r, json.NewDecoder(io.LimitReader(unpacked, maxReport)).Decode(&r)
}
