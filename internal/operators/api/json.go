package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators"
)

// bodyBytes bounds the body of a request.
const bodyBytes = 64 << 10

// answer makes a handler of a function that returns what is sent as JSON, nil for nothing,
// with the status of its success.
func answer(code int, ask func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
	}
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
func ofAll[T any](ask func(ctx context.Context, all bool) (T, error)) http.HandlerFunc {
	return answer(http.StatusOK, func(r *http.Request) (any, error) {
		servers := r.URL.Query().Get("servers")
		if servers != "" && servers != "this" && servers != "all" {
			return nil, operators.Errorf(operators.ErrBadRequest, "servers: %.40q is unknown; use this or all", servers)
		}
		return ask(r.Context(), servers == "all")
	})
}

// posted answers to the body of a request. A field that T does not have is an error, and so
// are bytes that are no UTF-8, in whose place other text would be read.
func posted[T any](code int, ask func(*http.Request, T) (any, error)) http.HandlerFunc {
	return answer(code, func(r *http.Request) (any, error) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var asked T
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&asked); err != nil {
			return nil, operators.Errorf(operators.ErrBadRequest, "invalid body: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		if !utf8.Valid(text) {
			return nil, operators.Errorf(operators.ErrBadRequest, "the body is not UTF-8, put other bytes in the fields that end in _base64")
		}
		return ask(r, asked)
	})
}
