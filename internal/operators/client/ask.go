package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/descriptors/plaintext"
)

// maxAnswer bounds an answer. 10,000 exceptions with long reasons are a few megabytes.
const maxAnswer = 64 << 20

// request is what is sent to a server.
type request struct {
	method, path string
	query        url.Values
	body         any // sent as JSON, unless it is nil
}

// ask sends a request and reads its answer. isAnswer reports whether it can be that of Weir.
func ask[T any](ctx context.Context, c *Client, r request, isAnswer func(*T) bool) (answer Answer[T], err error) {
	text, header, err := c.send(ctx, r)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer.Value); err != nil || !isAnswer(&answer.Value) {
		return answer, c.errorf("what answers at %s is not the debug port of Weir: its answer to %s is not that of Weir", c.Server(), r.path)
	}
	answer.JSON, answer.At = text, time.Now()
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		answer.At = at
	}
	return answer, nil
}

// send sends a request and returns the body and the header of an answer that is a success.
func (c *Client) send(ctx context.Context, r request) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, nil, err
		}
		body = bytes.NewReader(text)
	}
	target := c.Server() + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	question, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, nil, err
	}
	question.Header.Set("Accept", "application/json")
	question.Header.Set("User-Agent", cmp.Or(c.options.UserAgent, "weir"))
	if body != nil {
		question.Header.Set("Content-Type", "application/json")
	}
	if c.options.Token != "" {
		question.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	response, err := c.http.Do(question)
	if err != nil {
		return nil, nil, c.unreachable(ctx, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, c.unreachable(ctx, err)
	case len(text) > maxAnswer:
		return nil, nil, c.errorf("the answer of %s to %s is larger than %d MiB, which none of Weir is", c.Server(), r.path, maxAnswer>>20)
	case response.StatusCode/100 != 2:
		return nil, nil, c.refused(r, response, text)
	}
	return text, response.Header, nil
}

// maxToken bounds a token. Files of tokens are a line.
const maxToken = 4 << 10

// ReadToken reads the token in a file. Its errors do not show what was read, nor a name of no
// file that is long enough for a token and in no directory: the token may have been given in
// its place.
func ReadToken(name string) (string, error) {
	f, err := os.Open(name)
	var text []byte
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, maxToken+1))
	}
	token := strings.TrimSpace(string(text)) // blanks around it do not belong to it
	of, isPath := errors.AsType[*fs.PathError](err)
	switch {
	case isPath:
		err = of.Err // without the name
	case err != nil:
	case len(text) > maxToken:
		err = errors.New("it is larger than 4 KiB, which no token is")
	case token == "":
		err = errors.New("it is empty")
	case strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0:
		err = errors.New("it holds more than a token, allowed are ASCII characters without blanks")
	default:
		return token, nil
	}
	const shortest = 16 // that servers take
	dir := filepath.Dir(name)
	_, noDir := os.Stat(dir)
	if f == nil && len(name) >= shortest && (noDir != nil || dir == "." || dir == string(filepath.Separator)) {
		return "", fmt.Errorf("%w (its name is not shown, it may be the token itself)", err)
	}
	return "", fmt.Errorf("%s: %w", plaintext.Line(name), err)
}
