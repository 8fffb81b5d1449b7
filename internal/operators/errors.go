package operators

import (
	"fmt"
	"net/http"
	"strings"
)

// Kind is a kind of errors of what operators ask for: their status of HTTP.
type Kind int

// The kinds of errors. Others have the status 500.
const (
	ErrBadRequest   Kind = http.StatusBadRequest          // asking again does not help
	ErrNotFound     Kind = http.StatusNotFound            // such as an exception that is not there
	ErrFull         Kind = http.StatusConflict            // there is no room for another one
	ErrInvalidRules Kind = http.StatusUnprocessableEntity // rules were read and are wrong
	ErrUnavailable  Kind = http.StatusServiceUnavailable  // Redis fails, asking again may help
)

// Error implements error.
func (k Kind) Error() string { return strings.ToLower(http.StatusText(int(k))) }

// Errorf returns an error of a kind: errors.Is(err, kind) holds. Its text is the formatted
// one alone, and what that wraps is wrapped, too.
func Errorf(kind Kind, format string, args ...any) error {
	return kindError{fmt.Errorf(format, args...), kind}
}

type kindError struct {
	error
	kind Kind
}

// Unwrap is for errors.Is and errors.As.
func (e kindError) Unwrap() []error { return []error{e.kind, e.error} }
