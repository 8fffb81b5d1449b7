package envoyconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/internal/descriptors/spelling"
	"weir/internal/descriptors/strictyaml"
)

// reader reads one file.
type reader struct {
	strictyaml.Decoder
	notes         []Note
	noted         map[Note]bool
	messageValues int // how many more values messages may have
	sourceCluster string
	headers       map[string]bool
	needs         Needs
	perRoutes     map[perRouteKey]*perRoute
}

// problem reports something that is wrong at a value.
func (r *reader) problem(at node, format string, args ...any) {
	p := strictyaml.Problem{File: r.File, Message: fmt.Sprintf(format, args...)}
	if at.exists() {
		p.Line, p.Column, p.Path = at.yaml.Line, at.yaml.Column, at.path()
	}
	if len(r.Problems) <= maxProblems && !slices.Contains(r.Problems, p) {
		r.Problems = append(r.Problems, p)
	}
}

// place returns where a value is.
func (r *reader) place(at node) string {
	p := strictyaml.Problem{File: r.File}
	if at.exists() {
		p.Line, p.Column, p.Path = at.yaml.Line, at.yaml.Column, at.path()
	}
	return p.String()
}

// note notes something about a value, once.
func (r *reader) note(at node, format string, args ...any) {
	r.addNote(at, Note{Text: fmt.Sprintf(format, args...)})
}

// leaveOut notes that a rate limit is left out because of a value.
func (r *reader) leaveOut(at node, format string, args ...any) {
	r.addNote(at, Note{Text: fmt.Sprintf(format, args...), LeftOut: true})
}

func (r *reader) addNote(at node, n Note) {
	n.Place = r.place(at)
	if at.exists() {
		n.at = strictyaml.At(at.yaml)
	}
	if r.noted[n] {
		return
	}
	if r.noted == nil {
		r.noted = map[Note]bool{}
	}
	r.noted[n] = true
	r.notes = append(r.notes, n)
}

// checkFields notes the fields of a value that its message does not have.
func (r *reader) checkFields(n node, message protoreflect.Message) {
	fields := message.Descriptor().Fields()
	names, values := n.pairs()
	for i, name := range names {
		if fields.ByTextName(name) != nil || fields.ByJSONName(name) != nil || name == "@type" {
			continue
		}
		hint, known := "", []string{}
		for j := range fields.Len() {
			known = append(known, fields.Get(j).TextName())
		}
		if near := spelling.Nearest(name, known); near != "" {
			hint = fmt.Sprintf(", did you mean %s?", near)
		}
		r.note(values[i].orNull(n, name), "the field %q is not known here and not used%s", name, hint)
	}
}

// parsedLimit is a rate limit of the file. What it makes may depend on the route.
type parsedLimit struct {
	node    node
	message *routepb.RateLimit
	made    map[string]*rateLimit // by destination cluster, nil if left out
}

// rateLimits reads a list of rate limits, of which each is for the filters of its stage.
// filters is nil for the rate limits of a mapping, of a filter or of its configuration for a
// route, which have no stage.
func (r *reader) rateLimits(list node, filters []filter) (limits []*parsedLimit) {
	own := filters == nil
	if list.exists() && len(list.items()) == 0 && (list.isMapping() || list.text() != "") {
		r.problem(list, "a list of rate limits is needed")
	}
	for _, n := range list.items() {
		l := &parsedLimit{node: n, message: new(routepb.RateLimit), made: map[string]*rateLimit{}}
		if !n.exists() {
			r.problem(n.orNull(list, ""), "a rate limit is needed")
			continue
		}
		if !r.message(n, l.message) {
			continue
		}
		switch {
		case len(l.message.GetActions()) == 0:
			r.problem(n, "actions are needed")
			continue
		case own && (l.message.GetStage() != nil || l.message.GetDisableKey() != ""):
			r.problem(n, "stage and disable_key are not allowed here, Envoy refuses them")
			continue
		case l.message.GetStage().GetValue() > 10:
			r.problem(n.get("stage"), "the stage is at most 10")
			continue
		case !own && !slices.ContainsFunc(filters, func(f filter) bool { return f.takes(l.message) }):
			r.note(n, "no rate limit filter has the stage %d, Envoy does not use this rate limit", l.message.GetStage().GetValue())
		}
		limits = append(limits, l)
	}
	return limits
}

