package operators

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/descriptors/spelling"
	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

// Assignment is an amount that is assigned to a limit for a descriptor: a line of the bodies of PUT,
// POST and DELETE /assigned, and an element of the response to GET /assigned.
type Assignment struct {
	Domain     string `json:"domain"`     // in the syntax of commands
	Descriptor string `json:"descriptor"` // in the syntax of commands
	Limit      string `json:"limit,omitempty"`
	Amount     Amount `json:"amount,omitempty"`
	Note       string `json:"note,omitempty"`
	// ID names the change, which is made only once. Only requests have an ID. Only answers have the fields below.
	ID     string    `json:"id,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	By     string    `json:"by,omitempty"`
	NoRule string    `json:"no_rule,omitempty"` // reason why the amount applies to no limit, or ""

	changes string // names of the last changes, as digests of changeName bytes
}

// Amount is a number or "unlimited".
type Amount string

// UnmarshalJSON accepts a JSON string or a JSON number.
func (a *Amount) UnmarshalJSON(text []byte) error {
	*a = Amount(strings.Trim(string(text), `"`))
	return nil
}

// AssignmentList is the response to GET /assigned.
type AssignmentList struct {
	Assigned []Assignment `json:"assigned"` // the first amounts in sorted order
	Total    int          `json:"total"`
}

// AssignedChanges is the response to PUT, POST and DELETE /assigned.
type AssignedChanges struct {
	Added     int       `json:"added"`
	Changed   int       `json:"changed"`
	Unchanged int       `json:"unchanged"`
	Repeated  int       `json:"repeated,omitempty"` // number of unchanged lines whose id was applied before
	Removed   int       `json:"removed"`
	Refused   int       `json:"refused"`
	Refusals  []Refusal `json:"refusals,omitempty"` // the first 1000
	// Unpruned is the number of assigned amounts that the body does not have and that were kept, because
	// they are more than a tenth of all or because lines of the body were refused.
	Unpruned int    `json:"unpruned,omitempty"`
	Note     string `json:"note,omitempty"`
	// Last is the assigned amount that was added or changed, if there is only one.
	Last *Assignment `json:"last,omitempty"`
}

// Refusal is a refused line of a body.
type Refusal struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// made returns the number of amounts that were added, changed or removed.
func (a *AssignedChanges) made() int { return a.Added + a.Changed + a.Removed }

func (a *AssignedChanges) refuse(line int, reason string) {
	if a.Refused++; len(a.Refusals) < 1000 {
		a.Refusals = append(a.Refusals, Refusal{line, plaintext.Line(reason)})
	}
}

// How says what an order does with assigned amounts.
type How struct {
	Add, Remove bool   // add to amounts or remove them, instead of setting them
	CSV         bool   // the body is CSV, not lines of JSON
	Prune, Yes  bool   // Prune removes amounts that the body does not have; Yes allows that for more than a tenth of all
	By, Peer    string // who does this, for the audit log
}

// Bounds of assigned amounts. Sizes are in bytes.
const (
	changeName = 11 // size of a change's name in a text; a text keeps the last 16 names
	maxNote    = 200
	maxLine    = 64 << 10
	maxRate    = 18_000 // changes per second, which leaves enough time of the processors and of Redis for decisions
)

