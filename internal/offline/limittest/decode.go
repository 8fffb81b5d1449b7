package limittest

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors"
	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
	"weir/internal/plan"
)

const (
	maxSend = 1_000_000         // maximum number of requests of a step
	maxTime = limiter.MaxPeriod // maximum length of a test
	year    = 365 * 24 * time.Hour
	maxWait = 290 * year // longer than any time in an answer, and shorter than the longest Duration
)

type decoder struct{ strictyaml.Decoder }

// row is a field of a mapping, and the function that decodes its value.
type row struct {
	name string
	read func(*yaml.Node)
}

// fields decodes a mapping whose possible fields are in rows. It returns the fields that n has.
func (d *decoder) fields(n *yaml.Node, rows ...row) strictyaml.Given {
	there := strictyaml.Given{Mapping: n}
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	d.Fields(n, names, func(name string, n *yaml.Node) {
		there.Add(name, n)
		rows[slices.Index(names, name)].read(n)
	})
	return there
}

// need reports a problem, with message as its text, if a field is missing or empty.
func (d *decoder) need(there strictyaml.Given, field, message string) {
	value := there.Value(field)
	if there.Mapping.Kind == yaml.MappingNode && (value == nil || strictyaml.IsNull(value) ||
		value.Kind == yaml.SequenceNode && len(value.Content) == 0 || value.Kind == yaml.ScalarNode && value.Value == "") {
		d.ProblemIn(field, there.At(field), "%s", message)
	}
}

func (d *decoder) text(into *string) func(*yaml.Node) {
	return func(n *yaml.Node) { *into, _ = d.Text(n) }
}

// list returns a function that decodes a list, item by item.
func (d *decoder) list(item func(*yaml.Node)) func(*yaml.Node) {
	return func(n *yaml.Node) { d.Items(n, item) }
}

// file decodes a test file, and reads the rule files that it names.
func (d *decoder) file(n *yaml.Node) (rules []descriptors.File, tests []test) {
	if strictyaml.Has(n, "domain") && !strictyaml.Has(n, "tests") {
		d.Problem(strictyaml.At(n), "this is a file of rules, check it with weir validate; its tests belong in a file of their own, *"+Suffix)
		return nil, nil
	}
	there := d.fields(n,
		row{"rules", d.list(func(n *yaml.Node) { rules = append(rules, d.rules(n)...) })},
		row{"tests", d.list(func(n *yaml.Node) { tests = append(tests, d.test(n, tests)) })},
	)
	d.need(there, "rules", "rules are required: a list of files and directories, relative to this file")
	d.need(there, "tests", "a test is required")
	return rules, tests
}

// rules reads the rule files at a path. A relative path is relative to the directory of the test file.
func (d *decoder) rules(n *yaml.Node) []descriptors.File {
	path, ok := d.Text(n)
	if ok && path == "" {
		d.Problem(strictyaml.At(n), "a path is required; use a file or directory of rules")
	}
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(d.File), path)
	}
	files, _, err := descriptors.ReadFiles(path)
	if err == nil && len(files) == 0 {
		err = descriptors.NoFiles(path)
	}
	if err != nil {
		d.Problem(strictyaml.At(n), "%v", err)
	}
	return files
}

// test decodes a test. others are the tests before it in the file. Its name must differ from theirs.
func (d *decoder) test(n *yaml.Node, others []test) test {
	t, found := test{line: n.Line}, d.Found()
	there := d.fields(n,
		row{"name", d.text(&t.name)},
		row{"domain", d.text(&t.domain)},
		row{"start", func(n *yaml.Node) { t.start = d.start(n) }},
		row{"steps", d.list(func(n *yaml.Node) {
			earliest := time.Duration(0)
			if len(t.steps) > 0 {
				earliest = t.steps[len(t.steps)-1].last()
			}
			t.steps = append(t.steps, d.step(n, earliest))
		})},
	)
	t.domainAt = there.At("domain")
	d.need(there, "name", "a name is required")
	d.need(there, "domain", "a domain is required; use one of the rules")
	if i := slices.IndexFunc(others, func(o test) bool { return o.name == t.name && t.name != "" }); i >= 0 {
		d.ProblemIn("name", there.At("name"), "%q is already the name of the test in line %d, names must be unique", t.name, others[i].line)
	}
	for i := range t.steps {
		t.steps[i].request.Domain = t.domain
	}
	if d.Found() == found && !slices.ContainsFunc(t.steps, func(s step) bool { return len(s.checks) > 0 }) {
		d.ProblemIn("steps", strictyaml.At(n), "nothing is expected, at least one step with expect is required")
	}
	return t
}

