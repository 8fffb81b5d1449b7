package envoyconfig

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"weir/internal/limiter"
)

// action appends what it makes of a request, at most one entry. It reports false if there
// shall be no descriptor.
type action interface {
	append(entries []limiter.Entry, t *Request) ([]limiter.Entry, bool)
}

// errUnusable is why an action or the match of a route cannot be computed here.
type errUnusable struct{ error }

func unusable(format string, args ...any) error { return errUnusable{fmt.Errorf(format, args...)} }

// around is what an action may take from what is around it.
type around struct {
	sourceCluster      string // "" if not known
	destinationCluster string // "" if not known
}

// newAction returns the action of a message. The error is errUnusable
// if the action is right and cannot be computed.
func newAction(a *routepb.RateLimit_Action, from around) (action, error) {
	switch s := a.GetActionSpecifier().(type) {
	case *routepb.RateLimit_Action_RequestHeaders_:
		h := s.RequestHeaders
		if h.GetHeaderName() == "" || h.GetDescriptorKey() == "" {
			return nil, errors.New("header_name and descriptor_key are needed")
		}
		return headerEntry{headerNamed(h.GetHeaderName()), h.GetDescriptorKey(), h.GetSkipIfAbsent()}, nil
	case *routepb.RateLimit_Action_QueryParameters_:
		q := s.QueryParameters
		if q.GetQueryParameterName() == "" || q.GetDescriptorKey() == "" {
			return nil, errors.New("query_parameter_name and descriptor_key are needed")
		}
		return queryEntry{q.GetQueryParameterName(), q.GetDescriptorKey(), q.GetSkipIfAbsent()}, nil
	case *routepb.RateLimit_Action_GenericKey_:
		return constant(s.GenericKey.GetDescriptorKey(), "generic_key", s.GenericKey.GetDescriptorValue())
	case *routepb.RateLimit_Action_RemoteAddress_:
		return addressEntry{}, nil
	case *routepb.RateLimit_Action_MaskedRemoteAddress_:
		return newMaskedEntry(s.MaskedRemoteAddress)
	case *routepb.RateLimit_Action_RemoteAddressMatch_:
		return newAddressMatch(s.RemoteAddressMatch)
	case *routepb.RateLimit_Action_HeaderValueMatch_:
		return newHeaderMatch(s.HeaderValueMatch)
	case *routepb.RateLimit_Action_QueryParameterValueMatch_:
		return newQueryMatch(s.QueryParameterValueMatch)
	case *routepb.RateLimit_Action_SourceCluster_:
		if from.sourceCluster == "" {
			return nil, unusable("source_cluster is the --service-cluster of Envoy, which is not in the file")
		}
		return entry{"source_cluster", from.sourceCluster}, nil
	case *routepb.RateLimit_Action_DestinationCluster_:
		if from.destinationCluster == "" {
			return nil, unusable("destination_cluster is chosen by Envoy, and the route names no cluster")
		}
		return entry{"destination_cluster", from.destinationCluster}, nil
	case *routepb.RateLimit_Action_Metadata:
		return nil, unusable("metadata is set by other filters of Envoy or by its configuration, no request shows it")
	case *routepb.RateLimit_Action_DynamicMetadata:
		return nil, unusable("dynamic_metadata is set by other filters of Envoy, no request shows it")
	case *routepb.RateLimit_Action_Extension:
		_, name, _ := strings.Cut(s.Extension.GetTypedConfig().GetTypeUrl(), "/")
		return nil, unusable("the extension %q (%s) is not known here", s.Extension.GetName(), name)
	default:
		return nil, errors.New("the action is empty")
	}
}

// entry is an entry that is always the same.
type entry limiter.Entry

func (e entry) append(entries []limiter.Entry, _ *Request) ([]limiter.Entry, bool) {
	return append(entries, limiter.Entry(e)), true
}

// constant returns an entry, whose value Envoy takes as it is.
func constant(key, otherwise, value string) (entry, error) {
	if value == "" {
		return entry{}, errors.New("descriptor_value is needed")
	}
	if key == "" {
		key = otherwise
	}
	return entry{key, value}, nil
}

// headerEntry is request_headers.
type headerEntry struct {
	name header
	key  string
	skip bool
}

func (h headerEntry) append(entries []limiter.Entry, t *Request) ([]limiter.Entry, bool) {
	value, ok := h.name.first(t)
	if !ok {
		return entries, h.skip
	}
	return append(entries, limiter.Entry{Key: h.key, Value: value}), true
}

// queryEntry is query_parameters.
type queryEntry struct {
	name, key string
	skip      bool
}

func (q queryEntry) append(entries []limiter.Entry, t *Request) ([]limiter.Entry, bool) {
	value, ok := parameter(t.query, q.name, true)
	if !ok {
		return entries, q.skip
	}
	return append(entries, limiter.Entry{Key: q.key, Value: value}), true
}

// addressEntry is remote_address.
type addressEntry struct{}

func (addressEntry) append(entries []limiter.Entry, t *Request) ([]limiter.Entry, bool) {
	ip, err := netip.ParseAddr(t.RemoteAddress)
	if err != nil {
		return entries, false
	}
	value := t.RemoteAddress
	if ip.Is6() { // which may be spelled in several ways
		value = ip.String()
	}
	return append(entries, limiter.Entry{Key: "remote_address", Value: value}), true
}

// maskedEntry is masked_remote_address.
type maskedEntry struct{ v4, v6 int }

