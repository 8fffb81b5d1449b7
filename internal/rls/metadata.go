package rls

import (
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/internal/plan"
)

// maxEntryTexts is the maximum size in bytes of all entries in a response. The rest is cut, because a
// client that reads no responses would otherwise make the server keep the texts of its large requests.
const maxEntryTexts = 16 << 10

// metadata returns the dynamic metadata of a response as an encoded google.protobuf.Struct,
// which Envoy passes to its access log and to other filters. As in envoyproxy/ratelimit, it has
// the domain, the descriptors and the hitsAddend of the request, and the metadata of the rules
// of admitted descriptors. Weir adds the answer to each descriptor, the limits that denied the
// request or would have denied it without a shadow mode, and the groups of quotas with room. Without
// Options.DynamicMetadata, it has only a reservation's token, with which Envoy settles the reservation.
func (s *Service) metadata(r *plan.Request, result *plan.Result) []byte {
	fields := map[string]any{}
	if token := result.Plan.Token; token != "" && !result.Denied {
		fields["reservation"] = token
	}
	if s.opts.DynamicMetadata {
		describe(fields, r, result, &s.opts.Decider.Options)
	}
	// Neither call fails, because all texts are UTF-8 and the metadata of rules has only JSON
	// values.
	message, _ := structpb.NewStruct(fields)
	encoded, _ := proto.Marshal(message)
	return encoded
}

// describe adds the fields that describe the request and its result.
func describe(fields map[string]any, r *plan.Request, result *plan.Result, opts *plan.Options) {
	fields["domain"] = utf8(r.Domain)
	shadowed := addDenials(fields, r, result)
	room := maxEntryTexts
	cut := func(text string) string {
		text = text[:min(len(text), room)]
		room -= len(text)
		return utf8(text)
	}
	asked := make([]any, len(r.Descriptors))
	ofRules := make(map[string]any)
	for i := range r.Descriptors {
		d, s := &r.Descriptors[i], &result.Statuses[i]
		entries := make([]any, len(d.Entries))
		for i, e := range d.Entries {
			entries[i] = cut(e.Key + "=" + e.Value)
		}
		descriptor := answer(s)
		descriptor["entries"] = entries
		if shadowed[d] {
			descriptor["shadow"] = true
		}
		if d.HasOverride {
			descriptor["limit"] = overrideText(d.Override)
		}
		if d.HasHitsAddend {
			descriptor["hitsAddend"] = d.HitsAddend
		}
		asked[i] = descriptor
		if s.Limit != nil && s.Rule != nil && !s.OverLimit {
			mergeMetadata(ofRules, s.Rule.Metadata)
		}
	}
	fields["descriptors"] = asked
	if r.HitsAddend != 0 {
		fields["hitsAddend"] = r.HitsAddend
	}
	if available, grouped := result.Available(opts); grouped {
		groups := make([]any, len(available))
		for i, name := range available {
			group := map[string]any{}
			for _, e := range name {
				group[e.Key] = cut(e.Value)
			}
			groups[i] = group
		}
		fields["quota"] = map[string]any{"available": groups}
	}
	if len(ofRules) > 0 {
		fields["metadata"] = ofRules
	}
}

// answer returns the code of a descriptor, and the rule and the limit that decided. limitName is
// absent if the limit has no name of its own. No field contains text of the request.
func answer(s *plan.Status) map[string]any {
	fields := map[string]any{"code": "OK"}
	if s.OverLimit {
		fields["code"] = "OVER_LIMIT"
	}
	switch {
	case s.Limit != nil:
		fields["rule"], fields["remaining"] = s.Limit.Series.Labels().Rule, s.Remaining
		if s.Limit.Name != "" {
			fields["limitName"] = s.Limit.Name
		}
	case s.Rule != nil:
		fields["rule"] = s.Rule.Way()
	}
	return fields
}

// addDenials adds deniedBy and wouldDenyBy, each with the rule and the limit as metrics name them. Of
// several limits, it names the limit with the longest wait. It returns the descriptors with a limit
// that would have denied the request without a shadow mode.
func addDenials(fields map[string]any, r *plan.Request, result *plan.Result) map[*plan.Descriptor]bool {
	shadowed, longest := map[*plan.Descriptor]bool{}, map[string]uint64{}
	for o := range result.Outcomes(r) {
		var field string
		switch o.Kind {
		case plan.Denied:
			field = "deniedBy"
		case plan.Shadowed:
			field, shadowed[o.Descriptor] = "wouldDenyBy", true
		default:
			continue
		}
		wait := uint64(o.Decision.RetryAfter) // Never, which is -1, becomes the longest
		if _, known := longest[field]; known && wait <= longest[field] {
			continue
		}
		labels := o.Hit.Limit.Series.Labels()
		fields[field], longest[field] = map[string]any{"rule": labels.Rule, "limit": labels.Limit}, wait
	}
	return shadowed
}

// overrideText returns o in protobuf's text format, as in the metadata of envoyproxy/ratelimit.
func overrideText(o plan.Override) string {
	text := "unit:" + strings.ToUpper(o.Unit.String())
	if o.RequestsPerUnit > 0 {
		text = fmt.Sprintf("requests_per_unit:%d %s", o.RequestsPerUnit, text)
	}
	if o.UnitMultiplier > 0 {
		text += fmt.Sprintf(" unit_multiplier:{value:%d}", o.UnitMultiplier)
	}
	return text
}

// mergeMetadata adds each value in the map from to the map into, unless into has a value of the same
// name. If both values are maps, they are merged in the same way. The map from stays unchanged.
func mergeMetadata(into, from map[string]any) {
	for name, value := range from {
		present, ok := into[name]
		if !ok {
			into[name] = value
			continue
		}
		a, isMap := present.(map[string]any)
		b, areMaps := value.(map[string]any)
		if isMap && areMaps {
			a = maps.Clone(a)
			mergeMetadata(a, b)
			into[name] = a
		}
	}
}

// utf8 replaces bytes that are not UTF-8 and so must not be in protobuf strings.
func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
