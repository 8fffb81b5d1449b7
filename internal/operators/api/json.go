package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/operators"
)

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
	code := operators.Kind(http.StatusInternalServerError)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		code, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", bodyBytes)
	}
	_ = errors.As(err, &code)
	if code == operators.ErrUnavailable {
		w.Header().Set("Retry-After", "1") // nobody knows when Redis is back
	}
	http.Error(w, shown(err.Error()), int(code))
}

// ofAll answers for this server, or for all that share its Redis, as the query asks.
func ofAll[T any](ask func(ctx context.Context, all bool) (T, error)) http.Handler {
	return answer(http.StatusOK, func(r *http.Request) (any, error) {
		switch servers := r.URL.Query().Get("servers"); servers {
		case "", "this", "all":
			return ask(r.Context(), servers == "all")
		default:
			return nil, operators.Errorf(operators.ErrBadRequest, "servers: %.40q is unknown; use this or all", servers)
		}
	})
}

// posted answers to the body of a request, which has a descriptor. A field that it does not
// have is an error, and so are bytes that are no UTF-8, in whose place other text would be read.
func posted[T interface {
	Bytes() (domain string, entries []limiter.Entry, err error)
}](code int, ask func(*http.Request, T) (any, error)) http.Handler {
	bad := func(format string, args ...any) (any, error) {
		return nil, operators.Errorf(operators.ErrBadRequest, format, args...)
	}
	return answer(code, func(r *http.Request) (any, error) {
		text, err := io.ReadAll(r.Body)
		switch {
		case err != nil:
			return nil, err
		case len(bytes.TrimSpace(text)) == 0:
			return bad("the body is empty, it must be JSON")
		case !utf8.Valid(text):
			return bad("the body is not UTF-8, put other bytes in the fields that end in _base64")
		}
		var asked T
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&asked)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			field := strings.TrimPrefix(wrong.Field, "Descriptor.") // as clients write it: without the embedded struct
			return bad("%s: it cannot be a JSON %s", cmp.Or(field, "the body"), wrong.Value)
		}
		if err != nil {
			return bad("the body: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return bad("the body: unexpected text after the JSON")
		}
		if _, _, err := asked.Bytes(); err != nil {
			return nil, err
		}
		return ask(r, asked)
	})
}

// longestBy bounds the name of who changes something, in bytes.
const longestBy = 256

// named hands the name of who changes something, and the address, to change.
func named(r *http.Request, change func(ctx context.Context, by, peer string) (any, error)) (any, error) {
	by := r.URL.Query().Get("by")
	if len(by) > longestBy {
		return nil, operators.Errorf(operators.ErrBadRequest, "by: it has %d bytes; use at most %d", len(by), longestBy)
	}
	return change(r.Context(), by, VisitorOf(r).Peer)
}
