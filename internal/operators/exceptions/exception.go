// Package exceptions keeps what operators decide in the place of the rules, for a while:
// to let a client pass, to deny it, or to give it another amount. All servers that share a
// Store have the same exceptions.
//
//	exception.go  New: an exception to be added, and what is wrong with it
//	record.go     an Exception as JSON, for a Store
//	store.go      Store: what keeps them for all servers
//	memory.go     a Store in memory, for one server
//	keeper.go     Keeper: adds, removes and ends them
//	load.go       how a Keeper learns what other servers did, and what a Store lost
//	audit.go      who did what, in the log
//	metrics.go    how many there are, and how often they were used
//
// It decides nothing: package plan makes hits of what an exception says.
package exceptions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// What an exception may be.
const (
	Most       = 10_000 // exceptions at a time
	maxEntries = 100    // of a descriptor, as of one of a request
	maxText    = 4 << 10
	maxReason  = 500
	maxBy      = 200
	minFactor  = 0.001
	maxFactor  = 1_000_000
	minFor     = time.Second
	maxFor     = 366 * 24 * time.Hour
)

// New is an exception to be added.
type New struct {
	Domain  string
	Entries []limiter.Entry // any bytes
	Effect  string
	Factor  float64 // of Amount
	For     time.Duration
	By      string // who adds it
	Reason  string
}

// ErrBad is the error of an exception that cannot be added, with the reason.
var ErrBad = errors.New("bad exception")

// check returns what is wrong with n.
func (n *New) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrBad, fmt.Sprintf(format, args...))
	}
	bytes := len(n.Domain)
	for i, e := range n.Entries {
		if e.Key == "" {
			return bad("the key of entry %d is empty", i)
		}
		bytes += len(e.Key) + len(e.Value)
	}
	effect := plan.Effect(n.Effect)
	switch {
	case n.Domain == "":
		return bad("the domain is empty")
	case len(n.Entries) == 0:
		return bad("it has no entries, at least one is needed")
	case len(n.Entries) > maxEntries:
		return bad("it has %d entries, at most %d are allowed", len(n.Entries), maxEntries)
	case bytes > maxText:
		return bad("domain and entries have %d bytes, at most %d are allowed", bytes, maxText)
	case !slices.Contains(plan.Effects, effect):
		return bad("undefined effect %.40q, allowed are %s, %s, %s", n.Effect, plan.Allow, plan.Deny, plan.Amount)
	case effect == plan.Amount && !(n.Factor >= minFactor && n.Factor <= maxFactor):
		return bad("a factor of %v is not allowed, allowed are %v to %d", n.Factor, minFactor, maxFactor)
	case effect != plan.Amount && n.Factor != 0:
		return bad("a factor is for effect %s only", plan.Amount)
	case n.For < minFor || n.For > maxFor:
		return bad("a duration of %v is not allowed, allowed are 1 second to 366 days", n.For)
	case strings.TrimSpace(n.Reason) == "":
		return bad("a reason is needed")
	case len(n.Reason) > maxReason:
		return bad("the reason has %d bytes, at most %d are allowed", len(n.Reason), maxReason)
	case len(n.By) > maxBy:
		return bad("the name of who adds it has %d bytes, at most %d are allowed", len(n.By), maxBy)
	}
	return nil
}
