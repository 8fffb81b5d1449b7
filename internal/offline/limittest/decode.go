package limittest

import (
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

// places are where a field belongs that is not allowed where it is.
var places = []struct {
	name   string
	fields []string
}{
	{"the file", fileFields},
	{"a test", testFields},
	{"a step", stepFields},
	{"expect", expectFields},
	{"a descriptor with entries", descriptorFields},
}

const (
	maxSend = 1_000_000         // requests of a step
	maxTime = limiter.MaxPeriod // of a test
	year    = 365 * 24 * time.Hour
	maxWait = 290 * year // more than any answer tells, and less than a Duration holds
)

type decoder struct{ strictyaml.Decoder }

func newDecoder(file string) *decoder {
	d := new(decoder)
	d.File = file
	d.Elsewhere = func(field string) string {
		for _, place := range places {
			if slices.Contains(place.fields, field) {
				return place.name
			}
		}
		return ""
	}
	return d
}

// fields are those of a mapping that are there.
type fields map[string]*yaml.Node

func (d *decoder) fields(n *yaml.Node, allowed []string, visit func(name string, n *yaml.Node)) fields {
	there := fields{}
	d.Fields(n, allowed, func(name string, n *yaml.Node) {
		there[name] = n
		visit(name, n)
	})
	return there
}

// at is where a field of n is, or n if it is not there.
func (f fields) at(field string, n *yaml.Node) strictyaml.Position {
	if f[field] != nil {
		n = f[field]
	}
	return strictyaml.At(n)
}

// need reports a field of the mapping n that is missing or empty.
func (d *decoder) need(there fields, n *yaml.Node, field string, at strictyaml.Position, message string) {
	value := there[field]
	if n.Kind == yaml.MappingNode && (value == nil || strictyaml.IsNull(value) ||
		value.Kind == yaml.SequenceNode && len(value.Content) == 0 || value.Kind == yaml.ScalarNode && value.Value == "") {
		d.ProblemIn(field, at, "%s", message)
	}
}

// file decodes a file of tests, and reads the rules that it names.
func (d *decoder) file(n *yaml.Node) (rules []descriptors.File, tests []test) {
	if strictyaml.Has(n, "domain") && !strictyaml.Has(n, "tests") {
		d.Problem(strictyaml.At(n), "this is a file of rules, check it with weir validate; tests of them are in a file of its own, *"+Suffix)
		return nil, nil
	}
	there := d.fields(n, fileFields, func(name string, n *yaml.Node) {
		switch name {
		case "rules":
			d.Items(n, func(n *yaml.Node) { rules = append(rules, d.rules(n)...) })
		case "tests":
			d.Items(n, func(n *yaml.Node) { tests = append(tests, d.test(n, tests)) })
		}
	})
	d.need(there, n, "rules", strictyaml.At(n), "rules are needed, allowed are paths of files and directories, relative to this file")
	d.need(there, n, "tests", strictyaml.At(n), "a test is needed")
	return rules, tests
}

// rules reads the files at a path, which is relative to where the file is itself.
func (d *decoder) rules(n *yaml.Node) []descriptors.File {
	path, ok := d.Text(n)
	if ok && path == "" {
		d.Problem(strictyaml.At(n), "a path is needed, allowed are files and directories of rules")
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

// test decodes the test that follows others.
func (d *decoder) test(n *yaml.Node, others []test) test {
	t, found := test{line: n.Line}, d.Found()
	there := d.fields(n, testFields, func(name string, n *yaml.Node) {
		switch name {
		case "name":
			t.name, _ = d.Text(n)
		case "domain":
			t.domain, _ = d.Text(n)
		case "start":
			t.start = d.start(n)
		case "steps":
			d.Items(n, func(n *yaml.Node) {
				earliest := time.Duration(0)
				if len(t.steps) > 0 {
					earliest = t.steps[len(t.steps)-1].last()
				}
				t.steps = append(t.steps, d.step(n, earliest))
			})
		}
	})
	t.domainAt = there.at("domain", n)
	d.need(there, n, "name", there.at("name", n), "a name is needed, allowed is any text but the empty one")
	d.need(there, n, "domain", t.domainAt, "a domain is needed, allowed are those of the rules")
	if i := slices.IndexFunc(others, func(o test) bool { return o.name == t.name && t.name != "" }); i >= 0 {
		d.ProblemIn("name", there.at("name", n), "%q is already the name of the test in line %d, allowed is one test per name", t.name, others[i].line)
	}
	for i := range t.steps {
		t.steps[i].request.Domain = t.domain
	}
	if d.Found() == found && !slices.ContainsFunc(t.steps, func(s step) bool { return len(s.checks) > 0 }) {
		d.ProblemIn("steps", strictyaml.At(n), "nothing is expected, at least one step with expect is needed")
	}
	return t
}

// step decodes a step that may not begin earlier than the last one ended.
func (d *decoder) step(n *yaml.Node, earliest time.Duration) step {
	s, found := step{at: strictyaml.At(n), first: earliest, send: 1}, d.Found()
	var wanted expectation
	there := d.fields(n, stepFields, func(name string, n *yaml.Node) {
		switch name {
		case "at":
			s.first = d.duration(n, time.Microsecond, maxTime)
		case "send":
			s.send = int(d.Whole(n, 1, maxSend))
		case "every":
			s.every = d.duration(n, time.Microsecond, maxTime)
		case "request":
			d.Items(n, func(n *yaml.Node) { s.request.Descriptors = append(s.request.Descriptors, d.descriptor(n)) })
		case "hits_addend":
			s.request.HitsAddend = d.Amount(n, 0)
		case "expect":
			wanted = d.expectation(n)
			s.checks = wanted.checks
		}
	})
	d.need(there, n, "request", s.at, "a request is needed, allowed is a list of at least one descriptor")
	switch {
	case d.Found() > found: // what follows may only follow from it
	case s.first < earliest:
		d.ProblemIn("at", there.at("at", n), "%v is before the last request of the step above, at %v", s.first, earliest)
	case s.every > (maxTime-s.first)/time.Duration(s.send):
		d.ProblemIn("every", there.at("every", n), "the last request comes too late, at most 100 years are allowed")
	case wanted.outcomes > uint64(s.send):
		d.ProblemIn("expect", wanted.countAt, "admitted and denied sum up to %d, allowed is at most send, %d", wanted.outcomes, s.send)
	}
	if descriptors := len(s.request.Descriptors); descriptors > 0 {
		d.fits(&wanted, descriptors)
	}
	return s
}

// start decodes when the clock of a test starts, and returns it since the epoch.
func (d *decoder) start(n *yaml.Node) time.Duration {
	text, ok := d.Text(n)
	t, err := time.Parse(time.RFC3339, text)
	since := t.Sub(time.Unix(0, 0))
	if err == nil && since >= 0 && since <= maxTime {
		return since
	}
	if ok {
		d.Problem(strictyaml.At(n), "%s is not allowed, allowed are times of %d years from 1970 on, such as 2026-03-29T00:00:00+01:00", strictyaml.Describe(n), maxTime/year)
	}
	return 0
}

// duration decodes a time that is a multiple of unit, and at most most, which is
// some years.
func (d *decoder) duration(n *yaml.Node, unit, most time.Duration) time.Duration {
	text, ok := d.Text(n)
	v, err := time.ParseDuration(text)
	if err == nil && v >= 0 && v <= most && v%unit == 0 {
		return v
	}
	if ok {
		d.Problem(strictyaml.At(n), "%s is not allowed, allowed are multiples of %v up to %d years, such as 30s, 1m30s, 24h", strictyaml.Describe(n), unit, most/year)
	}
	return 0
}

// descriptor decodes one of a request: a mapping of keys and values, or one
// with the field entries, which is a list.
func (d *decoder) descriptor(n *yaml.Node) plan.Descriptor {
	var c plan.Descriptor
	found := d.Found()
	isLong := false
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		isLong = isLong || n.Content[i].Value == "entries" && n.Content[i+1].Kind == yaml.SequenceNode
	}
	if !isLong {
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
	found, allowed := d.Found(), plan.OverrideUnitNames()
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
