package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/internal/operators"
	"weir/internal/operators/api"
)

// outcomes are what forms have done, by the word that the next page has in its address.
var outcomes = map[string]string{
	"added":    "The exception is added. It applies on all servers within a second.",
	"noDomain": "The exception is added, but its domain has no rules.",
	"removed":  "The exception is removed.",
	"reset":    "The counters are set to zero.",
}

// exceptionForm is the form that adds an exception, as it was filled in.
type exceptionForm struct {
	asked
	Effect, Factor, For, Reason, By string
}

func fillIn(form url.Values) exceptionForm {
	return exceptionForm{
		asked: ask(form), Effect: cmp.Or(form.Get("effect"), operators.Allow), Factor: cmp.Or(form.Get("factor"), "10"),
		For: cmp.Or(form.Get("for"), "2h"), Reason: form.Get("reason"), By: form.Get("by"),
	}
}

// exception returns what the form asks for, or what is wrong with it.
func (f exceptionForm) exception() (e operators.NewException, err error) {
	e.Effect, e.By, e.Reason = f.Effect, strings.TrimSpace(f.By), strings.TrimSpace(f.Reason)
	domain, entries, err := f.parse()
	if err != nil {
		return e, err
	}
	e.Descriptor = operators.NewDescriptor(domain, entries)
	if e.Effect == operators.Amount {
		if e.Factor, err = strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(f.Factor), "x"), 64); err != nil {
			return e, fmt.Errorf("times: %q is not a number", f.Factor)
		}
	}
	lasts, err := time.ParseDuration(strings.TrimSpace(f.For))
	if err != nil {
		return e, fmt.Errorf("for: %q is not a duration such as 30m, 2h or 24h", f.For)
	}
	e.For = lasts.Seconds()
	return e, nil
}

func (c *Console) addException(w http.ResponseWriter, r *http.Request) {
	form := fillIn(r.PostForm)
	e, err := form.exception()
	var added operators.Exception
	if err == nil {
		added, err = c.AddException(r.Context(), e, api.VisitorOf(r).Peer)
	}
	if err != nil {
		c.showExceptions(w, r, form, err)
		return
	}
	done := "added"
	if added.Note != "" {
		done = "noDomain"
	}
	http.Redirect(w, r, "/console/exceptions?done="+done, http.StatusSeeOther)
}

func (c *Console) removeException(w http.ResponseWriter, r *http.Request) {
	if err := c.InForce.Remove(r.Context(), r.PostForm.Get("id"), byConsole, api.VisitorOf(r).Peer); err != nil {
		c.showExceptions(w, r, fillIn(url.Values{}), err)
		return
	}
	http.Redirect(w, r, "/console/exceptions?done=removed", http.StatusSeeOther)
}

// byConsole names who changes something where no form asks for a name: the audit log has
// the peer, too.
const byConsole = "console"

func (c *Console) reset(w http.ResponseWriter, r *http.Request) {
	form := ask(r.PostForm)
	domain, entries, err := form.parse()
	if err == nil {
		_, err = c.Reset(r.Context(), operators.NewDescriptor(domain, entries), byConsole, api.VisitorOf(r).Peer)
	}
	if err != nil {
		c.showExplain(w, r, form, err)
		return
	}
	query := url.Values{"done": {"reset"}, "domain": {form.Domain}, "descriptor": {form.Text}}
	http.Redirect(w, r, "/console/explain?"+query.Encode(), http.StatusSeeOther)
}
