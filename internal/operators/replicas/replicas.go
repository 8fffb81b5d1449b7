// Package replicas lets the servers that share a Redis know of each other: what was denied
// on all of them, how often exceptions were used, and that counters were reset. It polls,
// in the background, and decides nothing; while Redis fails, it asks less and less often.
//
//	replicas.go  Replicas: the poll, and the reports of the other servers
//	report.go    Report: what a server says of itself, as bytes
package replicas

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Board is where servers find each other. Its methods are bounded by their contexts.
type Board interface {
	// Poll says that the server with that name is there. reset changes when any server
	// has reset counters, wanted reports whether reports are wanted.
	Poll(ctx context.Context, server string) (reset string, wanted bool, err error)
	// Report leaves a report, at most maxReport bytes, for two seconds.
	Report(ctx context.Context, server string, report []byte) error
	// Want wants reports for some seconds, and returns the servers that are there.
	Want(ctx context.Context) (servers []string, err error)
	// Reports returns the reports that there are, by the names of their servers.
	Reports(ctx context.Context, servers []string) (map[string][]byte, error)
	// Leave says that a server is not there any more.
	Leave(ctx context.Context, server string) error
}

// Options say what a server does with the others. All fields are required.
type Options struct {
	Board Board
	// Report returns what this server says of itself, with so many keys of a limit.
	Report func(keys int) Report
	// Forget forgets which counters are known to be over, because some were reset.
	Forget func()
	Logger *slog.Logger
}

// Replicas is this server among those that share its Redis. It is safe for concurrent
// use. A nil Replicas is alone.
type Replicas struct {
	Options
	name string

	asking sync.Mutex // one at a time: who comes next gets the same answer
	asked  time.Time
	answer []Report
}

const (
	// pollEvery is the time between two polls.
	pollEvery = 500 * time.Millisecond
	// lastPause is that while Redis fails, in the end.
	lastPause = 5 * time.Second
	// reportEvery is the time between two reports, if they are wanted.
	reportEvery = time.Second
	// patience is how long the reports of all servers are waited for, and look how long
	// between two looks.
	patience = 1500 * time.Millisecond
	look     = 50 * time.Millisecond
	// goodFor is for how long the reports of all servers are not asked for anew.
	goodFor = 500 * time.Millisecond
	// callTime bounds what is asked of Redis at once.
	callTime = 2 * time.Second
)

// New returns the server among the others. They see it as soon as it runs.
func New(o Options) *Replicas { return &Replicas{Options: o, name: rand.Text()} }

// Run polls until ctx ends.
func (r *Replicas) Run(ctx context.Context) {
	p := poll{Replicas: r, pause: pollEvery}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.leave()
			return
		case <-timer.C:
		}
		p.once(ctx)
		timer.Reset(p.pause)
	}
}

func (r *Replicas) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.Board.Leave(ctx, r.name) // without it, the others wait for our report once
}

// poll is what is known from one poll to the next.
type poll struct {
	*Replicas
	pause    time.Duration
	known    bool   // reset is that of an earlier poll
	reset    string // see Board.Poll
	reported time.Time
	failures int // in a row
}

// failingAfter is how many failures in a row are logged: one is no more than a connection
// that broke, as when a password is replaced.
const failingAfter = 2

// once polls, and does what is asked. It logs when Redis begins to fail and when it
// answers again.
func (p *poll) once(ctx context.Context) {
	err := p.ask(ctx)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		if p.failures >= failingAfter {
			p.Logger.Info("redis answers again, other servers are asked as before")
		}
		p.failures, p.pause = 0, pollEvery
	default:
		if p.failures++; p.failures == failingAfter {
			p.Logger.Warn("redis does not answer the poll for other servers, it is asked less often", "err", err)
		}
		p.pause = min(2*p.pause, lastPause)
	}
}

func (p *poll) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	reset, wanted, err := p.Board.Poll(ctx, p.name)
	if err != nil {
		return err
	}
	if !p.known || reset != p.reset {
		p.Forget() // before the first poll it could not be known
	}
	p.known, p.reset = true, reset
	// A tenth less, so that every second poll reports.
	if !wanted || time.Since(p.reported) < reportEvery*9/10 {
		return nil
	}
	report, err := encode(p.Report)
	if err == nil {
		err = p.Board.Report(ctx, p.name, report)
	}
	p.reported = time.Now()
	return err
}

// Reports returns what the other servers report that are there, after a second and a half
// at most. Those that do not answer until then are left out. It never fails for them, but
// if Redis does.
func (r *Replicas) Reports(ctx context.Context) ([]Report, error) {
	if r == nil {
		return nil, nil
	}
	r.asking.Lock()
	defer r.asking.Unlock()
	if !r.asked.IsZero() && time.Since(r.asked) < goodFor {
		return r.answer, nil
	}
	answer, err := r.ask(ctx)
	if err == nil {
		r.asked, r.answer = time.Now(), answer
	}
	return answer, err
}

func (r *Replicas) ask(ctx context.Context) (reports []Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	servers, err := r.Board.Want(ctx)
	if err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(servers, func(name string) bool { return name == r.name })
	looks := time.NewTicker(look)
	defer looks.Stop()
	for end := time.Now().Add(patience); len(missing) > 0; {
		found, err := r.Board.Reports(ctx, missing)
		if err != nil {
			return nil, err
		}
		for name, bytes := range found {
			if report, err := decode(bytes); err == nil { // else of a server of another version
				reports = append(reports, report)
			}
			missing = slices.DeleteFunc(missing, func(other string) bool { return other == name })
		}
		if len(missing) == 0 || time.Now().After(end) {
			break
		}
		select {
		case <-looks.C:
		case <-ctx.Done():
			return reports, nil
		}
	}
	return reports, nil
}