func newMaskedEntry(m *routepb.RateLimit_Action_MaskedRemoteAddress) (action, error) {
	masked := maskedEntry{32, 128}
	if v4 := m.GetV4PrefixMaskLen(); v4 != nil {
		masked.v4 = int(v4.GetValue())
	}
	if v6 := m.GetV6PrefixMaskLen(); v6 != nil {
		masked.v6 = int(v6.GetValue())
	}
	if masked.v4 > 32 || masked.v6 > 128 {
		return nil, errors.New("v4_prefix_mask_len is at most 32, v6_prefix_mask_len at most 128")
	}
	return masked, nil
}

func (m maskedEntry) append(entries []limiter.Entry, t *Request) ([]limiter.Entry, bool) {
	ip, err := netip.ParseAddr(t.RemoteAddress)
	if err != nil {
		return entries, false
	}
	bits := m.v4
	if ip.Is6() {
		bits = m.v6
	}
	prefix, err := ip.WithZone("").Prefix(bits)
	if err != nil {
		return entries, false
	}
	return append(entries, limiter.Entry{Key: "masked_remote_address", Value: prefix.String()}), true
}

// addressMatch is remote_address_match.
type addressMatch struct {
	entry    entry
	networks []netip.Prefix
	invert   bool
}

func newAddressMatch(m *routepb.RateLimit_Action_RemoteAddressMatch) (action, error) {
	e, err := constant(m.GetDescriptorKey(), "remote_address_match", m.GetDescriptorValue())
	if err != nil {
		return nil, err
	}
	if strings.Contains(e.Value, "%") {
		return nil, unusable("the descriptor_value %q is a format of Envoy's access log, which is not computed here", e.Value)
	}
	a := addressMatch{entry: e, invert: m.GetAddressMatcher().GetInvertMatch()}
	for _, r := range m.GetAddressMatcher().GetRanges() {
		ip, err := netip.ParseAddr(r.GetAddressPrefix())
		if err != nil {
			return nil, fmt.Errorf("the address_prefix %q is no IP address", r.GetAddressPrefix())
		}
		network, err := ip.Prefix(int(min(r.GetPrefixLen().GetValue(), 1000)))
		if err != nil {
			return nil, fmt.Errorf("the prefix_len of %q is too large", r.GetAddressPrefix())
		}
		a.networks = append(a.networks, network)
	}
	return a, nil
}

func (a addressMatch) append(entries []limiter.Entry, t *Request) ([]limiter.Entry, bool) {
	ip, err := netip.ParseAddr(t.RemoteAddress)
	if err != nil {
		return entries, false
	}
	within := false
	for _, network := range a.networks {
		within = within || network.Contains(ip.WithZone(""))
	}
	if within == a.invert {
		return entries, false
	}
	return append(entries, limiter.Entry(a.entry)), true
}

// headerMatch is header_value_match.
type headerMatch struct {
	entry  entry
	tests  []headerTest
	expect bool
}

func newHeaderMatch(m *routepb.RateLimit_Action_HeaderValueMatch) (action, error) {
	e, err := constant(m.GetDescriptorKey(), "header_match", m.GetDescriptorValue())
	if err != nil {
		return nil, err
	}
	match := headerMatch{entry: e, expect: m.GetExpectMatch() == nil || m.GetExpectMatch().GetValue()}
	if len(m.GetHeaders()) == 0 {
		return nil, errors.New("headers are needed")
	}
	match.tests, err = newHeaderTests(m.GetHeaders())
	return match, err
}

func (m headerMatch) append(entries []limiter.Entry, t *Request) ([]limiter.Entry, bool) {
	if matchAll(m.tests, t) != m.expect {
		return entries, false
	}
	return append(entries, limiter.Entry(m.entry)), true
}

// queryMatch is query_parameter_value_match.
type queryMatch struct {
	entry  entry
	tests  []parameterTest
	expect bool
}

func newQueryMatch(m *routepb.RateLimit_Action_QueryParameterValueMatch) (action, error) {
	e, err := constant(m.GetDescriptorKey(), "query_match", m.GetDescriptorValue())
	if err != nil {
		return nil, err
	}
	match := queryMatch{entry: e, expect: m.GetExpectMatch() == nil || m.GetExpectMatch().GetValue()}
	if len(m.GetQueryParameters()) == 0 {
		return nil, errors.New("query_parameters are needed")
	}
	match.tests, err = newParameterTests(m.GetQueryParameters(), true)
	return match, err
}

func (m queryMatch) append(entries []limiter.Entry, t *Request) ([]limiter.Entry, bool) {
	for i := range m.tests {
		if !m.tests[i].matches(t) {
			if m.expect {
				return entries, false
			}
			return append(entries, limiter.Entry(m.entry)), true
		}
	}
	return append(entries, limiter.Entry(m.entry)), m.expect
}

func newHeaderTests(list []*routepb.HeaderMatcher) (tests []headerTest, err error) {
	for i, m := range list {
		test, err := newHeaderTest(m)
		if err != nil {
			return nil, fmt.Errorf("headers[%d]: %w", i, err)
		}
		tests = append(tests, test)
	}
	return tests, nil
}

func newParameterTests(list []*routepb.QueryParameterMatcher, decode bool) (tests []parameterTest, err error) {
	for i, m := range list {
		test, err := newParameterTest(m, decode)
		if err != nil {
			return nil, fmt.Errorf("query_parameters[%d]: %w", i, err)
		}
		tests = append(tests, test)
	}
	return tests, nil
}

// matchAll reports whether a request passes all tests.
func matchAll(tests []headerTest, t *Request) bool {
	for i := range tests {
		if !tests[i].matches(t) {
			return false
		}
	}
	return true
}
