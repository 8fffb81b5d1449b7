package exceptions

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// recordFormat is that of records which this version can read. One in which more than
// this says for whom an exception is, or what it does, needs another number: a version that
// applied it without knowing that would apply it to too many.
const recordFormat = 1

// record is an Exception as JSON.
type record struct {
	Format  int       `json:"format"`
	Domain  text      `json:"domain"`
	Entries [][2]text `json:"entries"`
	Effect  string    `json:"effect"`
	Factor  float64   `json:"factor,omitempty"`
	Created time.Time `json:"created"`
	Until   time.Time `json:"until"`
	By      text      `json:"by"`
	Reason  text      `json:"reason"`
}

// text is any bytes: a string of JSON if they are UTF-8, else an object with their base64.
type text string

type notUTF8 struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(notUTF8{[]byte(t)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	var bytes notUTF8
	if json.Unmarshal(b, &bytes) == nil && bytes.Base64 != nil {
		*t = text(bytes.Base64)
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// newRecord returns the record of e.
func newRecord(e *plan.Exception) (Record, error) {
	r := record{
		Format: recordFormat, Domain: text(e.Domain), Effect: string(e.Effect), Factor: e.Factor,
		Created: e.Created, Until: e.Until, By: text(e.By), Reason: text(e.Reason),
	}
	for _, entry := range e.Entries {
		r.Entries = append(r.Entries, [2]text{text(entry.Key), text(entry.Value)})
	}
	body, err := json.Marshal(r)
	return Record{e.ID, body}, err
}

// read returns the exception of r, or why this version cannot read it.
func (r *Record) read() (*plan.Exception, error) {
	var got record
	if err := json.Unmarshal(r.Body, &got); err != nil {
		return nil, err
	}
	effect := plan.Effect(got.Effect)
	switch {
	case got.Format != recordFormat:
		return nil, fmt.Errorf("it has format %d, and this version reads format %d", got.Format, recordFormat)
	case !slices.Contains(plan.Effects, effect):
		return nil, fmt.Errorf("undefined effect %.40q", got.Effect)
	case effect == plan.Amount && !(got.Factor >= minFactor && got.Factor <= maxFactor):
		return nil, fmt.Errorf("undefined factor %v", got.Factor)
	case got.Domain == "" || len(got.Entries) == 0 || got.Until.IsZero():
		return nil, errors.New("its domain, its entries or its end are missing")
	}
	e := &plan.Exception{
		ID: r.ID, Domain: string(got.Domain), Effect: effect, Factor: got.Factor,
		Created: got.Created, Until: got.Until, By: string(got.By), Reason: string(got.Reason),
	}
	for _, entry := range got.Entries {
		e.Entries = append(e.Entries, limiter.Entry{Key: string(entry[0]), Value: string(entry[1])})
	}
	return e, nil
}
