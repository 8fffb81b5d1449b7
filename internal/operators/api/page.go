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

// sharedPage is a large page, such as the metrics, of which one may take a second and hundreds of
// megabytes to make. So it is made once for all who ask meanwhile, and what they read, as
// slowly as they like, are the same bytes, compressed.
type sharedPage struct {
	handler http.Handler
	version func() time.Time

	latest chan *rendering // holds it, unless the next is being made
}

// NewPage returns what handler shows, without a query. A page of another version is made again
// for all who ask.
func NewPage(handler http.Handler, version func() time.Time) http.Handler {
	p := &sharedPage{handler, version, make(chan *rendering, 1)}
	p.latest <- &rendering{}
	return p
}

// rendering is a page as it was at a time. It is the http.ResponseWriter that makes it, too.
type rendering struct {
	version, until time.Time // it is shown to who asks before until, if the version is the same

	status int
	header http.Header
	bytes  bytes.Buffer
	gzip   *gzip.Writer // to bytes
}

func (p *sharedPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := p.at(time.Now())
	maps.Copy(w.Header(), page.header)
	w.Header().Set("Vary", "Accept-Encoding")
	var text io.Reader = bytes.NewReader(page.bytes.Bytes())
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
	} else {
		text, _ = gzip.NewReader(text) // which was written here
	}
	w.WriteHeader(page.status)
	_, _ = io.Copy(w, text) //nolint:gosec // of what was written here; the client has gone if it fails
}

// A page that took longer than cheap to make is shown for so many times as long, so that not
// all time is spent on making the next.
const (
	cheap = 50 * time.Millisecond
	shows = 3
)

// at returns the page for who has asked at a time: the latest if it became ready since then,
// or is to be shown for longer, else a new one.
func (p *sharedPage) at(asked time.Time) *rendering {
	page := <-p.latest
	defer func() { p.latest <- page }()
	version := p.version()
	if asked.Before(page.until) && version.Equal(page.version) {
		return page
	}
	began := time.Now()
	page = &rendering{version: version, status: http.StatusOK, header: http.Header{}}
	page.gzip, _ = gzip.NewWriterLevel(&page.bytes, gzip.BestSpeed) // which is a level
	p.handler.ServeHTTP(page, &http.Request{Method: http.MethodGet})
	_ = page.gzip.Close() // a buffer takes all
	page.gzip = nil       // which takes more than most pages
	page.until = time.Now()
	if took := page.until.Sub(began); took > cheap {
		page.until = page.until.Add(shows * took)
	}
	return page
}

func (r *rendering) Header() http.Header         { return r.header }
func (r *rendering) WriteHeader(status int)      { r.status = status }
func (r *rendering) Write(p []byte) (int, error) { return r.gzip.Write(p) }