// Assign carries out the lines of a body. After a line that it refuses, it goes on with the next line. If
// Assign fails, the answer has the changes made before the failure.
func (d *Desk) Assign(ctx context.Context, body io.Reader, how How) (AssignedChanges, error) {
	o := order{Desk: d, How: how, tree: d.Tree(), others: map[string]time.Time{}, seed: maphash.MakeSeed(), first: map[uint64]int{}, since: time.Now(), pace: rate.NewLimiter(maxRate, atOnce)}
	if o.tree == nil {
		return o.done, Errorf(ErrUnavailable, "no rules are loaded yet")
	}
	if err := d.InForce.Load(ctx); err != nil { // so that a line that repeats the assigned amount changes nothing
		return o.done, err
	}
	for part := 1; how.Prune && part < plan.SharedParts; part++ {
		for id, text := range d.InForce.set.All(part) {
			a, _ := readText(text)
			o.others[id] = a.Since
		}
	}
	all := len(o.others)
	err := readLines(body, how, func(line int, row Assignment, err error) error {
		row.Since = time.Time{}
		l := orderLine{Assignment: row, line: line}
		if err == nil {
			err = o.find(&l)
		}
		if err != nil {
			o.done.refuse(line, err.Error())
			return nil
		}
		delete(o.others, l.id)
		return o.add(ctx, l)
	})
	err = cmp.Or(err, o.flush(ctx))
	if err == nil && how.Prune {
		err = o.prune(ctx, all)
	}
	done := o.done
	slices.SortFunc(done.Refusals, func(a, b Refusal) int { return cmp.Compare(a.Line, b.Line) })
	if n := done.made(); n > 0 {
		attrs := []slog.Attr{slog.Bool("audit", true), plain("by", how.By), plain("peer", how.Peer), slog.Int("added", done.Added), slog.Int("changed", done.Changed), slog.Int("removed", done.Removed)}
		if n == 1 {
			last := readAssigned(o.last[0], o.last[1])
			if done.Removed == 0 {
				done.Last = &last
			}
			attrs = append(attrs, plain("domain", last.Domain), plain("descriptor", last.Descriptor), plain("amount", string(last.Amount)), plain("note", last.Note))
		}
		d.Logger.LogAttrs(ctx, slog.LevelInfo, "amounts assigned", attrs...)
	}
	if d.InForce.entries == nil {
		done.Note = "without Redis, assigned amounts apply on this server only, until it stops"
	}
	return done, err
}

// order is the state of a call of Assign.
type order struct {
	*Desk
	How
	tree   *descriptors.Tree
	others map[string]time.Time // for Prune, Since of each amount that existed at the start and is not in the body, by ID
	seed   maphash.Seed
	first  map[uint64]int // number of the CSV line that set an amount, by the hash of the amount's ID; string keys would burden the garbage collector
	since  time.Time
	pace   *rate.Limiter
	done   AssignedChanges
	lines  [plan.SharedParts][]orderLine // collected lines by part, still to be carried out

	last [2]string // ID and text of the last change; after a removal, the removed text
}

// orderLine is a line that assigns or removes the amount with the ID id. If Since is not zero, a removal
// applies only to an amount that was assigned at that time.
type orderLine struct {
	Assignment
	line int
	id   string

	rule  *descriptors.Rule
	limit *limiter.Limit
}

// find sets the id, rule and limit to which l refers, and makes the text of its amount canonical. If l is
// refused, find returns an error with the reason.
func (o *order) find(l *orderLine) error {
	domain, err := explain.ParseDomain(l.Domain)
	entries, invalid := explain.ParseDescriptor(l.Descriptor)
	if err = cmp.Or(err, invalid); err != nil {
		return fmt.Errorf("descriptor %.100q: %w", l.Descriptor, err)
	}
	var part int
	l.id, part = plan.AssignedID(domain, entries, l.Limit)
	amount, isAmount := plan.ParseAmount(string(l.Amount))
	switch {
	case o.Remove && o.InForce.set.Text(part, l.id) != "":
		return nil // even if its rule no longer exists
	case len(l.id) > maxText:
		return fmt.Errorf("domain, descriptor and limit have more than %d bytes", maxText)
	case len(l.Note) > maxNote || len(l.ID) > maxNote:
		return fmt.Errorf("the note or the id has more than %d bytes", maxNote)
	case !o.Remove && (!isAmount || o.Add && amount == plan.Unlimited):
		return fmt.Errorf("%.40q is not an amount; use 0 to %d%s", l.Amount, uint64(limiter.MaxAmount), map[bool]string{false: ", or unlimited"}[o.Add])
	case isAmount && amount != plan.Unlimited:
		l.Amount = Amount(strconv.FormatUint(amount, 10))
	}
	rule, counted, limit, err := assignable(o.tree, domain, entries, l.Limit)
	if err != nil {
		return err
	}
	l.rule, l.limit = rule, limit
	l.id, _ = plan.AssignedID(domain, counted, limit.Name)
	if hash := maphash.String(o.seed, l.id); o.CSV && !o.Add && !o.Remove {
		if first := o.first[hash]; first > 0 {
			return fmt.Errorf("line %d assigns to the same limit", first)
		}
		o.first[hash] = l.line
	}
	return nil
}

