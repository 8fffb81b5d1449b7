package envoyconfig

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcher "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"gopkg.in/yaml.v3"

	"weir/internal/limiter"
)

// rateLimit makes one descriptor of a request.
type rateLimit struct {
	node    node
	message *routepb.RateLimit
	own     bool // of a mapping, of a filter or of its configuration for a route
	made    bool // what follows is known, which it is once a route uses the limit
	usable  bool
	actions []action
	cluster node // the action that needs the cluster of the route
	result  Result
}

// rateLimits reads a list of rate limits, of which each is for the filters of its stage.
// filters is nil for a filter's own, which have no stage.
func (r *reader) rateLimits(list node, filters []filter) (limits []*rateLimit) {
	own := filters == nil
	if list.exists() && list.yaml.Kind != yaml.SequenceNode {
		r.problem(list, "a list of rate limits is needed")
	}
	for _, n := range list.items() {
		l := &rateLimit{node: n, message: new(routepb.RateLimit), own: own}
		if !n.exists() {
			r.problem(n, "a rate limit is needed")
			continue
		}
		if !r.message(n, l.message) {
			continue
		}
		switch stage := l.message.GetStage(); {
		case len(l.message.GetActions()) == 0:
			r.problem(n, "actions are needed")
			continue
		case own && (stage != nil || l.message.GetDisableKey() != ""):
			r.problem(n, "stage and disable_key are not allowed here, Envoy refuses them")
			continue
		case stage.GetValue() > 10:
			r.problem(n.get("stage"), "the stage is at most 10")
			continue
		case !own && !slices.ContainsFunc(filters, func(f filter) bool { return f.takes(l) }):
			r.note(n, "no rate limit filter has the stage %d, Envoy does not use this rate limit", stage.GetValue())
		}
		limits = append(limits, l)
	}
	return limits
}

// usable returns those of some limits that can be computed for a route to a cluster, "" if that is not known.
func (r *reader) usable(limits []*rateLimit, cluster string) (usable []*rateLimit) {
	for _, l := range limits {
		if !l.made {
			l.made, l.usable = true, r.make(l)
		}
		switch {
		case !l.usable:
		case cluster == "" && l.cluster.exists():
			r.leaveOut(l.cluster, "destination_cluster is chosen by Envoy, and the route names no cluster; the rate limit is left out")
		default:
			usable = append(usable, l)
		}
	}
	return usable
}

// make makes a rate limit, and reports whether it can be computed.
func (r *reader) make(l *rateLimit) (ok bool) {
	l.result.Place, l.result.OnStreamDone = r.problemAt(l.node).String(), l.message.GetApplyOnStreamDone()
	nodes := l.node.get("actions").items()
	ok = true
	for i, message := range l.message.GetActions() {
		a, err := r.action(nodes[i], message)
		if err != nil {
			r.cannot(nodes[i], err, "the rate limit is left out")
			ok = false
		}
		if message.GetDestinationCluster() != nil {
			l.cluster = nodes[i]
		}
		l.actions = append(l.actions, a)
	}
	hits, at := l.message.GetHitsAddend(), l.node.get("hits_addend")
	switch {
	case hits == nil:
	case !l.own:
		r.note(at, "Envoy does not use hits_addend here, only in the configuration of the filter or in typed_per_filter_config")
	case hits.GetFormat() != "":
		r.leaveOut(at, "the hits_addend %q is known after the request only; the rate limit is left out", hits.GetFormat())
		return false
	case hits.GetNumber() == nil:
		r.problem(at, "number or format is needed")
		return false
	default:
		l.result.HasHitsAddend, l.result.HitsAddend, l.result.Refund = true, hits.GetNumber().GetValue(), hits.GetIsNegativeHits()
	}
	if key := l.message.GetDisableKey(); ok && key != "" {
		r.note(l.node.get("disable_key"), "the runtime key ratelimit.%s.http_filter_enabled is not read, the rate limit is taken as enabled", key)
	}
	if ok && l.message.GetLimit() != nil {
		r.note(l.node.get("limit"), "the override of the limit is not shown, limits are those of the rules")
	}
	return ok
}

