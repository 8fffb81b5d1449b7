package envoyconfig

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcher "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"gopkg.in/yaml.v3"
)

// rateLimit makes at most one descriptor for a request.
type rateLimit struct {
	*node
	message routepb.RateLimit
	own     bool        // whether the limit belongs to a mapping, a filter or a filter's configuration in a route
	usable  func() bool // calls make when a route first uses the limit; make sets the fields below
	actions []action
	cluster *node // the action that needs the cluster of the route, or nil
	result  Result
}

// rateLimits reads a list of rate limits. A limit applies to the filters that have its stage. If filters
// is nil, the limits belong to a mapping or to one filter, and have no stage.
func (r *reader) rateLimits(list *node, filters []filter) (limits []*rateLimit) {
	if list != nil && list.yaml.Kind != yaml.SequenceNode {
		r.problem(list, "a list is required")
	}
	for _, n := range list.items() {
		l := r.limits[n]
		if l == nil {
			l = &rateLimit{node: n, own: filters == nil}
			l.usable = sync.OnceValue(func() bool { return r.make(l) })
			r.limits[n] = l
			r.check(l, filters)
		}
		limits = append(limits, l)
	}
	return limits
}

// check reads the message of a rate limit and reports problems in it.
func (r *reader) check(l *rateLimit, filters []filter) {
	for _, n := range l.get("actions").items() { // each action first, for exact locations of problems
		if !r.message(n, new(routepb.RateLimit_Action)) {
			return
		}
	}
	if !r.message(l.node, &l.message) {
		return
	}
	switch stage := l.message.GetStage(); {
	case l.own && (stage != nil || l.message.GetDisableKey() != ""):
		r.problem(l.node, "stage and disable_key are not allowed here, Envoy rejects them")
	case !l.own && !slices.ContainsFunc(filters, func(f filter) bool { return f.takes(l) }):
		r.note(l.node, "no rate limit filter has the stage %d, Envoy ignores this rate limit", stage.GetValue())
	}
}

// usable returns the limits whose descriptors can be computed for a route to cluster, which is "" if unknown.
func (r *reader) usable(limits []*rateLimit, cluster string) (usable []*rateLimit) {
	for _, l := range limits {
		switch {
		case !l.usable():
		case cluster == "" && l.cluster != nil:
			r.note(l.cluster, "Envoy chooses destination_cluster, and the route names no cluster; this rate limit is skipped")
		default:
			usable = append(usable, l)
		}
	}
	return usable
}

// make sets the actions and the result of a rate limit, and reports whether its descriptor can be computed.
func (r *reader) make(l *rateLimit) (ok bool) {
	m := &l.message
	l.result.Location, l.result.OnStreamDone = r.location(l.node).String(), m.GetApplyOnStreamDone()
	ok = true
	for i, of := range m.GetActions() {
		n := l.get("actions").children[i]
		a, err := r.action(of, n)
		if err != nil {
			r.cannot(n, err, "this rate limit is skipped")
			ok = false
		}
		if of.GetDestinationCluster() != nil {
			l.cluster = n
		}
		l.actions = append(l.actions, a)
	}
	hits, at := m.GetHitsAddend(), l.get("hits_addend")
	switch {
	case hits == nil:
	case !l.own:
		r.note(at, "Envoy ignores hits_addend here, it is used only in the configuration of the filter or in typed_per_filter_config")
	case hits.GetFormat() != "":
		r.note(at, "the hits_addend %q is known only after the request; this rate limit is skipped", hits.GetFormat())
		return false
	case hits.GetNumber() == nil:
		r.problem(at, "number or format is required")
	default:
		l.result.HasHitsAddend, l.result.HitsAddend, l.result.Refund = true, hits.GetNumber().GetValue(), hits.GetIsNegativeHits()
	}
	if key := m.GetDisableKey(); key != "" {
		r.note(l.node, "the runtime key ratelimit.%s.http_filter_enabled is ignored, this rate limit counts as enabled", key)
	}
	if limit := l.get("limit"); limit != nil {
		r.note(limit, "the limit that the request sends is not shown, limits are those of the rules")
	}
	return ok
}

// action adds at most one entry to a descriptor.
type action struct {
	key  string
	skip bool // whether a missing value skips only the entry instead of the descriptor
	// value returns the value of the entry, and whether the request has it.
	value func(t *Request) (string, bool)
}

