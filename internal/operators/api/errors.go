package api

import (
	"errors"
	"fmt"
)

// The kinds of errors of what is asked on the debug port, each with its status of HTTP.
var (
	ErrBadRequest  = errors.New("bad request") // 400: asking again does not help
	ErrNotFound    = errors.New("not found")   // 404: such as an exception that is not there
	ErrFull        = errors.New("full")        // 409: there is no room for another one
	ErrUnavailable = errors.New("unavailable") // 503: Redis fails, asking again may help
)

// Errorf returns an error of a kind: errors.Is(err, kind) holds. Its text is the formatted
// one alone, and what that wraps is wrapped, too.
func Errorf(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Errorf(format, args...)}
}

type kindError struct{ kind, err error }

// Error implements error.
func (e *kindError) Error() string { return e.err.Error() }

// Unwrap is for errors.Is and errors.As.
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }
