package rls

import (
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata tells, as an encoded google.protobuf.Struct, what was asked: domain,
// descriptors and hitsAddend; and as metadata what the rules of the admitted
// descriptors say. Envoy hands it on to its access log and to other filters.
func (c *call) metadata() ([]byte, error) {
	r := &c.request
	asked := make([]any, len(r.descriptors))
	said := make(map[string]any)
	for i := range r.descriptors {
		asked[i] = r.descriptors[i].metadata()
		if m := &c.matches[i]; m.counted() && m.rule != nil && c.answer.statuses[i].code == codeOK {
			mergeMetadata(said, m.rule.Metadata)
		}
	}
	fields := map[string]any{"domain": utf8(r.domain), "descriptors": asked}
	if r.hitsAddend != 0 {
		fields["hitsAddend"] = r.hitsAddend
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

func (d *descriptor) metadata() map[string]any {
	entries := make([]any, len(d.entries))
	for i, e := range d.entries {
		entries[i] = utf8(e.Key + "=" + e.Value)
	}
	fields := map[string]any{"entries": entries}
	if d.hasLimit {
		fields["limit"] = d.limit.String()
	}
	if d.hasHitsAddend {
		fields["hitsAddend"] = d.hitsAddend
	}
	return fields
}

// String is the override in protobuf's text format, as in the reference's metadata.
func (o override) String() string {
	var fields []string
	if o.requestsPerUnit > 0 {
		fields = append(fields, fmt.Sprintf("requests_per_unit:%d", o.requestsPerUnit))
	}
	fields = append(fields, "unit:"+strings.ToUpper(unitOf(o.unit).String()))
	if o.unitMultiplier > 0 {
		fields = append(fields, fmt.Sprintf("unit_multiplier:{value:%d}", o.unitMultiplier))
	}
	return strings.Join(fields, " ")
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