// add collects a line, and carries out the collected lines of its part once there are atOnce of them.
func (o *order) add(ctx context.Context, line orderLine) error {
	part := plan.PartOf(line.id)
	if o.lines[part] = append(o.lines[part], line); len(o.lines[part]) < atOnce {
		return nil
	}
	return o.carryOut(ctx, part)
}

// flush carries out all collected lines.
func (o *order) flush(ctx context.Context) (err error) {
	for part := range o.lines {
		err = cmp.Or(err, o.carryOut(ctx, part))
	}
	return err
}

// carryOut carries out the collected lines of a part.
func (o *order) carryOut(ctx context.Context, part int) error {
	lines, done, last := o.lines[part], o.done, o.last
	o.lines[part] = lines[:0]
	if len(lines) == 0 {
		return nil
	}
	if err := o.pace.WaitN(ctx, len(lines)); err != nil {
		return err
	}
	err := o.InForce.update(ctx, func(ctx context.Context) error {
		return o.InForce.change(ctx, part, func() (changes [][2]string) {
			done, last = o.done, o.last
			texts := make(map[string]string, len(lines))
			for _, l := range lines {
				old, isKnown := texts[l.id]
				if !isKnown {
					old = o.InForce.set.Text(part, l.id)
				}
				made, text := done.made(), o.apply(&done, &l, old)
				if texts[l.id] = text; done.made() > made {
					last = [2]string{l.id, cmp.Or(text, old)}
				}
			}
			for id, text := range texts {
				changes = append(changes, [2]string{id, text})
			}
			return changes
		})
	})
	if err == nil {
		o.done, o.last = done, last
	}
	return err
}

// apply returns an amount's text after a line is applied, or "" for a removed amount, and counts the line in done.
func (o *order) apply(done *AssignedChanges, l *orderLine, old string) (text string) {
	was, isRead := readText(cmp.Or(old, "0\n0\n\n\n"))
	before, isAmount := plan.ParseAmount(string(was.Amount))
	if l.ID != "" {
		digest := sha256.Sum256([]byte(l.ID))
		l.changes = base64.RawStdEncoding.EncodeToString(digest[:8])
	}
	note, amount := plaintext.Line(l.Note), l.Amount
	isSame := o.Add && before == plan.Unlimited || !o.Add && old != "" && amount == was.Amount && (note == "" || note == was.Note)
	switch {
	case o.Remove && old == "":
		done.refuse(l.line, "nothing is assigned")
		return old
	case o.Remove && !l.Since.IsZero() && !l.Since.Equal(was.Since): // the amount was changed after the start
		return old
	case o.Remove:
		done.Removed++
		return ""
	case !isRead || !isAmount:
		done.refuse(l.line, "a newer version has written what is assigned, and this one cannot read it")
		return old
	case l.ID != "" && strings.Contains(was.changes, l.changes):
		done.Unchanged++
		done.Repeated++
		return old
	}
	sum, _ := plan.ParseAmount(string(amount)) // cannot fail: find has parsed it
	switch {
	case isSame:
		sum, amount = before, was.Amount
	case o.Add:
		sum += before
		amount = Amount(strconv.FormatUint(sum, 10))
	}
	_, err := plan.WithAmount(l.rule, l.limit, sum)
	if sum != plan.Unlimited && sum > limiter.MaxAmount {
		err = fmt.Errorf("the sum is more than %d", uint64(limiter.MaxAmount))
	}
	switch {
	case err != nil:
		done.refuse(l.line, err.Error())
		return old
	case isSame:
		done.Unchanged++
		if l.ID == "" { // otherwise, the text gets the name of the change
			return old
		}
	case old == "":
		done.Added++
	default:
		done.Changed++
	}
	since := max(o.since.UnixMilli(), was.Since.UnixMilli()+1) // always increases, so that the newer of two texts is known even if Redis loses changes
	names := was.changes + l.changes
	by := strings.ReplaceAll(plaintext.Line(Begin(o.By, maxBy)), "\n", " ")
	return fmt.Sprintf("%s\n%d\n%s\n%s\n%s", amount, since, by, cmp.Or(note, was.Note), names[max(0, len(names)-16*changeName):])
}

