package operators

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/limiter"
)

// serversHash has a field for each server, .reset, which changes when counters are reset,
// and .asked, which changes when somebody asks for reports.
const serversHash = "servers"

// Servers is this server among those that share its Redis: it learns of their exceptions and
// resets, and asks them for reports. It is safe for concurrent use. A nil Servers is alone.
type Servers struct {
	Shared     limiter.Shared
	Exceptions *Exceptions
	// Report returns what this server says of itself, with so many keys of a limit.
	Report func(keys int) Report
	// Forget forgets which counters are known to be over, because some were reset.
	Forget func()

	name string

	asking sync.Mutex // one at a time: who comes next gets the same answer
	asked  time.Time
	answer []Report
}

// Report is what a server says of itself.
type Report struct {
	Denials Denials `json:"denials"`
	// Uses is how often each exception was applied, by its ID.
	Uses map[string]uint64 `json:"uses"`
}

const (
	// pollEvery is the time between two polls, and reportEvery that between two reports, a
	// tenth less than two polls. They go on for wantedFor after each time that somebody asks.
	pollEvery   = 500 * time.Millisecond
	reportEvery = 900 * time.Millisecond
	wantedFor   = 3 * time.Second
	// reportLasts is for how long a report is of use.
	reportLasts = 2 * time.Second
	// reportPatience is how long the reports of all servers are waited for, and look how
	// long between two looks.
	reportPatience = 1500 * time.Millisecond
	look           = 50 * time.Millisecond
	// goodFor is for how long the reports of all servers are not asked for anew.
	goodFor = 500 * time.Millisecond
)

// Run polls until ctx ends.
func (s *Servers) Run(ctx context.Context) {
	s.name = rand.Text()
	var p poll
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if s.Exceptions.Load(ctx) == nil { // else Redis need not be asked further
			s.poll(ctx, &p)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = s.Shared.Remove(ctx, serversHash, s.name) // without it, the others wait for our report once
			return
		}
	}
}

// poll is what is known from one poll to the next.
type poll struct {
	known        bool // reset and asked are those of an earlier poll
	reset, asked string
	wanted       time.Time // until then
	reported     time.Time
}

// poll does what is asked of this server. If it fails, the next one does.
func (s *Servers) poll(ctx context.Context, p *poll) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	said, err := s.Shared.Fields(ctx, serversHash, ".reset", ".asked", s.name)
	if err == nil && said[s.name] == "" {
		_, err = s.Shared.Set(ctx, serversHash, map[string]string{s.name: "here"})
	}
	if err != nil {
		return
	}
	if !p.known || said[".reset"] != p.reset {
		s.Forget() // before the first poll it could not be known
	}
	now := time.Now()
	if p.known && said[".asked"] != p.asked {
		p.wanted = now.Add(wantedFor)
	}
	p.known, p.reset, p.asked = true, said[".reset"], said[".asked"]
	if now.Before(p.wanted) && now.Sub(p.reported) >= reportEvery {
		p.reported = now
		if report, err := encode(s.Report); err == nil {
			_ = s.Shared.Report(ctx, s.name, report, reportLasts)
		}
	}
}

// announceReset has all servers forget, within a second, which counters are over.
func (s *Servers) announceReset(ctx context.Context) error {
	_, err := s.Shared.Set(ctx, serversHash, map[string]string{".reset": rand.Text()})
	return err
}

// Reports returns what the other servers report that are there, after a second and a half
// at most. Those that do not answer until then are left out. It never fails for them, but
// if Redis does.
func (s *Servers) Reports(ctx context.Context) ([]Report, error) {
	if s == nil {
		return nil, nil
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if !s.asked.IsZero() && time.Since(s.asked) < goodFor {
		return s.answer, nil
	}
	answer, err := s.ask(ctx)
	if err == nil {
		s.asked, s.answer = time.Now(), answer
	}
	return answer, err
}

func (s *Servers) ask(ctx context.Context) (reports []Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err = s.Shared.Set(ctx, serversHash, map[string]string{".asked": rand.Text()}); err != nil {
		return nil, err
	}
	servers, err := s.Shared.Fields(ctx, serversHash)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(servers, func(name, _ string) bool { return name == s.name || strings.HasPrefix(name, ".") })
	missing := slices.Collect(maps.Keys(servers))
	for end := time.Now().Add(reportPatience); len(missing) > 0; {
		found, err := s.Shared.Reports(ctx, missing)
		if err != nil {
			return nil, err
		}
		for _, text := range found {
			if report, err := decode(text); err == nil { // else of a server of another version
				reports = append(reports, report)
			}
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return found[name] != "" })
		if len(missing) == 0 || time.Now().After(end) {
			break
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return reports, nil
		}
	}
	if len(missing) > 0 { // they ended without a word, or come again with their next poll
		_ = s.Shared.Remove(ctx, serversHash, missing...)
	}
	return reports, nil
}

const (
	// maxReport bounds a report in bytes, and maxReportText what it may hold uncompressed:
	// whatever else uses the Redis may write there.
	maxReport     = 256 << 10
	maxReportText = 16 << 20
	// ReportedKeys is how many keys of a limit a report has if they fit. Each that is left
	// out adds to the error of all, see mergeDenials.
	ReportedKeys = 64
)

// encode returns the report that report makes, with fewer keys if it is too large.
func encode(report func(keys int) Report) ([]byte, error) {
	for keys := ReportedKeys; ; keys /= 2 {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // which is a level
		if err := json.NewEncoder(w).Encode(report(keys)); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil || b.Len() <= maxReport {
			return b.Bytes(), err
		}
		if keys == 0 {
			return nil, fmt.Errorf("the report of this server takes %d bytes, more than the %d that are allowed", b.Len(), maxReport)
		}
	}
}

// decode reads a report.
func decode(text string) (r Report, err error) {
	unpacked, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		return Report{}, err
	}
	return r, json.NewDecoder(io.LimitReader(unpacked, maxReportText)).Decode(&r)
}
