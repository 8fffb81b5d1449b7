package redis

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Said is what a server learns from a Poll.
type Said struct {
	// Reset is another text each time that counters were reset by any server. It is ""
	// if none were, or that is no longer known.
	Reset string
	// Wanted reports whether reports of all servers are wanted.
	Wanted bool
}

// MaxReport is the largest report, in bytes.
const MaxReport = 256 << 10

const (
	// wantedFor is for how long servers report after each time that somebody wants it.
	wantedFor = 3 * time.Second
	// hereFor is for how long a server counts as there after a poll.
	hereFor = 2500 * time.Millisecond
	// forgottenAfter is when a server that is not there any more is forgotten.
	forgottenAfter = time.Minute
	// idleFor is for how long Redis keeps what it knows of servers of which none is there.
	idleFor = time.Hour
	// reportFor is for how long a report is of use.
	reportFor = 2 * time.Second
)

// Poll says that the server with that name is there, and returns what is asked of it.
func (b *Board) Poll(ctx context.Context, server string) (Said, error) {
	said, err := b.eval(ctx, pollScript, b.servers, server, idleFor.Milliseconds()).Slice()
	if err != nil {
		return Said{}, b.failed(err)
	}
	if len(said) == 2 {
		reset, isText := said[0].(string)
		wanted, isNumber := said[1].(int64)
		if isText && isNumber {
			return Said{reset, wanted == 1}, nil
		}
	}
	return Said{}, unavailable(errReply)
}

// Want asks the servers that are there for reports, and returns their names.
func (b *Board) Want(ctx context.Context) (servers []string, err error) {
	servers, err = b.eval(ctx, wantScript, b.servers,
		wantedFor.Milliseconds(), hereFor.Milliseconds(), forgottenAfter.Milliseconds()).StringSlice()
	return servers, b.failed(err)
}

// Report writes the report of a server, at most MaxReport bytes. It is there for two
// seconds.
func (b *Board) Report(ctx context.Context, server string, report []byte) error {
	if len(report) > MaxReport {
		return fmt.Errorf("a report of %d bytes is too large, at most %d are allowed", len(report), MaxReport)
	}
	return b.failed(b.client.current().Set(ctx, b.reports+server, report, reportFor).Err())
}

// reportsPerCall is how many reports are read at once: no reply may be larger than 16 MiB.
const reportsPerCall = 32

// Reports returns the reports of servers, by their names, as far as they are there.
func (b *Board) Reports(ctx context.Context, servers []string) (map[string][]byte, error) {
	reports := make(map[string][]byte)
	for len(servers) > 0 {
		chunk := servers[:min(len(servers), reportsPerCall)]
		servers = servers[len(chunk):]
		keys := make([]string, len(chunk))
		for i, server := range chunk {
			keys[i] = b.reports + server
		}
		found, err := b.client.current().MGet(ctx, keys...).Result()
		if err != nil {
			return nil, b.failed(err)
		}
		for i, report := range found {
			if text, there := report.(string); there && len(text) <= MaxReport {
				reports[chunk[i]] = []byte(text)
			}
		}
	}
	return reports, nil
}

// AnnounceReset has all servers learn with their next Poll that counters were reset.
func (b *Board) AnnounceReset(ctx context.Context) error {
	return b.failed(b.eval(ctx, resetScript, b.servers, newName(), idleFor.Milliseconds()).Err())
}

// Leave says that a server is not there any more.
func (b *Board) Leave(ctx context.Context, server string) error {
	return errors.Join(
		b.failed(b.client.current().HDel(ctx, b.servers, server).Err()),
		b.failed(b.client.current().Del(ctx, b.reports+server).Err()))
}