// prune removes the amounts that the body does not have, unless they were changed after the start. It removes
// nothing if a line was refused, because the line may have meant one of these amounts. Without Yes, it also
// removes nothing if these amounts are more than a tenth of all, the number of amounts at the start.
func (o *order) prune(ctx context.Context, all int) error {
	n := len(o.others)
	if o.done.Refused > 0 || 10*n > all && !o.Yes {
		o.done.Unpruned = n
		return nil
	}
	o.Remove = true
	for id, since := range o.others {
		if err := o.add(ctx, orderLine{id: id, Assignment: Assignment{Since: since}}); err != nil {
			return err
		}
	}
	return o.flush(ctx)
}

// assignable returns the rule to which a descriptor leads, the entries as they are counted, and the
// rule's limit with the given name, or its only limit if name is empty. The error says why no amount can be
// assigned.
func assignable(tree *descriptors.Tree, domain string, entries []limiter.Entry, name string) (rule *descriptors.Rule, counted []limiter.Entry, l *limiter.Limit, err error) {
	rule, _, counted = named(tree, domain, entries)
	switch {
	case rule == nil:
		path, _ := explain.Find(tree, domain, entries)
		return nil, nil, nil, fmt.Errorf("leads to no rule: %s", path.Reason)
	case len(rule.Shared()) > 0:
		return nil, nil, nil, fmt.Errorf("the rule %s has one counter for several values", rule)
	case len(rule.Counted(counted)) < len(counted):
		return nil, nil, nil, fmt.Errorf("leads to no rule of its own, only to the limits of %s above: assign to %s", rule, explain.FormatDescriptor(rule.Counted(counted)))
	}
	var names []string
	for _, limit := range rule.Limits {
		if !limit.Unlimited {
			names = append(names, limit.Name)
			if limit.Name == name || name == "" {
				l = limit
			}
		}
	}
	switch {
	case len(names) == 0:
		err = fmt.Errorf("the rule %s has no limit", rule)
	case name == "" && len(names) > 1:
		err = fmt.Errorf("the rule %s has %d limits: name one of %q", rule, len(names), names)
	case l == nil && len(names) == 1 && names[0] == "":
		err = fmt.Errorf("the limit of the rule %s has no name: omit %.40q", rule, name)
	case l == nil:
		err = fmt.Errorf("the rule %s has no limit %.40q, only %q", rule, name, names)
		if near := spelling.Nearest(name, names); near != "" {
			err = fmt.Errorf("%w; did you mean %q?", err, near)
		}
	}
	return rule, counted, l, err
}

var errNotUTF8 = errors.New("it is not UTF-8; write other bytes as \\x and two digits")

// readLines calls yield for each line of a body, with the line's number and its assignment, or with an error
// if the line cannot be read. If yield fails, readLines stops and returns the error.
func readLines(body io.Reader, how How, yield func(line int, row Assignment, err error) error) error {
	in := bufio.NewReader(body)
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" { // Excel writes this mark
		_, _ = in.Discard(3)
	}
	if how.CSV {
		return readCSV(in, how.Remove, yield)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for line := 1; lines.Scan(); line++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var row Assignment
		err := ReadJSON(lines.Bytes(), &row)
		if err == nil && !utf8.Valid(lines.Bytes()) {
			err = errNotUTF8
		}
		if err := yield(line, row, err); err != nil {
			return err
		}
	}
	return lines.Err()
}

