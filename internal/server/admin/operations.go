package admin

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
	"weir/internal/operators/api"
)

// state is the status page as JSON.
func (d *pages) state(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, d.Status().API())
}

// denials shows what was denied lately.
func (d *pages) denials(w http.ResponseWriter, r *http.Request) {
	all, err := allReplicas(r)
	if err != nil {
		failed(w, err)
		return
	}
	answer(w, http.StatusOK)(d.Denials(r.Context(), all))
}

// peek shows the counters of a descriptor.
func (d *pages) peek(w http.ResponseWriter, r *http.Request) {
	var body api.Descriptor
	if err := readDescriptor(r, &body, &body); err != nil {
		failed(w, err)
		return
	}
	answer(w, http.StatusOK)(d.Peek(r.Context(), body))
}

// reset sets the counters of a descriptor to zero.
func (d *pages) reset(w http.ResponseWriter, r *http.Request) {
	var body api.Descriptor
	by, err := readBy(r)
	if err == nil {
		err = readDescriptor(r, &body, &body)
	}
	if err != nil {
		failed(w, err)
		return
	}
	answer(w, http.StatusOK)(d.Reset(r.Context(), body, by, d.Access.Peer(r)))
}

// exceptions shows the exceptions in force.
func (d *pages) exceptions(w http.ResponseWriter, r *http.Request) {
	all, err := allReplicas(r)
	if err != nil {
		failed(w, err)
		return
	}
	answer(w, http.StatusOK)(d.Exceptions(r.Context(), all))
}

// addException adds an exception.
func (d *pages) addException(w http.ResponseWriter, r *http.Request) {
	var body api.NewException
	if err := readDescriptor(r, &body, &body.Descriptor); err != nil {
		failed(w, err)
		return
	}
	answer(w, http.StatusCreated)(d.AddException(r.Context(), body, d.Access.Peer(r)))
}

// removeException removes an exception.
func (d *pages) removeException(w http.ResponseWriter, r *http.Request) {
	by, err := readBy(r)
	if err == nil {
		err = d.RemoveException(r.Context(), r.PathValue("id"), by, d.Access.Peer(r))
	}
	if err != nil {
		failed(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// allReplicas reads of whom the answer is to be: this server, or all that share its Redis.
func allReplicas(r *http.Request) (all bool, err error) {
	switch replicas := r.URL.Query().Get("replicas"); replicas {
	case "all":
		return true, nil
	case "", "this":
		return false, nil
	default:
		return false, api.Errorf(api.ErrBadRequest, "replicas: %.40q is unknown, allowed are this and all", replicas)
	}
}

// longestBy bounds the name of who changes something, in bytes.
const longestBy = 256

func readBy(r *http.Request) (string, error) {
	by := r.URL.Query().Get("by")
	if len(by) > longestBy {
		return "", api.Errorf(api.ErrBadRequest, "by: it has %d bytes, allowed are at most %d", len(by), longestBy)
	}
	return by, nil
}

// readDescriptor reads the body of r into v, with its descriptor d.
func readDescriptor(r *http.Request, v any, d *api.Descriptor) error {
	if err := readJSON(r, v); err != nil {
		return err
	}
	_, _, err := d.Bytes()
	return err
}

// readJSON reads the body of r into v. A field that v does not have is an error, and so
// are bytes that are no UTF-8, in whose place other text would be read.
func readJSON(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return err
	case len(bytes.TrimSpace(body)) == 0:
		return api.Errorf(api.ErrBadRequest, "the body is empty, it must be JSON")
	case !utf8.Valid(body):
		return api.Errorf(api.ErrBadRequest, "the body is not UTF-8, other bytes belong into the fields that end in _base64")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return api.Errorf(api.ErrBadRequest, "%s: it cannot be a JSON %s", fieldName(wrong.Field), wrong.Value)
	}
	if err != nil {
		return api.Errorf(api.ErrBadRequest, "the body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return api.Errorf(api.ErrBadRequest, "the body: there is more after the JSON")
	}
	return nil
}

// fieldName is that of a field as clients write it: of an embedded struct, without it.
func fieldName(field string) string {
	name := strings.TrimPrefix(field, "Descriptor.")
	if name == "" {
		return "the body"
	}
	return name
}

// answer returns a function that writes v as JSON, or why there is none.
func answer(w http.ResponseWriter, code int) func(v any, err error) {
	return func(v any, err error) {
		if err != nil {
			failed(w, err)
			return
		}
		writeJSON(w, code, v)
	}
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		failed(w, err)
		return
	}
	plain(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(plaintext.JSON(text), '\n')) // if it fails, the client has gone
}

// failed answers with an error in one line, which may hold what others wrote.
func failed(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		code, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", bodyBytes)
	case errors.Is(err, api.ErrBadRequest):
		code = http.StatusBadRequest
	case errors.Is(err, api.ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, api.ErrFull):
		code = http.StatusConflict
	case errors.Is(err, api.ErrUnavailable):
		code = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1") // nobody knows when Redis is back
	}
	http.Error(w, plaintext.Line(err.Error()), code)
}
