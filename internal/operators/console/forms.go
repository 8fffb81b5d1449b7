package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/internal/limiter"
	"weir/internal/offline/explain"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/plan"
)

// shown is a descriptor as forms and links have it: as the text of commands, which can hold any
// bytes. It is a link if it lacks nothing.
type shown struct {
	Domain, Text string
	Lacks        string // as operators.Excerpt says it
	Digest       string // of a descriptor that is cut
}

func spell(domain string, entries []limiter.Entry) shown {
	return shown{Domain: explain.FormatDomain(domain), Text: explain.FormatDescriptor(entries)}
}

// read returns the descriptor of a form, or what is wrong with it.
func read(form url.Values) (domain string, entries []limiter.Entry, err error) {
	domain, text := strings.TrimSpace(form.Get("domain")), strings.TrimSpace(form.Get("descriptor"))
	if domain == "" || text == "" {
		return "", nil, errors.New("a domain and a descriptor are required")
	}
	if domain, err = explain.ParseDomain(domain); err != nil {
		return "", nil, fmt.Errorf("domain: %w", err)
	}
	if entries, err = explain.ParseDescriptor(text); err != nil {
		return "", nil, fmt.Errorf("descriptor: %w", err)
	}
	return domain, entries, nil
}

// exception returns what a form asks for, or what is wrong with it.
func exception(form url.Values) (e operators.NewException, err error) {
	domain, entries, err := read(form)
	if err != nil {
		return e, err
	}
	e.Descriptor, e.Effect = operators.NewDescriptor(domain, entries), plan.Effect(form.Get("effect"))
	e.By, e.Reason = strings.TrimSpace(form.Get("by")), strings.TrimSpace(form.Get("reason"))
	if e.Effect == plan.Amount {
		if e.Factor, err = strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(form.Get("factor")), "x"), 64); err != nil {
			return e, fmt.Errorf("times: %q is not a number", form.Get("factor"))
		}
	}
	lasts, err := time.ParseDuration(strings.TrimSpace(form.Get("for")))
	if err != nil {
		return e, fmt.Errorf("for: %q is not a duration such as 30m, 2h or 24h", form.Get("for"))
	}
	e.For = lasts.Seconds()
	return e, nil
}

// addException, removeException and reset do what forms ask for. They return the query of the
// page that says so.
func (c *console) addException(r *http.Request) (url.Values, error) {
	e, err := exception(r.PostForm)
	if err != nil {
		return nil, err
	}
	added, err := c.AddException(r.Context(), e, api.VisitorOf(r).Peer)
	if added.Note != "" {
		return url.Values{"done": {"noDomain"}}, err
	}
	return url.Values{"done": {"added"}}, err
}

// byConsole names who changes something where no form asks for a name: the audit log has
// the peer, too.
const byConsole = "console"

func (c *console) removeException(r *http.Request) (url.Values, error) {
	err := c.InForce.Remove(r.Context(), r.PostFormValue("id"), byConsole, api.VisitorOf(r).Peer)
	return url.Values{"done": {"removed"}}, err
}

func (c *console) reset(r *http.Request) (url.Values, error) {
	domain, entries, err := read(r.PostForm)
	if err == nil {
		_, err = c.Reset(r.Context(), operators.NewDescriptor(domain, entries), byConsole, api.VisitorOf(r).Peer)
	}
	return url.Values{"done": {"reset"}, "domain": r.PostForm["domain"], "descriptor": r.PostForm["descriptor"]}, err
}