// readCSV reads rows of CSV. The first line may name the columns in a different order.
func readCSV(body io.Reader, isRemoval bool, yield func(line int, row Assignment, err error) error) error {
	r, columns := csv.NewReader(body), []string{"domain", "descriptor", "limit", "amount", "note"}
	r.FieldsPerRecord, r.ReuseRecord, r.TrimLeadingSpace = -1, true, true
	for isFirst := true; ; isFirst = false {
		fields, err := r.Read()
		invalid, isParse := errors.AsType[*csv.ParseError](err)
		var line int
		var row Assignment
		if err == nil {
			line, _ = r.FieldPos(0)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case isParse:
			line, err = invalid.Line, invalid.Err
		case err != nil:
			return err
		case isFirst && (slices.Contains(fields, "domain") || slices.Contains(fields, "descriptor")):
			if columns, err = readHeader(fields, columns, isRemoval); err != nil {
				return err
			}
			continue
		case len(fields) > len(columns):
			err = fmt.Errorf("it has %d columns, at most %d are allowed: %s; put a value with a comma in double quotes", len(fields), len(columns), strings.Join(columns, ", "))
		case !utf8.ValidString(strings.Join(fields, "")):
			err = errNotUTF8
		default:
			value := func(column string) string {
				if i := slices.Index(columns, column); i >= 0 && i < len(fields) {
					return fields[i]
				}
				return ""
			}
			row = Assignment{Domain: value("domain"), Descriptor: value("descriptor"), Limit: value("limit"), Amount: Amount(strings.TrimSpace(value("amount"))), Note: value("note")}
		}
		if err := yield(line, row, err); err != nil {
			return err
		}
	}
}

// readHeader returns the named columns. It fails if a column is unknown, repeated or missing.
func readHeader(names, known []string, isRemoval bool) ([]string, error) {
	for i, name := range names {
		if !slices.Contains(known, name) || slices.Contains(names[:i], name) {
			return nil, Errorf(ErrBadRequest, "first line: the column %.40q is unknown or repeated; use %s", name, strings.Join(known, ", "))
		}
	}
	for _, name := range known[:4] {
		if !slices.Contains(names, name) && name != "limit" && (!isRemoval || name != "amount") {
			return nil, Errorf(ErrBadRequest, "first line: the column %s is missing", name)
		}
	}
	return slices.Clone(names), nil
}

// assigned returns the amount that is assigned to a limit for the given entries, or nil.
func (d *Desk) assigned(domain string, entries []limiter.Entry, limit string) *Assignment {
	id, part := plan.AssignedID(domain, entries, limit)
	if text := d.Plan.Assigned.Text(part, id); text != "" {
		return new(readAssigned(id, text))
	}
	return nil
}

// readAssigned decodes an assigned amount from its ID and its text.
func readAssigned(id, text string) Assignment {
	domain, entries, limit := plan.ReadAssignedID(id)
	a, _ := readText(text)
	a.Domain, a.Descriptor, a.Limit = explain.FormatDomain(domain), explain.FormatDescriptor(entries), limit
	return a
}

// readText decodes a text. Each line of the text has one value: the amount, the time in ms, the person,
// the note, and the names of changes. ok is false if the time is not a number.
func readText(text string) (a Assignment, ok bool) {
	var since string
	for _, field := range []*string{(*string)(&a.Amount), &since, &a.By, &a.Note} {
		*field, text, _ = strings.Cut(text, "\n")
	}
	ms, err := strconv.ParseInt(since, 10, 64)
	a.Since, a.changes = time.UnixMilli(ms).UTC(), text
	return a, err == nil
}

// Assigned returns the first n assigned amounts of a domain, or of all domains if domain is empty, whose
// descriptors begin with prefix. The parameters domain and prefix are in the syntax of commands.
func (d *Desk) Assigned(domain, prefix string, n int) AssignmentList {
	list := AssignmentList{Assigned: []Assignment{}}
	for part := 1; part < plan.SharedParts; part++ {
		for id, text := range d.InForce.set.All(part) {
			if a := readAssigned(id, text); strings.HasPrefix(a.Descriptor, prefix) && (domain == "" || domain == a.Domain) {
				list.Assigned = append(list.Assigned, a)
			}
		}
	}
	slices.SortFunc(list.Assigned, func(a, b Assignment) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Descriptor, b.Descriptor), cmp.Compare(a.Limit, b.Limit))
	})
	list.Total = len(list.Assigned)
	list.Assigned = slices.Clip(list.Assigned[:min(n, list.Total)])
	for i := range list.Assigned {
		a := &list.Assigned[i]
		domain, _ := explain.ParseDomain(a.Domain)
		entries, _ := explain.ParseDescriptor(a.Descriptor)
		if tree := d.Tree(); tree != nil {
			if _, _, _, err := assignable(tree, domain, entries, a.Limit); err != nil {
				a.NoRule = err.Error()
			}
		}
	}
	return list
}
