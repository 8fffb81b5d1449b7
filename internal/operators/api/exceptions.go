package api

import (
	"net/http"
	"time"

	"weir/internal/plan"
)

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

func (s *Server) exceptionRoutes() []route {
	return []route{
		{"GET", "/exceptions", values, "the exceptions in force", answer(http.StatusOK, func(r *http.Request) (any, error) {
			all, err := allReplicas(r)
			if err != nil {
				return nil, err
			}
			return s.Exceptions(r.Context(), all)
		})},
		{"POST", "/exceptions", changes, "add an exception", answer(http.StatusCreated, func(r *http.Request) (any, error) {
			e, err := read[NewException](r)
			if err != nil {
				return nil, err
			}
			return s.AddException(r.Context(), e, VisitorOf(r).Peer)
		})},
		{"DELETE", "/exceptions/{id}", changes, "remove an exception", answer(http.StatusNoContent, func(r *http.Request) (any, error) {
			by, err := readBy(r)
			if err != nil {
				return nil, err
			}
			return nil, s.RemoveException(r.Context(), r.PathValue("id"), by, VisitorOf(r).Peer)
		})},
	}
}

// ExceptionOf returns an exception as it is answered.
func ExceptionOf(e *plan.Exception) Exception {
	return Exception{
		ID: e.ID, Descriptor: NewDescriptor(e.Domain, e.Entries), Effect: string(e.Effect), Factor: e.Factor,
		Created: e.Created, Until: e.Until, By: e.By, Reason: e.Reason, Used: e.Used(),
	}
}
