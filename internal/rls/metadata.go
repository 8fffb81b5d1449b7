package rls

import (
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/internal/plan"
)

// metadata returns the dynamic metadata of a response as an encoded google.protobuf.Struct. It
// repeats the domain, the descriptors and the hitsAddend of the request, and has the metadata of
// the rules of admitted descriptors. Envoy passes it to its access log and to other filters.
func metadata(r *plan.Request, statuses []plan.Status) []byte {
	asked := make([]any, len(r.Descriptors))
	ofRules := make(map[string]any)
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		entries := make([]any, len(d.Entries))
		for i, e := range d.Entries {
			entries[i] = utf8(e.Key + "=" + e.Value)
		}
		descriptor := map[string]any{"entries": entries}
		if d.HasOverride {
			descriptor["limit"] = overrideText(d.Override)
		}
		if d.HasHitsAddend {
			descriptor["hitsAddend"] = d.HitsAddend
		}
		asked[i] = descriptor
		if s := &statuses[i]; s.Limit != nil && s.Rule != nil && !s.OverLimit {
			mergeMetadata(ofRules, s.Rule.Metadata)
		}
	}
	fields := map[string]any{"domain": utf8(r.Domain), "descriptors": asked}
	if r.HitsAddend != 0 {
		fields["hitsAddend"] = r.HitsAddend
	}
	if len(ofRules) > 0 {
		fields["metadata"] = ofRules
	}
	// Neither fails: all texts are UTF-8, and rules have only values of JSON.
	message, _ := structpb.NewStruct(fields)
	encoded, _ := proto.Marshal(message)
	return encoded
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

// mergeMetadata adds the values of from to into, except for names that into already has. It merges
// maps with the same name in the same way. It does not change from, which belongs to a rule.
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

// utf8 replaces bytes that are not UTF-8, which protobuf strings must not contain.
func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
