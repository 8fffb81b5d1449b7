package rls

import (
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/internal/plan"
)

// metadata says, as an encoded google.protobuf.Struct, what was asked: domain,
// descriptors and hitsAddend; and as metadata what the rules of the admitted
// descriptors say. Envoy hands it on to its access log and to other filters.
func metadata(r *plan.Request, statuses []plan.Status) ([]byte, error) {
	asked := make([]any, len(r.Descriptors))
	said := make(map[string]any)
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		entries := make([]any, len(d.Entries))
		for i, e := range d.Entries {
			entries[i] = utf8(e.Key + "=" + e.Value)
		}
		of := map[string]any{"entries": entries}
		if d.HasOverride {
			of["limit"] = overrideText(d.Override)
		}
		if d.HasHitsAddend {
			of["hitsAddend"] = d.HitsAddend
		}
		asked[i] = of
		if s := &statuses[i]; s.Limit != nil && s.Rule != nil && !s.OverLimit {
			mergeMetadata(said, s.Rule.Metadata)
		}
	}
	fields := map[string]any{"domain": utf8(r.Domain), "descriptors": asked}
	if r.HitsAddend != 0 {
		fields["hitsAddend"] = r.HitsAddend
	}
	if len(said) > 0 {
		fields["metadata"] = said
	}
	message, err := structpb.NewStruct(fields)
	if err != nil {
		return nil, fmt.Errorf("building dynamic metadata: %w", err)
	}
	return proto.Marshal(message)
}

// overrideText is o in protobuf's text format, as in the reference's metadata.
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

// mergeMetadata adds to into what only from says. Of two different values for
// one name the first stays, but maps are merged in turn. from, which belongs to
// a rule, is left as it is.
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

// utf8 replaces what a protobuf string must not hold.
func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