// step decodes a step, which must not begin before earliest, the time of the last request of the step above.
func (d *decoder) step(n *yaml.Node, earliest time.Duration) step {
	s, found := step{at: strictyaml.At(n), first: earliest, send: 1}, d.Found()
	there := d.fields(n,
		row{"at", func(n *yaml.Node) { s.first = d.duration(n, time.Microsecond, maxTime) }},
		row{"send", func(n *yaml.Node) { s.send = int(d.Whole(n, 1, maxSend)) }},
		row{"every", func(n *yaml.Node) { s.every = d.duration(n, time.Microsecond, maxTime) }},
		row{"request", d.list(func(n *yaml.Node) { s.request.Descriptors = append(s.request.Descriptors, d.descriptor(n)) })},
		row{"hits_addend", func(n *yaml.Node) { s.request.HitsAddend = uint32(d.Whole(n, 0, math.MaxUint32)) }},
		row{"expect", func(n *yaml.Node) { d.expect(n, &s) }},
	)
	d.need(there, "request", "a request is required: a list of at least one descriptor")
	descriptors := len(s.request.Descriptors)
	ofOne := slices.IndexFunc(s.checks, func(c check) bool {
		return c.what == c.field && slices.Contains(append(statusFields[1:], bucketField), c.field)
	})
	switch {
	case d.Found() > found: // further problems may be consequences of the first
	case s.first < earliest:
		d.ProblemIn("at", there.At("at"), "%v is before the last request of the step above, at %v", s.first, earliest)
	case s.every > (maxTime-s.first)/time.Duration(s.send):
		d.ProblemIn("every", there.At("every"), "the last request comes too late, at most 100 years are allowed")
	case s.outcomes > s.send:
		d.ProblemIn("expect", there.At("expect"), "admitted and denied add up to %d, more than send, %d", s.outcomes, s.send)
	case ofOne >= 0 && descriptors != 1:
		d.ProblemIn("expect", s.checks[ofOne].at, "the request has %d descriptors, use statuses to expect this of one", descriptors)
	case s.statusesAt != strictyaml.Position{} && s.statuses != descriptors:
		d.ProblemIn("expect", s.statusesAt, "%d statuses, but the request has %d descriptors; null expects nothing", s.statuses, descriptors)
	}
	return s
}

// start decodes the time at which the clock of a test starts, and returns the time since the epoch.
func (d *decoder) start(n *yaml.Node) time.Duration {
	text, ok := d.Text(n)
	t, err := time.Parse(time.RFC3339, text)
	since := t.Sub(time.Unix(0, 0))
	if err == nil && since >= 0 && since <= maxTime {
		return since
	}
	if ok {
		d.Problem(strictyaml.At(n), "%s is not allowed; use a time in the %d years from 1970 on, such as 2026-03-29T00:00:00+01:00", strictyaml.Describe(n), maxTime/year)
	}
	return 0
}

// duration decodes a duration, 0 or a multiple of unit. The parameter most is the maximum, and
// must be a whole number of years.
func (d *decoder) duration(n *yaml.Node, unit, most time.Duration) time.Duration {
	text, ok := d.Text(n)
	v, err := time.ParseDuration(text)
	if err == nil && v >= 0 && v <= most && v%unit == 0 {
		return v
	}
	if ok {
		d.Problem(strictyaml.At(n), "%s is not allowed; use a multiple of %v up to %d years, such as 30s, 1m30s, 24h", strictyaml.Describe(n), unit, most/year)
	}
	return 0
}

// descriptor decodes a descriptor of a request: a mapping of keys and values, or a
// mapping whose field entries is a list of such mappings.
func (d *decoder) descriptor(n *yaml.Node) plan.Descriptor {
	var c plan.Descriptor
	found := d.Found()
	isList := false
	d.Field(n, "entries", func(n *yaml.Node) { isList = n.Kind == yaml.SequenceNode })
	if !isList {
		c.Entries = d.entries(n)
	} else {
		d.fields(n,
			row{"entries", d.list(func(n *yaml.Node) { c.Entries = append(c.Entries, d.entries(n)...) })},
			row{"hits_addend", func(n *yaml.Node) { c.HitsAddend, c.HasHitsAddend = d.Whole(n, 0, 1<<64-1), true }},
			row{"is_negative_hits", func(n *yaml.Node) { c.Refund = d.Flag(n) }},
			row{"limit", func(n *yaml.Node) { c.Override, c.HasOverride = d.override(n), true }},
		)
	}
	if len(c.Entries) == 0 && d.Found() == found {
		d.Problem(strictyaml.At(n), "the descriptor has no entries, at least one is required")
	}
	return c
}

// entries decodes a mapping of keys and values, and keeps their order.
func (d *decoder) entries(n *yaml.Node) []limiter.Entry {
	if n.Kind != yaml.MappingNode {
		d.Problem(strictyaml.At(n), "%s is not allowed; use a mapping of keys and values", strictyaml.Describe(n))
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
			d.Problem(strictyaml.At(key), "a key must not be empty")
		case slices.ContainsFunc(list, func(other limiter.Entry) bool { return other.Key == e.Key }):
			d.Problem(strictyaml.At(key), "key %q is repeated, put it in a list: entries: [{%s: ...}, {%s: ...}]", e.Key, e.Key, e.Key)
		}
		d.Visit(strictyaml.Step{Field: e.Key}, value, func(n *yaml.Node) { e.Value, _ = d.Bytes(n) })
		list = append(list, e)
	})
	return list
}

func (d *decoder) override(n *yaml.Node) plan.Override {
	var o plan.Override
	found, allowed := d.Found(), plan.OverrideUnitNames()
	there := d.fields(n,
		row{"requests_per_unit", func(n *yaml.Node) { o.RequestsPerUnit = uint32(d.Whole(n, 0, math.MaxUint32)) }},
		row{"unit", func(n *yaml.Node) {
			word := *n
			word.Value = strings.ToLower(n.Value) // Envoy's units are in upper case
			if i := d.Word(&word, allowed); i >= 0 {
				o.Unit, _ = limiter.ParseUnit(allowed[i])
			}
		}},
		row{"unit_multiplier", func(n *yaml.Node) { o.UnitMultiplier = uint32(d.Whole(n, 1, math.MaxUint32)) }},
	)
	d.need(there, "unit", "a unit is required")
	if d.Found() == found {
		if err := o.Check(); err != nil {
			d.Problem(strictyaml.At(n), "%v", err)
		}
	}
	return o
}
