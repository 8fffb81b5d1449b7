package api

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// sharedPage serves a large page, such as the metrics, whose rendering may take a second and hundreds
// of megabytes. All requests that arrive during a rendering share its compressed bytes.
type sharedPage struct {
	handler http.Handler
	version func() time.Time

	latest chan *rendering // contains the latest rendering, or nothing during the next one
}

// NewPage returns a handler that shares each rendering of handler's page among clients. handler gets requests
// without a URL or headers. A rendering is not reused after the result of version has changed.
func NewPage(handler http.Handler, version func() time.Time) http.Handler {
	p := &sharedPage{handler, version, make(chan *rendering, 1)}
	p.latest <- &rendering{}
	return p
}

// rendering is a rendered page. During the rendering, it is the http.ResponseWriter.
type rendering struct {
	version, until time.Time // a request that arrives earlier than until gets this page if the version is still the same

	status int
	header http.Header
	bytes  bytes.Buffer
	gzip   *gzip.Writer // writes to bytes
}

func (p *sharedPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := p.at(time.Now())
	maps.Copy(w.Header(), page.header)
	w.Header().Set("Vary", "Accept-Encoding")
	var text io.Reader = bytes.NewReader(page.bytes.Bytes())
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
	} else {
		text, _ = gzip.NewReader(text) // cannot fail: the method at has written the bytes
	}
	w.WriteHeader(page.status)
	_, _ = io.Copy(w, text) //nolint:gosec // at made the page, so its size is bounded; an error means that the client has gone
}

// If rendering a page takes longer than cheap, the page is reused for the rendering time multiplied by shows,
// so that a server does not spend all its time on rendering.
const (
	cheap = 50 * time.Millisecond
	shows = 3
)

// at returns the page for a request that arrived at the time given by asked. It renders a new page unless the
// latest page was finished after that time or may still be reused.
func (p *sharedPage) at(asked time.Time) *rendering {
	page := <-p.latest
	defer func() { p.latest <- page }()
	version := p.version()
	if asked.Before(page.until) && version.Equal(page.version) {
		return page
	}
	began := time.Now()
	page = &rendering{version: version, status: http.StatusOK, header: http.Header{}}
	page.gzip, _ = gzip.NewWriterLevel(&page.bytes, gzip.BestSpeed) // cannot fail: the level is valid
	p.handler.ServeHTTP(page, &http.Request{Method: http.MethodGet})
	_ = page.gzip.Close() // cannot fail: it writes to memory
	page.gzip = nil       // frees the writer, which is larger than most pages
	page.until = time.Now()
	if took := page.until.Sub(began); took > cheap {
		page.until = page.until.Add(shows * took)
	}
	return page
}

func (r *rendering) Header() http.Header         { return r.header }
func (r *rendering) WriteHeader(status int)      { r.status = status }
func (r *rendering) Write(p []byte) (int, error) { return r.gzip.Write(p) }