// action makes at most one entry of a request.
type action struct {
	key  string
	skip bool // without a value there is a descriptor all the same
	// value returns the value of the entry, and false if there is none.
	value func(t *Request) (string, bool)
}

// append appends the entry. It reports false if there shall be no descriptor.
func (a *action) append(entries []limiter.Entry, t *Request) ([]limiter.Entry, bool) {
	value, ok := a.value(t)
	if !ok {
		return entries, a.skip
	}
	return append(entries, limiter.Entry{Key: a.key, Value: value}), true
}

// action returns the action of a message.
func (r *reader) action(n node, a *routepb.RateLimit_Action) (action, error) {
	switch s := a.GetActionSpecifier().(type) {
	case *routepb.RateLimit_Action_RequestHeaders_:
		h := s.RequestHeaders
		if h.GetHeaderName() == "" || h.GetDescriptorKey() == "" {
			return action{}, errors.New("header_name and descriptor_key are needed")
		}
		name := r.lookAt(h.GetHeaderName())
		return action{h.GetDescriptorKey(), h.GetSkipIfAbsent(), func(t *Request) (string, bool) {
			value, there, _ := t.header(name, nil)
			return value, there
		}}, nil
	case *routepb.RateLimit_Action_QueryParameters_:
		name, key := s.QueryParameters.GetQueryParameterName(), s.QueryParameters.GetDescriptorKey()
		if name == "" || key == "" {
			return action{}, errors.New("query_parameter_name and descriptor_key are needed")
		}
		r.lookAt(":path")
		return action{key, s.QueryParameters.GetSkipIfAbsent(), func(t *Request) (string, bool) { return parameter(t.query, name, true) }}, nil
	case *routepb.RateLimit_Action_GenericKey_:
		if value := s.GenericKey.GetDescriptorValue(); strings.Contains(value, "%") {
			r.note(n, "%q is taken as it is, as Envoy does unless a runtime feature makes it a format", value)
		}
		return constant(s.GenericKey, "generic_key", func(*Request) bool { return true }, nil)
	case *routepb.RateLimit_Action_RemoteAddress_:
		return r.address("remote_address", func(ip netip.Addr, sent string) string {
			if ip.Is4() {
				return sent
			}
			return ip.String() // IPv6 may be spelled in several ways
		}), nil
	case *routepb.RateLimit_Action_MaskedRemoteAddress_:
		bits4, bits6 := orBits(s.MaskedRemoteAddress.GetV4PrefixMaskLen(), 32), orBits(s.MaskedRemoteAddress.GetV6PrefixMaskLen(), 128)
		if bits4 > 32 || bits6 > 128 {
			return action{}, errors.New("v4_prefix_mask_len is at most 32, v6_prefix_mask_len at most 128")
		}
		return r.address("masked_remote_address", func(ip netip.Addr, _ string) string {
			bits := bits4
			if ip.Is6() {
				bits = bits6
			}
			return netip.PrefixFrom(ip, int(bits)).Masked().String()
		}), nil
	case *routepb.RateLimit_Action_SourceCluster_:
		if r.sourceCluster == "" {
			return action{}, unusable("source_cluster is the --service-cluster of Envoy, which is not in the file")
		}
		return action{"source_cluster", false, func(*Request) (string, bool) { return r.sourceCluster, true }}, nil
	case *routepb.RateLimit_Action_DestinationCluster_:
		return action{"destination_cluster", false, func(t *Request) (string, bool) { return t.cluster, true }}, nil
	default:
		return r.matchAction(n, a)
	}
}

func orBits(bits *wrapperspb.UInt32Value, otherwise uint32) uint32 {
	if bits == nil {
		return otherwise
	}
	return bits.GetValue()
}

// address returns the action that makes an entry of the address of the client.
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