// action returns the action for a message. n is the node of the message in the file.
func (r *reader) action(a *routepb.RateLimit_Action, n *node) (action, error) {
	switch s := a.GetActionSpecifier().(type) {
	case *routepb.RateLimit_Action_RequestHeaders_:
		h := s.RequestHeaders
		name := r.lookAt(h.GetHeaderName())
		return action{h.GetDescriptorKey(), h.GetSkipIfAbsent(), func(t *Request) (string, bool) {
			value, there, _ := t.header(name, nil)
			return value, there
		}}, nil
	case *routepb.RateLimit_Action_QueryParameters_:
		q := s.QueryParameters
		r.lookAt(":path")
		return action{q.GetDescriptorKey(), q.GetSkipIfAbsent(), func(t *Request) (string, bool) { return parameter(t.query, q.GetQueryParameterName(), true) }}, nil
	case *routepb.RateLimit_Action_GenericKey_:
		if value := s.GenericKey.GetDescriptorValue(); strings.Contains(value, "%") {
			r.note(n, "%q is used literally, as Envoy does unless a runtime feature makes it a format", value)
		}
		return constant(s.GenericKey, "generic_key", func(*Request) bool { return true }), nil
	case *routepb.RateLimit_Action_RemoteAddress_:
		return r.address("remote_address", unmasked), nil
	case *routepb.RateLimit_Action_MaskedRemoteAddress_:
		return r.address("masked_remote_address", func(ip netip.Addr, _ string) string {
			bits, own := ip.BitLen(), s.MaskedRemoteAddress.GetV4PrefixMaskLen()
			if ip.Is6() {
				own = s.MaskedRemoteAddress.GetV6PrefixMaskLen()
			}
			if own != nil {
				bits = int(own.GetValue())
			}
			return netip.PrefixFrom(ip, bits).Masked().String()
		}), nil
	case *routepb.RateLimit_Action_SourceCluster_:
		if r.sourceCluster == "" {
			return action{}, unusable("source_cluster is Envoy's --service-cluster, which is not in the file")
		}
		return action{"source_cluster", false, func(*Request) (string, bool) { return r.sourceCluster, true }}, nil
	case *routepb.RateLimit_Action_DestinationCluster_:
		return action{"destination_cluster", false, func(t *Request) (string, bool) { return t.cluster, true }}, nil
	case *routepb.RateLimit_Action_RemoteAddressMatch_:
		passes, err := r.addressCondition(s.RemoteAddressMatch.GetAddressMatcher())
		match := constant(s.RemoteAddressMatch, "remote_address_match", passes)
		switch value := s.RemoteAddressMatch.GetDescriptorValue(); {
		case value == "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%": // as Envoy Gateway writes it
			client := r.address("", unmasked).value
			match.value = func(t *Request) (string, bool) {
				text, ok := client(t)
				return text, ok && passes(t)
			}
		case strings.Contains(value, "%"):
			return action{}, unusable("the descriptor_value %q is a format of Envoy's access log, which is not supported", value)
		}
		return match, err
	case *routepb.RateLimit_Action_HeaderValueMatch_:
		all, err := conditions(s.HeaderValueMatch.GetHeaders(), r.headerCondition)
		return constant(s.HeaderValueMatch, "header_match", expect(all, s.HeaderValueMatch.GetExpectMatch())), err
	case *routepb.RateLimit_Action_QueryParameterValueMatch_:
		all, err := conditions(s.QueryParameterValueMatch.GetQueryParameters(), r.parameterCondition(true))
		return constant(s.QueryParameterValueMatch, "query_match", expect(all, s.QueryParameterValueMatch.GetExpectMatch())), err
	default: // actions on metadata, and extensions
		return action{}, unusable("the action %s is not supported", n.children[0].field)
	}
}

// unmasked returns the value that Envoy sends for the address ip. sent is the spelling of ip in the request.
func unmasked(ip netip.Addr, sent string) string {
	if ip.Is4() {
		return sent
	}
	return ip.String() // an IPv6 address has several spellings
}

// address returns an action that adds an entry with the client address, if the address is valid.
func (r *reader) address(key string, text func(ip netip.Addr, sent string) string) action {
	r.lookAt(RemoteAddress)
	return action{key, false, func(t *Request) (string, bool) {
		ip, err := netip.ParseAddr(t.RemoteAddress)
		if err != nil {
			return "", false
		}
		return text(ip, t.RemoteAddress), true
	}}
}

// expect returns a condition that passes if all the given conditions pass or, if match is false, if any of them fails.
func expect(all []condition, match *wrapperspb.BoolValue) condition {
	want := match == nil || match.GetValue()
	return func(t *Request) bool { return passAll(all, t) == want }
}

// constant returns an action with m's key and value. If m has no key, the action has the parameter key. The action
// has a value only for requests that pass the condition.
func constant(m interface {
	GetDescriptorKey() string
	GetDescriptorValue() string
}, key string, passes condition) action {
	return action{cmp.Or(m.GetDescriptorKey(), key), false, func(t *Request) (string, bool) { return m.GetDescriptorValue(), passes(t) }}
}

// addressCondition returns the condition that the client address is in one of the networks of m or, if m is
// inverted, in none of them. A request without a valid address does not pass in either case.
func (r *reader) addressCondition(m *matcher.AddressMatcher) (condition, error) {
	r.lookAt(RemoteAddress)
	var networks []netip.Prefix
	for _, cidr := range m.GetRanges() {
		network, err := netip.ParsePrefix(fmt.Sprintf("%s/%d", cidr.GetAddressPrefix(), cidr.GetPrefixLen().GetValue()))
		if err != nil {
			return nil, err
		}
		networks = append(networks, network)
	}
	return func(t *Request) bool {
		ip, err := netip.ParseAddr(t.RemoteAddress)
		within := slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip.WithZone("")) })
		return err == nil && within != m.GetInvertMatch()
	}, nil
}
