package console

import (
	"net/http"
	"net/url"
	"slices"

	"weir/internal/operators"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

const (
	maxDomains = 500 // in a list; with more, users type the domain
	maxRecent  = 100 // keys that are suggested for a search
)

// search is the data of the form that opens the page of a descriptor.
type search struct {
	Domains            []string // domains of the rules, or none if there are too many
	Domain, Descriptor string
	Recent             []shown // keys denied in the last hour, the newest first
}

func (c *console) search(r *http.Request) search {
	s := search{Domain: r.Form.Get("domain"), Descriptor: r.Form.Get("descriptor")}
	if tree := c.Tree(); tree != nil && tree.Domains() <= maxDomains {
		for _, name := range tree.DomainNames() {
			s.Domains = append(s.Domains, explain.FormatDomain(name))
		}
		if s.Domain != "" && len(s.Domains) > 0 && !slices.Contains(s.Domains, s.Domain) {
			s.Domains = append(s.Domains, s.Domain)
		}
	}
	denials, _ := c.Denials(r.Context(), false) // cannot fail: it asks no other server
	for _, l := range denials.Last {
		if key := kept(l.Domain, l.Descriptor); key.Lacks == "" && !slices.Contains(s.Recent, key) && len(s.Recent) < maxRecent {
			s.Recent = append(s.Recent, key)
		}
	}
	return s
}

// descriptorPage is the data of the page of a descriptor.
type descriptorPage struct {
	Form    url.Values
	Asked   bool // the form has a valid descriptor
	Problem error
	operators.Counters
}

// descriptor returns the counters and the denials of the descriptor in a form. It fails if the form
// or the descriptor is invalid.
func (c *console) descriptor(r *http.Request) (any, error) {
	page := descriptorPage{Form: r.Form}
	if r.Form.Get("descriptor") == "" {
		return page, nil
	}
	domain, entries, err := read(r.Form)
	if err != nil {
		return page, err
	}
	page.Counters, err = c.Look(r.Context(), plan.NewJSONDescriptor(domain, entries), true)
	if page.Asked = page.Levels != nil; page.Asked {
		page.Problem, err = err, nil // a failure of the store or of the other servers
	}
	return page, err
}
