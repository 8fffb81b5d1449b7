package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
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
	return &kindError{kind, fmt.Errorf(format, args...)}
}

type kindError struct {
	kind Kind
	err  error
}

// Error implements error.
func (e *kindError) Error() string { return e.err.Error() }

// Unwrap is for errors.Is and errors.As.
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// bodyBytes bounds the body of a request.
const bodyBytes = 64 << 10

// answer makes a handler of a function that returns what is sent as JSON, nil for nothing,
// with the status of its success.
func answer(code int, ask func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := ask(r)
		var text []byte
		if err == nil && v != nil {
			text, err = json.MarshalIndent(v, "", "  ")
		}
		switch {
		case err != nil:
			fail(w, err, plaintext.Line)
		case v == nil:
			w.WriteHeader(code)
		default:
			plain(w)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = w.Write(append(plaintext.JSON(text), '\n')) // if it fails, the client has gone
		}
	})
}

func plain(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// fail answers with an error, which may hold what others wrote, as shown shows that.
func fail(w http.ResponseWriter, err error, shown func(string) string) {
	code := Kind(http.StatusInternalServerError)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		code, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", bodyBytes)
	}
	_ = errors.As(err, &code)
	if code == ErrUnavailable {
		w.Header().Set("Retry-After", "1") // nobody knows when Redis is back
	}
	http.Error(w, shown(err.Error()), int(code))
}

// allReplicas reads of whom the answer is to be: this server, or all that share its Redis.
func allReplicas(r *http.Request) (all bool, err error) {
	switch replicas := r.URL.Query().Get("replicas"); replicas {
	case "all":
		return true, nil
	case "", "this":
		return false, nil
	default:
		return false, Errorf(ErrBadRequest, "replicas: %.40q is unknown, allowed are this and all", replicas)
	}
}

// longestBy bounds the name of who changes something, in bytes.
const longestBy = 256

func readBy(r *http.Request) (string, error) {
	by := r.URL.Query().Get("by")
	if len(by) > longestBy {
		return "", Errorf(ErrBadRequest, "by: it has %d bytes, allowed are at most %d", len(by), longestBy)
	}
	return by, nil
}

// read reads the body of r, which has a descriptor. A field that it does not have is an
// error, and so are bytes that are no UTF-8, in whose place other text would be read.
func read[T interface {
	Bytes() (string, []limiter.Entry, error)
}](r *http.Request) (body T, err error) {
	text, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return body, err
	case len(bytes.TrimSpace(text)) == 0:
		return body, Errorf(ErrBadRequest, "the body is empty, it must be JSON")
	case !utf8.Valid(text):
		return body, Errorf(ErrBadRequest, "the body is not UTF-8, other bytes belong into the fields that end in _base64")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&body)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := strings.TrimPrefix(wrong.Field, "Descriptor.") // as clients write it: without the embedded struct
		if field == "" {
			field = "the body"
		}
		return body, Errorf(ErrBadRequest, "%s: it cannot be a JSON %s", field, wrong.Value)
	}
	if err != nil {
		return body, Errorf(ErrBadRequest, "the body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return body, Errorf(ErrBadRequest, "the body: there is more after the JSON")
	}
	_, _, err = body.Bytes()
	return body, err
}
