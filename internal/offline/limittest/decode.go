package limittest

import (
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// The fields of the format, by where they belong.
var (
	fileFields       = []string{"rules", "tests"}
	testFields       = []string{"name", "domain", "start", "steps"}
	stepFields       = []string{"at", "send", "every", "request", "hits_addend", "expect"}
	descriptorFields = []string{"entries", "hits_addend", "is_negative_hits", "limit"}
	overrideFields   = []string{"requests_per_unit", "unit", "unit_multiplier"}
	statusFields     = []string{"code", "remaining", "reset", "retry_after", "limit"}
	expectFields     = append([]string{"admitted", "denied", "statuses"}, statusFields...)
)

// elsewhere returns where a field belongs that is not allowed where it is.
func elsewhere(field string) string {
	for _, place := range []struct {
		name   string
		fields []string
	}{
		{"the file", fileFields},
		{"a test", testFields},
		{"a step", stepFields},
		{"expect", expectFields},
		{"a descriptor with entries", descriptorFields},
	} {
		if slices.Contains(place.fields, field) {
			return place.name
		}
	}
	return ""
}

const (
	maxSend = 1_000_000         // requests of a step
	maxTime = limiter.MaxPeriod // of a test
	year    = 365 * 24 * time.Hour
	maxWait = 290 * year // more than any answer tells, and less than a Duration holds
)

type decoder struct{ strictyaml.Decoder }

// fileConfig is a file of tests as it is written.
type fileConfig struct {
	rules []rulesPath
	tests []test
}

type rulesPath struct {
	at   strictyaml.Position
	path string
}

func (d *decoder) file(root *yaml.Node) fileConfig {
	var c fileConfig
	if strictyaml.Has(root, "domain") && !strictyaml.Has(root, "tests") {
		d.Problem(strictyaml.At(root), "this is a file of rules, check it with weir validate; tests of them are in a file of its own, *"+Suffix)
		return c
	}
	noRules, noTests := root.Kind == yaml.MappingNode, root.Kind == yaml.MappingNode
	d.Fields(root, fileFields, func(name string, n *yaml.Node) {
		switch name {
		case "rules":
			noRules = isEmpty(n)
			d.Items(n, func(n *yaml.Node) {
				path, ok := d.Text(n)
				if ok && path == "" {
					d.Problem(strictyaml.At(n), "a path is needed, allowed are files and directories of rules")
				}
				c.rules = append(c.rules, rulesPath{strictyaml.At(n), path})
			})
		case "tests":
			noTests = isEmpty(n)
			d.Items(n, func(n *yaml.Node) { c.tests = append(c.tests, d.test(n, c.tests)) })
		}
	})
	if noRules {
		d.ProblemIn("rules", strictyaml.At(root), "rules are needed, allowed are paths of files and directories, relative to this file")
	}
	if noTests {
		d.ProblemIn("tests", strictyaml.At(root), "a test is needed")
	}
	return c
}

// isEmpty reports whether a list holds nothing.
func isEmpty(n *yaml.Node) bool {
	return strictyaml.IsNull(n) || n.Kind == yaml.SequenceNode && len(n.Content) == 0
}

func (d *decoder) test(n *yaml.Node, others []test) test {
	t := test{line: n.Line, domainAt: strictyaml.At(n)}
	found, nameAt := d.Found(), t.domainAt
	noName, noDomain := n.Kind == yaml.MappingNode, n.Kind == yaml.MappingNode
	d.Fields(n, testFields, func(name string, n *yaml.Node) {
		switch name {
		case "name":
			var ok bool
			t.name, ok = d.Text(n)
			nameAt, noName = strictyaml.At(n), ok && t.name == ""
		case "domain":
			var ok bool
			t.domain, ok = d.Text(n)
			t.domainAt, noDomain = strictyaml.At(n), ok && t.domain == ""
		case "start":
			t.start = d.start(n)
		case "steps":
			d.Items(n, func(n *yaml.Node) { t.steps = append(t.steps, d.step(n, t.steps)) })
		}
	})
	if noName {
		d.ProblemIn("name", nameAt, "a name is needed, allowed is any text but the empty one")
	}
	if noDomain {
		d.ProblemIn("domain", t.domainAt, "a domain is needed, allowed are those of the rules")
	}
	if i := slices.IndexFunc(others, func(o test) bool { return o.name == t.name && t.name != "" }); i >= 0 {
		d.ProblemIn("name", nameAt, "%q is already the name of the test in line %d, allowed is one test per name", t.name, others[i].line)
	}
	checks := 0
	for i := range t.steps {
		t.steps[i].request.Domain = t.domain
		checks += len(t.steps[i].checks)
	}
	if checks == 0 && d.Found() == found {
		d.ProblemIn("steps", strictyaml.At(n), "nothing is expected, at least one step with expect is needed")
	}
	return t
}

// step decodes the step that follows others.
func (d *decoder) step(n *yaml.Node, others []step) step {
	s := step{send: 1}
	if len(others) > 0 {
		s.first = others[len(others)-1].last()
	}
	s.at = strictyaml.At(n)
	earliest, firstAt, everyAt := s.first, s.at, s.at
	found, noRequest := d.Found(), n.Kind == yaml.MappingNode
	var wanted expectation
	d.Fields(n, stepFields, func(name string, n *yaml.Node) {
		switch name {
		case "at":
			s.first = d.duration(n, time.Microsecond, maxTime)
			firstAt = strictyaml.At(n)
		case "send":
			s.send = int(d.Whole(n, 1, maxSend))
		case "every":
			s.every = d.duration(n, time.Microsecond, maxTime)
			everyAt = strictyaml.At(n)
		case "request":
			noRequest = isEmpty(n)
			d.Items(n, func(n *yaml.Node) { s.request.Descriptors = append(s.request.Descriptors, d.descriptor(n)) })
		case "hits_addend":
			s.request.HitsAddend = d.Amount(n, 0)
		case "expect":
			wanted = d.expectation(n)
		}
	})
	if noRequest {
		d.ProblemIn("request", strictyaml.At(n), "a request is needed, allowed is a list of at least one descriptor")
	}
	switch {
	case d.Found() > found: // what follows may only follow from it
	case s.first < earliest:
		d.ProblemIn("at", firstAt, "%v is before the last request of the step above, at %v", s.first, earliest)
	case s.every > (maxTime-s.first)/time.Duration(s.send):
		d.ProblemIn("every", everyAt, "the last request comes too late, at most 100 years are allowed")
	case wanted.outcomes > uint64(s.send):
		d.ProblemIn("expect", wanted.countAt, "admitted and denied sum up to %d, allowed is at most send, %d", wanted.outcomes, s.send)
	}
	if len(s.request.Descriptors) > 0 {
		s.checks = d.checks(wanted, len(s.request.Descriptors))
	}
	return s
}

// start decodes when the clock of a test starts, and returns it since the epoch.
func (d *decoder) start(n *yaml.Node) time.Duration {
	text, ok := d.Text(n)
	if !ok {
		return 0
	}
	t, err := time.Parse(time.RFC3339, text)
	if since := t.Sub(time.Unix(0, 0)); err == nil && since >= 0 && since <= maxTime {
		return since
	}
	d.Problem(strictyaml.At(n), "%s is not allowed, allowed are times of %d years from 1970 on, such as 2026-03-29T00:00:00+01:00", strictyaml.Describe(n), maxTime/year)
	return 0
}

// duration decodes a time that is a multiple of unit, and at most most, which is
// some years.
func (d *decoder) duration(n *yaml.Node, unit, most time.Duration) time.Duration {
	text, ok := d.Text(n)
	if !ok {
		return 0
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 || v > most || v%unit != 0 {
		d.Problem(strictyaml.At(n), "%s is not allowed, allowed are multiples of %v up to %d years, such as 30s, 1m30s, 24h", strictyaml.Describe(n), unit, most/year)
		return 0
	}
	return v
}

// descriptor decodes one of a request: a mapping of keys and values, or one
// with the field entries, which is a list.
func (d *decoder) descriptor(n *yaml.Node) plan.Descriptor {
	var c plan.Descriptor
	found := d.Found()
	if !isLong(n) {
		c.Entries = d.entries(n)
	} else {
		d.Fields(n, descriptorFields, func(name string, n *yaml.Node) {
			switch name {
			case "entries":
				d.Items(n, func(n *yaml.Node) { c.Entries = append(c.Entries, d.entries(n)...) })
			case "hits_addend":
				c.HitsAddend, c.HasHitsAddend = d.Whole(n, 0, 1<<64-1), true
			case "is_negative_hits":
				c.Refund = d.Flag(n)
			case "limit":
				c.Override, c.HasOverride = d.override(n), true
			}
		})
	}
	if len(c.Entries) == 0 && d.Found() == found {
		d.Problem(strictyaml.At(n), "the descriptor has no entries, at least one is needed")
	}
	return c
}

// isLong reports whether a descriptor is written with the field entries.
func isLong(n *yaml.Node) bool {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == "entries" && n.Content[i+1].Kind == yaml.SequenceNode {
			return true
		}
	}
	return false
}

// entries decodes a mapping of keys and values in their order.
func (d *decoder) entries(n *yaml.Node) []limiter.Entry {
	if n.Kind != yaml.MappingNode {
		d.Problem(strictyaml.At(n), "%s is not allowed, a mapping of keys and values is needed", strictyaml.Describe(n))
		return nil
	}
	var list []limiter.Entry
	d.Pairs(n, false, func(key, value *yaml.Node, _ bool) {
		var e limiter.Entry
		var ok bool
		switch e.Key, ok = d.Bytes(key); {
		case !ok:
			return
		case e.Key == "":
			d.Problem(strictyaml.At(key), "a key is needed, allowed is any text but the empty one")
		case slices.ContainsFunc(list, func(other limiter.Entry) bool { return other.Key == e.Key }):
			d.Problem(strictyaml.At(key), "key %q is repeated, allowed is once in a mapping; repeat it in a list: entries: [{%s: ...}, {%s: ...}]", e.Key, e.Key, e.Key)
		}
		d.Visit(strictyaml.Step{Field: e.Key}, value, func(n *yaml.Node) { e.Value, _ = d.Bytes(n) })
		list = append(list, e)
	})
	return list
}

// override decodes the limit that a request brings along.
func (d *decoder) override(n *yaml.Node) plan.Override {
	var o plan.Override
	found := d.Found()
	allowed := plan.OverrideUnitNames()
	d.Fields(n, overrideFields, func(name string, n *yaml.Node) {
		switch name {
		case "requests_per_unit":
			o.RequestsPerUnit = d.Amount(n, 0)
		case "unit":
			text, ok := d.Text(n)
			if !slices.Contains(allowed, strings.ToLower(text)) && ok {
				d.Problem(strictyaml.At(n), "unknown unit %q%s, allowed are %s", text, d.DidYouMean(text, allowed), strings.Join(allowed, ", "))
			}
			o.Unit, _ = limiter.ParseUnit(text)
		case "unit_multiplier":
			o.UnitMultiplier = d.Amount(n, 1)
		}
	})
	if o.Unit == 0 && d.Found() == found {
		d.ProblemIn("unit", strictyaml.At(n), "a unit is needed, allowed are %s", strings.Join(allowed, ", "))
	}
	if d.Found() == found {
		if err := o.Check(); err != nil {
			d.Problem(strictyaml.At(n), "%v", err)
		}
	}
	return o
}
