package operators

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/plan"
)

// NewException is an exception from the rules for the descriptors of a domain that begin with
// its entries. It is the body of POST /exceptions.
type NewException struct {
	Descriptor
	Effect plan.Effect `json:"effect"`
	Factor float64     `json:"factor,omitempty"` // of Amount, from 0.001 to 1,000,000
	For    float64     `json:"for,omitempty"`    // seconds
	By     string      `json:"by"`               // who adds it
	Reason string      `json:"reason"`
}

// Exception is an exception that was added.
type Exception struct {
	ID string `json:"id"`
	NewException
	Created time.Time `json:"created"`
	Until   time.Time `json:"until"`
	// Used is how many descriptors it was applied to on the servers that were asked.
	Used uint64 `json:"used"`
	// Note is of the answer of POST /exceptions alone: why it may not be what was meant.
	Note string `json:"note,omitempty"`
}

// ExceptionList is the answer of GET /exceptions, the newest first.
type ExceptionList struct {
	Exceptions []Exception `json:"exceptions"`
	// Servers is how many servers the uses are of.
	Servers int `json:"servers"`
}

// exceptionOf returns an exception as it is answered.
func exceptionOf(e *plan.Exception) Exception {
	return Exception{
		ID: e.ID, Created: e.Created, Until: e.Until, Used: e.Used(),
		NewException: NewException{
			Descriptor: NewDescriptor(e.Domain, e.Entries), Effect: e.Effect, Factor: e.Factor,
			For: e.Until.Sub(e.Created).Seconds(), By: e.By, Reason: e.Reason,
		},
	}
}

// What an exception may be.
const (
	maxEntries = 100 // of a descriptor, as of one of a request
	maxText    = 4 << 10
	maxReason  = 500
	maxBy      = 200
	minFactor  = 0.001
	maxFactor  = 1_000_000
	minFor     = time.Second
	maxFor     = 366 * 24 * time.Hour
)

// check returns the exception, without ID and times, or what is wrong with it.
func (n *NewException) check() (*plan.Exception, error) {
	domain, entries, err := n.Bytes()
	if err != nil {
		return nil, err
	}
	bytes, emptyKey := len(domain), false
	for _, e := range entries {
		bytes += len(e.Key) + len(e.Value)
		emptyKey = emptyKey || e.Key == ""
	}
	lasts, wrong := Seconds(n.For), ""
	switch {
	case domain == "":
		wrong = "the domain is empty"
	case len(entries) == 0:
		wrong = "it has no entries, at least one is required"
	case emptyKey:
		wrong = "the key of an entry is empty"
	case len(entries) > maxEntries:
		wrong = fmt.Sprintf("it has %d entries, at most %d are allowed", len(entries), maxEntries)
	case bytes > maxText:
		wrong = fmt.Sprintf("domain and entries have %d bytes, at most %d are allowed", bytes, maxText)
	case !slices.Contains(plan.Effects, n.Effect):
		wrong = fmt.Sprintf("undefined effect %.40q; use one of %s, %s, %s", n.Effect, plan.Allow, plan.Deny, plan.Amount)
	case n.Effect == plan.Amount && !(n.Factor >= minFactor && n.Factor <= maxFactor):
		wrong = fmt.Sprintf("a factor of %v is not allowed; use %v to %d", n.Factor, minFactor, maxFactor)
	case n.Effect != plan.Amount && n.Factor != 0:
		wrong = fmt.Sprintf("a factor applies to the effect %s only", plan.Amount)
	case lasts < minFor || lasts > maxFor:
		wrong = fmt.Sprintf("a duration of %v is not allowed; use 1 second to 366 days", lasts)
	case strings.TrimSpace(n.Reason) == "":
		wrong = "a reason is required"
	case len(n.Reason) > maxReason:
		wrong = fmt.Sprintf("the reason has %d bytes, at most %d are allowed", len(n.Reason), maxReason)
	case len(n.By) > maxBy:
		wrong = fmt.Sprintf("by has %d bytes, at most %d are allowed", len(n.By), maxBy)
	}
	if wrong != "" {
		return nil, Errorf(ErrBadRequest, "invalid exception: %s", wrong)
	}
	return &plan.Exception{Domain: domain, Entries: entries, Effect: n.Effect, Factor: n.Factor, By: n.By, Reason: n.Reason}, nil
}

// readException returns the exception that servers share as JSON, or why this version cannot
// read it. One with a field that it does not know may be for fewer, or do something else.
func readException(id, text string) (*plan.Exception, error) {
	var x Exception
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&x); err != nil {
		return nil, err
	}
	e, err := x.check()
	if err == nil {
		e.ID, e.Created, e.Until = id, x.Created, x.Until
	}
	return e, err
}