// matchAction returns the action of a message that tests a request.
func (r *reader) matchAction(n node, a *routepb.RateLimit_Action) (action, error) {
	switch s := a.GetActionSpecifier().(type) {
	case *routepb.RateLimit_Action_RemoteAddressMatch_:
		if value := s.RemoteAddressMatch.GetDescriptorValue(); strings.Contains(value, "%") {
			return action{}, unusable("the descriptor_value %q is a format of Envoy's access log, which is not computed here", value)
		}
		passes, err := r.addressCondition(s.RemoteAddressMatch.GetAddressMatcher())
		return constant(s.RemoteAddressMatch, "remote_address_match", passes, err)
	case *routepb.RateLimit_Action_HeaderValueMatch_:
		all, err := conditions("headers", s.HeaderValueMatch.GetHeaders(), r.headerCondition)
		if len(s.HeaderValueMatch.GetHeaders()) == 0 {
			err = errors.New("headers are needed")
		}
		return constant(s.HeaderValueMatch, "header_match", expect(all, s.HeaderValueMatch.GetExpectMatch()), err)
	case *routepb.RateLimit_Action_QueryParameterValueMatch_:
		r.lookAt(":path")
		all, err := conditions("query_parameters", s.QueryParameterValueMatch.GetQueryParameters(), parameterCondition(true))
		if len(s.QueryParameterValueMatch.GetQueryParameters()) == 0 {
			err = errors.New("query_parameters are needed")
		}
		return constant(s.QueryParameterValueMatch, "query_match", expect(all, s.QueryParameterValueMatch.GetExpectMatch()), err)
	case *routepb.RateLimit_Action_Metadata:
		return action{}, unusable("metadata is set by other filters of Envoy or by its configuration, no request shows it")
	case *routepb.RateLimit_Action_DynamicMetadata:
		return action{}, unusable("dynamic_metadata is set by other filters of Envoy, no request shows it")
	case *routepb.RateLimit_Action_Extension:
		return action{}, unusable("the extension %q (%s) is not known here", s.Extension.GetName(), typeName(n.get("extension").get("typed_config").get("@type")))
	default:
		return action{}, errors.New("the action is empty")
	}
}

// expect returns the condition that all conditions pass, or not if that is expected.
func expect(all []condition, match *wrapperspb.BoolValue) condition {
	want := match == nil || match.GetValue()
	return func(t *Request) bool { return passAll(all, t) == want }
}

// constant returns the action of a message with a key and a value, for requests that pass. err is what is wrong
// with the condition.
func constant(m interface {
	GetDescriptorKey() string
	GetDescriptorValue() string
}, key string, passes condition, err error,
) (action, error) {
	value := m.GetDescriptorValue()
	if value == "" {
		err = errors.New("descriptor_value is needed")
	}
	return action{cmp.Or(m.GetDescriptorKey(), key), false, func(t *Request) (string, bool) { return value, passes(t) }}, err
}

// addressCondition returns the condition that the address of the client is in a network, or in none if that is
// inverted. What is no address passes neither.
func (r *reader) addressCondition(m *matcher.AddressMatcher) (condition, error) {
	r.lookAt(RemoteAddress)
	var networks []netip.Prefix
	for _, cidr := range m.GetRanges() {
		ip, err := netip.ParseAddr(cidr.GetAddressPrefix())
		if err != nil {
			return nil, fmt.Errorf("the address_prefix %q is no IP address", cidr.GetAddressPrefix())
		}
		network, err := ip.Prefix(int(min(cidr.GetPrefixLen().GetValue(), 1000)))
		if err != nil {
			return nil, fmt.Errorf("the prefix_len of %q is too large", cidr.GetAddressPrefix())
		}
		networks = append(networks, network)
	}
	return func(t *Request) bool {
		ip, err := netip.ParseAddr(t.RemoteAddress)
		within := slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip.WithZone("")) })
		return err == nil && within != m.GetInvertMatch()
	}, nil
}
