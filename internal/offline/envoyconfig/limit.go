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

	"weir/internal/limiter"
)

// rateLimit makes one descriptor of a request.
type rateLimit struct {
	message *routepb.RateLimit
	own     bool // of a mapping, of a filter or of its configuration for a route
	made    bool // what follows is known, which it is once a route uses the limit
	usable  bool
	actions []action
	cluster *node // the action that needs the cluster of the route
	result  Result
}

// rateLimits checks a list of rate limits, of which each is for the filters of its stage.
// filters is nil for a filter's own, which have no stage.
func (r *reader) rateLimits(list []*routepb.RateLimit, filters []filter) (limits []*rateLimit) {
	for _, m := range list {
		l := r.limits[m]
		if l == nil {
			l = &rateLimit{message: m, own: filters == nil}
			r.limits[m] = l
			switch stage := m.GetStage(); {
			case len(m.GetActions()) == 0:
				r.problem(r.at[m], "actions are needed")
			case l.own && (stage != nil || m.GetDisableKey() != ""):
				r.problem(r.at[m], "stage and disable_key are not allowed here, Envoy rejects them")
			case stage.GetValue() > 10:
				r.problem(r.at[stage], "the stage is at most 10")
			case !l.own && !slices.ContainsFunc(filters, func(f filter) bool { return f.takes(m) }):
				r.note(r.at[m], "no rate limit filter has the stage %d, Envoy ignores this rate limit", stage.GetValue())
			}
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
		case cluster == "" && l.cluster != nil:
			r.note(l.cluster, "Envoy chooses destination_cluster, and the route names no cluster; this rate limit is skipped")
		default:
			usable = append(usable, l)
		}
	}
	return usable
}

// make makes a rate limit, and reports whether it can be computed.
func (r *reader) make(l *rateLimit) (ok bool) {
	m := l.message
	l.result.Place, l.result.OnStreamDone = r.place(r.at[m]).String(), m.GetApplyOnStreamDone()
	ok = true
	for _, of := range m.GetActions() {
		a, err := r.action(of)
		if err != nil {
			r.cannot(r.at[of], err, "this rate limit is skipped")
			ok = false
		}
		if of.GetDestinationCluster() != nil {
			l.cluster = r.at[of]
		}
		l.actions = append(l.actions, a)
	}
	hits := m.GetHitsAddend()
	switch {
	case hits == nil:
	case !l.own:
		r.note(r.at[hits], "Envoy ignores hits_addend here, it is used only in the configuration of the filter or in typed_per_filter_config")
	case hits.GetFormat() != "":
		r.note(r.at[hits], "the hits_addend %q is known only after the request; this rate limit is skipped", hits.GetFormat())
		return false
	case hits.GetNumber() == nil:
		r.problem(r.at[hits], "number or format is needed")
		return false
	default:
		l.result.HasHitsAddend, l.result.HitsAddend, l.result.Refund = true, hits.GetNumber().GetValue(), hits.GetIsNegativeHits()
	}
	if key := m.GetDisableKey(); key != "" {
		r.note(r.at[m], "the runtime key ratelimit.%s.http_filter_enabled is ignored, this rate limit counts as enabled", key)
	}
	if limit := m.GetLimit(); limit != nil {
		r.note(r.at[limit], "the limit that the request sends is not shown, limits are those of the rules")
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
func (r *reader) action(a *routepb.RateLimit_Action) (action, error) {
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
			r.note(r.at[a], "%q is used literally, as Envoy does unless a runtime feature makes it a format", value)
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
			return action{}, unusable("source_cluster is Envoy's --service-cluster, which is not in the file")
		}
		return action{"source_cluster", false, func(*Request) (string, bool) { return r.sourceCluster, true }}, nil
	case *routepb.RateLimit_Action_DestinationCluster_:
		return action{"destination_cluster", false, func(t *Request) (string, bool) { return t.cluster, true }}, nil
	default:
		return r.matchAction(a)
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
func (r *reader) matchAction(a *routepb.RateLimit_Action) (action, error) {
	switch s := a.GetActionSpecifier().(type) {
	case *routepb.RateLimit_Action_RemoteAddressMatch_:
		if value := s.RemoteAddressMatch.GetDescriptorValue(); strings.Contains(value, "%") {
			return action{}, unusable("the descriptor_value %q is a format of Envoy's access log, which is not supported", value)
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
		return action{}, unusable("metadata is not part of a request")
	case *routepb.RateLimit_Action_DynamicMetadata:
		return action{}, unusable("dynamic_metadata is not part of a request")
	case *routepb.RateLimit_Action_Extension:
		return action{}, unusable("the extension %q (%s) is not supported", s.Extension.GetName(), r.typeOf(s.Extension.GetTypedConfig()))
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
			return nil, fmt.Errorf("the address_prefix %q is not an IP address", cidr.GetAddressPrefix())
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
