// Package api is what operators and a running server say to each other on the debug
// port: the JSON of requests and of answers, and the kinds of errors. It asks nothing and
// serves nothing.
package api

import "time"

// Entry is an entry of a descriptor. Key and Value are text; bytes that are no UTF-8 are in
// KeyBase64 and ValueBase64, which hold all of the key or value, and count if they are set.
type Entry struct {
	Key         string `json:"key"`
	KeyBase64   string `json:"key_base64,omitempty"`
	Value       string `json:"value"`
	ValueBase64 string `json:"value_base64,omitempty"`
}

// Descriptor names a descriptor of a domain. It is the body of POST /peek and POST /reset.
type Descriptor struct {
	Domain       string  `json:"domain"`
	DomainBase64 string  `json:"domain_base64,omitempty"`
	Entries      []Entry `json:"entries"`
}

// Counters is the answer of POST /peek and POST /reset: the rule of a descriptor, and the
// counters of its limits.
type Counters struct {
	Descriptor
	Rule      string     `json:"rule"` // the keys and values that lead to it, "" if no rule matches
	Place     string     `json:"place,omitempty"`
	Exception *Exception `json:"exception,omitempty"` // that applies to the descriptor
	Limits    []Counter  `json:"limits"`
	// Reset is how many counters POST /reset has set to zero.
	Reset int `json:"reset,omitempty"`
}

// Counter is a limit and what is used of it.
type Counter struct {
	Rule  string `json:"rule"` // that has the limit: that of the descriptor, or one above
	Place string `json:"place,omitempty"`
	Limit string `json:"limit"` // its name, or how it counts
	Rate  string `json:"rate"`  // such as "5 per minute"
	Mode  string `json:"mode,omitempty"`
	// Shared are the wildcards and the like of the rule whose values all share the counter.
	Shared []string `json:"shared,omitempty"`
	// Unlimited reports whether it admits everything, Replaced whether another limit of the
	// rule replaces it. Then nothing is counted, and what follows is zero.
	Unlimited bool `json:"unlimited,omitempty"`
	Replaced  bool `json:"replaced,omitempty"`
	// Amount is what it admits, Used what is used of it, Remaining what it still admits, each
	// in units of hits_addend.
	Amount    uint64 `json:"amount"`
	Used      uint64 `json:"used"`
	Remaining uint64 `json:"remaining"`
	// Remaining, RetryAfter and WholeIn are of the limit, also while an exception admits or
	// denies everything. RetryAfter is in how many seconds one more is admitted: 0 now, nil never.
	RetryAfter *float64 `json:"retry_after"`
	// WholeIn is in how many seconds nothing of it is used any more, 0 if nothing is used.
	WholeIn float64 `json:"whole_in"`
	// BannedFor is how many seconds deny_for still lasts, 0 without a ban.
	BannedFor float64 `json:"banned_for,omitempty"`
	Key       string  `json:"key,omitempty"` // of the counter in Redis, as text
}

// The effects of exceptions.
const (
	Allow  = "allow"  // no limit holds
	Deny   = "deny"   // every request is denied
	Amount = "amount" // the amounts of all limits are multiplied by Factor
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

// Exceptions is the answer of GET /exceptions, the newest first.
type Exceptions struct {
	Exceptions []Exception `json:"exceptions"`
	// Servers is how many servers the uses are of.
	Servers int `json:"servers"`
}

// Status is the answer of GET /status.
type Status struct {
	Version       string   `json:"version"`
	UptimeSeconds float64  `json:"uptime_seconds"`
	Health        string   `json:"health"` // "OK", or why the server should get no requests
	Notes         []string `json:"notes"`
	Store         Store    `json:"store"`
	Rules         Rules    `json:"rules"`
	Exceptions    int      `json:"exceptions"` // in force
	// Decisions and Denials are requests a second, over the last ten seconds.
	Decisions float64 `json:"decisions_per_second"`
	Denials   float64 `json:"denials_per_second"`
}

// Rates is how many requests a second were decided, and how many of them denied, in the
// five seconds before At.
type Rates struct {
	At        time.Time `json:"at"`
	Decisions float64   `json:"decisions_per_second"`
	Denials   float64   `json:"denials_per_second"`
}

// Store says what keeps the counters. What is below Name is of Redis.
type Store struct {
	Name         string     `json:"name"`
	Works        bool       `json:"works"`
	WorkedAt     *time.Time `json:"worked_at,omitempty"`
	FailingSince *time.Time `json:"failing_since,omitempty"`
	FailedAt     *time.Time `json:"failed_at,omitempty"`    // the last call that failed
	Problem      string     `json:"problem,omitempty"`      // of that call
	FailureMode  string     `json:"failure_mode,omitempty"` // of limits that have none of their own
	Breaker      string     `json:"breaker,omitempty"`      // closed, or open: Redis is not asked
}

// Rules says which rules serve, and what became of newer ones.
type Rules struct {
	Path    string `json:"path"`
	Rules   int    `json:"rules"`
	Domains int    `json:"domains"`
	Files   int    `json:"files"`
	Version string `json:"version,omitempty"` // of a control plane
	// ControlPlane says how the control plane is reached, "" if the rules are in files.
	ControlPlane string `json:"control_plane,omitempty"`

	LoadedAt *time.Time `json:"loaded_at,omitempty"`
	FailedAt *time.Time `json:"failed_at,omitempty"` // of the last load, if it failed
	Problems string     `json:"problems,omitempty"`  // of that load, one per line
}
