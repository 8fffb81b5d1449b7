package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// sentinels know who is the primary of a name. go-redis' own client for them ends
// the process if one replies with less than an address, or publishes anything odd;
// so they are asked here, at every connect and once a second.
type sentinels struct {
	options redis.Options // how to reach one, but for its address
	dialer  *dialer       // of options

	ctx     context.Context // until it is closed
	end     context.CancelFunc
	running sync.WaitGroup
	names   atomic.Value // string: of the primary, and where the sentinels are; mu is held too long

	mu         sync.Mutex
	name       string                // of the primary
	configured []string              // their addresses
	moved      bool                  // name or addresses have changed since a primary was found
	others     []string              // that those configured know
	trusted    *redis.SentinelClient // that named the primary last; nil: none
}

const (
	// watchPeriod is how often sentinels are asked whether another is the primary.
	// That matters if the old one serves on, cut off from them.
	watchPeriod = time.Second
	// maxSentinels is how many are asked at most, besides those configured.
	maxSentinels = 16
)

// newSentinels returns those that u names. It is the dialer of Redis that breaks
// connections, so they have one of their own, d.
func newSentinels(u *redis.UniversalOptions, d *dialer) *sentinels {
	s := &sentinels{name: u.MasterName, configured: u.Addrs, options: *u.Simple(), dialer: d}
	s.options.Username, s.options.Password, s.options.Dialer = u.SentinelUsername, u.SentinelPassword, d.dial
	s.ctx, s.end = context.WithCancel(context.Background())
	s.setNames()
	return s
}

func (s *sentinels) setNames() { s.names.Store(s.name + " of " + strings.Join(s.configured, ",")) }

// move has other sentinels asked, or for another primary.
func (s *sentinels) move(name string, addrs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name == name && slices.Equal(s.configured, addrs) {
		return
	}
	s.name, s.configured, s.others, s.moved = name, addrs, nil, true
	s.setNames()
	if s.trusted != nil {
		_ = s.trusted.Close() // nobody waits for it
		s.trusted = nil
	}
}

// isMoving reports whether no primary has been found since the sentinels were replaced.
func (s *sentinels) isMoving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}

// watch calls look, which is to ask for the primary, every watchPeriod until the
// sentinels are closed.
func (s *sentinels) watch(look func(context.Context)) {
	s.running.Go(func() {
		ticker := time.NewTicker(watchPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-ticker.C:
			}
			ctx, cancel := context.WithTimeout(s.ctx, connectTimeout)
			look(ctx)
			s.learn(ctx)
			cancel()
		}
	})
}

// primary returns the address of the primary. It asks the sentinel that named it
// last, so that two who disagree do not take turns; if that one fails, all at a
// time, and believes the first. It calls found with the address, and whether it is the first
// since the sentinels were replaced, before they are asked or replaced again.
func (s *sentinels) primary(ctx context.Context, found func(addr string, isFirst bool)) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return "", s.ctx.Err()
	}
	addr, err := s.askTrusted(ctx)
	if err != nil {
		addr, err = s.search(ctx)
	}
	if err != nil {
		return "", SentinelError{Cause: err, text: fmt.Sprintf("asking the sentinels for the primary: %v", err)}
	}
	found(addr, s.moved)
	s.moved = false
	return addr, nil
}

// errNoneTrusted is why none was asked.
var errNoneTrusted = errors.New("no sentinel has named the primary")

// askTrusted asks the sentinel that named the primary last, and trusts it no longer if it fails.
func (s *sentinels) askTrusted(ctx context.Context) (string, error) {
	if s.trusted == nil {
		return "", errNoneTrusted
	}
	addr, err := s.ask(ctx, s.trusted, s.name)
	if err != nil {
		_ = s.trusted.Close() // nobody waits for it
		s.trusted = nil
	}
	return addr, err
}

// SentinelError says why the sentinels name no primary.
type SentinelError struct {
	// Cause is why they could not be asked, or nil if they answered. It is not
	// unwrapped: go-redis would take what a sentinel replied for what the primary did.
	Cause error
	text  string
}

func (e SentinelError) Error() string { return e.text }

// errNotFirst is of an answer that another was faster than.
var errNotFirst = errors.New("another sentinel was faster")

// search asks all sentinels, trusts the first that knows the primary, and waits for
// no other.
func (s *sentinels) search(ctx context.Context) (string, error) {
	type answer struct {
		sentinel *redis.SentinelClient
		addr     string
		err      error
	}
	nodes, name := slices.Concat(s.configured, s.others), s.name // which may change while some are asked
	answers := make(chan answer, len(nodes))
	var found atomic.Bool
	for _, node := range nodes {
		s.running.Go(func() {
			options := s.options
			options.Addr = node
			sentinel := redis.NewSentinelClient(&options)
			addr, err := s.ask(ctx, sentinel, name)
			if err == nil && found.Swap(true) {
				err = errNotFirst
			}
			if err != nil {
				_ = sentinel.Close()
			}
			answers <- answer{sentinel, addr, err}
		})
	}
	var errs []error
	for range nodes {
		a := <-answers
		if a.err == nil {
			s.trusted = a.sentinel
			return a.addr, nil
		}
		errs = append(errs, a.err)
	}
	return "", errors.Join(errs...)
}

// ask asks one sentinel for the address of the primary of a name.
func (s *sentinels) ask(ctx context.Context, sentinel *redis.SentinelClient, name string) (string, error) {
	addr, err := sentinel.GetMasterAddrByName(ctx, name).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", SentinelError{text: "the sentinels know no primary of this name"}
	case err != nil:
		return "", err
	case len(addr) != 2 || addr[0] == "" || addr[1] == "":
		return "", SentinelError{text: "what a sentinel replies is no address"}
	}
	return net.JoinHostPort(addr[0], addr[1]), nil
}

// learn asks the trusted sentinel for the others, who are then asked if it fails.
func (s *sentinels) learn(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trusted == nil {
		return
	}
	known, err := s.trusted.Sentinels(ctx, s.name).Result()
	if err != nil {
		return // the next call finds out what is wrong with it
	}
	s.others = nil
	for _, node := range known {
		addr := net.JoinHostPort(node["ip"], node["port"])
		if len(s.others) < maxSentinels && !slices.Contains(s.configured, addr) && !slices.Contains(s.others, addr) {
			s.others = append(s.others, addr)
		}
	}
}

// close ends what runs, and the connection to the trusted sentinel.
func (s *sentinels) close() {
	s.end()
	s.mu.Lock()
	if s.trusted != nil {
		_ = s.trusted.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}
