package operators

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/plan"
)

// The effects of exceptions.
const (
	Allow  = string(plan.Allow)  // no limit holds
	Deny   = string(plan.Deny)   // every request is denied
	Amount = string(plan.Amount) // the amounts of all limits are multiplied by Factor
)

// Exception is an exception from the rules for the descriptors of a domain that begin with
// its entries.
type Exception struct {
	ID string `json:"id"`
	Descriptor
	Effect  string    `json:"effect"`
	Factor  float64   `json:"factor,omitempty"` // of Amount, from 0.001 to 1,000,000
	Created time.Time `json:"created"`
	Until   time.Time `json:"until"`
	By      string    `json:"by"`     // who added it
	Reason  string    `json:"reason"` // as given by who added it
	// Used is how many descriptors it was applied to on the servers that were asked.
	Used uint64 `json:"used"`
	// Note is of the answer of POST /exceptions alone: why it may not be what was meant.
	Note string `json:"note,omitempty"`
}

// NewException is the body of POST /exceptions, whose answer is the Exception.
type NewException struct {
	Descriptor
	Effect string  `json:"effect"`
	Factor float64 `json:"factor,omitempty"`
	For    float64 `json:"for"` // seconds
	By     string  `json:"by"`
	Reason string  `json:"reason"`
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
		ID: e.ID, Descriptor: NewDescriptor(e.Domain, e.Entries), Effect: string(e.Effect), Factor: e.Factor,
		Created: e.Created, Until: e.Until, By: e.By, Reason: e.Reason, Used: e.Used(),
	}
}

// begin returns the exception, which begins now and is not checked yet.
func (n *NewException) begin() Exception {
	now := time.Now().Round(0).UTC()
	return Exception{
		ID:         strings.ToLower(rand.Text()[:8]), // letters and digits that cannot be taken for each other
		Descriptor: n.Descriptor, Effect: n.Effect, Factor: n.Factor, Created: now, Until: now.Add(Seconds(n.For)), By: n.By, Reason: n.Reason,
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

// check returns the exception as the planner takes it, or what is wrong with it.
func (x *Exception) check() (*plan.Exception, error) {
	domain, entries, err := x.Bytes()
	if err != nil {
		return nil, err
	}
	bytes, emptyKey := len(domain), false
	for _, e := range entries {
		bytes += len(e.Key) + len(e.Value)
		emptyKey = emptyKey || e.Key == ""
	}
	effect, lasts, wrong := plan.Effect(x.Effect), x.Until.Sub(x.Created), ""
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
	case !slices.Contains(plan.Effects, effect):
		wrong = fmt.Sprintf("undefined effect %.40q; use one of %s, %s, %s", x.Effect, plan.Allow, plan.Deny, plan.Amount)
	case effect == plan.Amount && !(x.Factor >= minFactor && x.Factor <= maxFactor):
		wrong = fmt.Sprintf("a factor of %v is not allowed; use %v to %d", x.Factor, minFactor, maxFactor)
	case effect != plan.Amount && x.Factor != 0:
		wrong = fmt.Sprintf("a factor applies to the effect %s only", plan.Amount)
	case lasts < minFor || lasts > maxFor:
		wrong = fmt.Sprintf("a duration of %v is not allowed; use 1 second to 366 days", lasts)
	case strings.TrimSpace(x.Reason) == "":
		wrong = "a reason is required"
	case len(x.Reason) > maxReason:
		wrong = fmt.Sprintf("the reason has %d bytes, at most %d are allowed", len(x.Reason), maxReason)
	case len(x.By) > maxBy:
		wrong = fmt.Sprintf("by has %d bytes, at most %d are allowed", len(x.By), maxBy)
	}
	if wrong != "" {
		return nil, Errorf(ErrBadRequest, "invalid exception: %s", wrong)
	}
	return &plan.Exception{
		ID: x.ID, Domain: domain, Entries: entries, Effect: effect, Factor: x.Factor,
		Created: x.Created, Until: x.Until, By: x.By, Reason: x.Reason,
	}, nil
}

// exceptionFormat is that of the texts which this version can read. One that says more of
// whom an exception is for, or what it does, needs another number: a version that applied it
// without knowing that would apply it to too many.
const exceptionFormat = 2

// sharedException is the JSON that the servers share of an exception.
type sharedException struct {
	Format int `json:"format"`
	Exception
}

// readException returns the exception of a text, or why this version cannot read it.
func readException(text string) (*plan.Exception, error) {
	var x sharedException
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		return nil, err
	}
	if x.Format != exceptionFormat {
		return nil, fmt.Errorf("it has format %d, and this version reads format %d", x.Format, exceptionFormat)
	}
	return x.check()
}