// make returns what a rate limit makes of requests to a cluster, "" if that is not known;
// nil if it is left out.
func (r *reader) make(l *parsedLimit, cluster string, own bool) *rateLimit {
	if made, ok := l.made[cluster]; ok {
		return made
	}
	l.made[cluster] = nil
	limit := &rateLimit{place: r.place(l.node), onStreamDone: l.message.GetApplyOnStreamDone()}
	left := false
	actions := l.node.get("actions").items()
	for i, message := range l.message.GetActions() {
		made, err := newAction(message, around{r.sourceCluster, cluster})
		var cannot errUnusable
		switch {
		case errors.As(err, &cannot):
			r.leaveOut(actions[i], "%v; the rate limit is left out", err)
			left = true
		case err != nil:
			r.problem(actions[i], "%v", err)
			left = true
		}
		if e, ok := made.(entry); ok && strings.Contains(e.Value, "%") {
			r.note(actions[i], "%q is taken as it is, as Envoy does unless a runtime feature makes it a format", e.Value)
		}
		limit.actions = append(limit.actions, made)
		r.look(made)
	}
	if !r.hits(l, limit, own) || left {
		return nil
	}
	if key := l.message.GetDisableKey(); key != "" {
		r.note(l.node.get("disable_key"), "the runtime key ratelimit.%s.http_filter_enabled is not read, the rate limit is taken as enabled", key)
	}
	if l.message.GetLimit() != nil {
		r.note(l.node.get("limit"), "the override of the limit is not shown, limits are those of the rules")
	}
	l.made[cluster] = limit
	return limit
}

// hits reads the hits_addend of a rate limit, and reports whether its number is known.
func (r *reader) hits(l *parsedLimit, limit *rateLimit, own bool) bool {
	hits, at := l.message.GetHitsAddend(), l.node.get("hits_addend")
	switch {
	case hits == nil:
	case !own:
		r.note(at, "Envoy does not use hits_addend here, only in the configuration of the filter or in typed_per_filter_config")
	case hits.GetFormat() != "":
		r.leaveOut(at, "the hits_addend %q is known after the request only; the rate limit is left out", hits.GetFormat())
		return false
	case hits.GetNumber() == nil:
		r.problem(at, "number or format is needed")
		return false
	default:
		limit.hasHits, limit.hits, limit.negative = true, hits.GetNumber().GetValue(), hits.GetIsNegativeHits()
	}
	return true
}

// look notes which headers and parts of a request an action looks at.
func (r *reader) look(a action) {
	switch a := a.(type) {
	case headerEntry:
		r.lookAt(a.name)
	case headerMatch:
		for _, h := range a.tests {
			r.lookAt(h.name)
		}
	case queryEntry, queryMatch:
		r.needs.Query = true
	case addressEntry, maskedEntry, addressMatch:
		r.needs.RemoteAddress = true
	}
}

func (r *reader) lookAt(name header) {
	switch name {
	case ":method":
		r.needs.Method = true
	case ":path":
		r.needs.Path, r.needs.Query = true, true
	case ":authority":
		r.needs.Authority = true
	case ":scheme":
		r.needs.Scheme = true
	default:
		if r.headers == nil {
			r.headers = map[string]bool{}
		}
		r.headers[string(name)] = true
	}
}

// lookMatch notes what the match of a route looks at.
func (r *reader) lookMatch(m *routeMatch) {
	r.needs.Path = r.needs.Path || m.path != nil
	r.needs.Query = r.needs.Query || len(m.parameters) > 0
	r.needs.Method = r.needs.Method || m.connect
	r.needs.Route = r.needs.Route || m.name != ""
	if m.grpc {
		r.lookAt("content-type")
	}
	if len(m.cookies) > 0 {
		r.lookAt("cookie")
	}
	for _, h := range m.headers {
		r.lookAt(h.name)
	}
}

// config returns what was read, without its virtual hosts.
func (r *reader) config() *Config {
	slices.SortStableFunc(r.notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
	return &Config{notes: r.notes, headers: slices.Sorted(maps.Keys(r.headers)), needs: r.needs}
}
