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
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/descriptors/spelling"
	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

// Assignment is an amount that is assigned to a limit for a descriptor: a line of the bodies of PUT,
// POST and DELETE /assigned, and an element of the answer of GET /assigned.
type Assignment struct {
	Domain     string `json:"domain"`     // in the syntax of commands
	Descriptor string `json:"descriptor"` // in the syntax of commands
	Limit      string `json:"limit,omitempty"`
	Amount     Amount `json:"amount,omitempty"`
	Note       string `json:"note,omitempty"`
	// ID names the change, which is made only once. Only bodies have it, only answers what follows.
	ID     string    `json:"id,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	By     string    `json:"by,omitempty"`
	NoRule string    `json:"no_rule,omitempty"` // reason why no limit has the amount, or ""
}

// Amount is a number or "unlimited".
type Amount string

// UnmarshalJSON also accepts a number.
func (a *Amount) UnmarshalJSON(text []byte) error {
	*a = Amount(strings.Trim(string(text), `"`))
	return nil
}

// AssignmentList is the answer of GET /assigned.
type AssignmentList struct {
	Assigned []Assignment `json:"assigned"` // the first ones, sorted
	Total    int          `json:"total"`
}

// AssignedChanges is the answer of PUT, POST and DELETE /assigned.
type AssignedChanges struct {
	Added     int       `json:"added"`
	Changed   int       `json:"changed"`
	Unchanged int       `json:"unchanged"`
	Removed   int       `json:"removed"`
	Refused   int       `json:"refused"`
	Refusals  []Refusal `json:"refusals,omitempty"` // the first 1000
	// Unpruned is the number of assigned amounts that the body does not have and that were kept, because
	// they are more than a tenth or the body has lines that cannot be read.
	Unpruned int    `json:"unpruned,omitempty"`
	Note     string `json:"note,omitempty"`
}

// Refusal is a refused line of a body.
type Refusal struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

func (a *AssignedChanges) refuse(line int, reason string) {
	if a.Refused++; len(a.Refusals) < 1000 {
		a.Refusals = append(a.Refusals, Refusal{line, plaintext.Line(reason)})
	}
}

// count counts results of changes.
func (a *AssignedChanges) count(lines []int, results []string) {
	for i, result := range results {
		switch result {
		case "added":
			a.Added++
		case "changed":
			a.Changed++
		case "same":
			a.Unchanged++
		case "removed":
			a.Removed++
		case "large":
			a.refuse(lines[i], fmt.Sprintf("the sum is more than %d", uint64(limiter.MaxAmount)))
		default:
			a.refuse(lines[i], "a newer version has written what is assigned, and this one cannot read it")
		}
	}
}

// How says what an order does with assigned amounts.
type How struct {
	Add, Remove bool   // instead of setting amounts
	CSV         bool   // the body is CSV, else it has lines of JSON
	Prune, Yes  bool   // remove amounts that the body does not have, and even more than a tenth of all
	By, Peer    string // who does this, for the audit log
}

// Bounds of assigned amounts.
const (
	changeName = 11 // size of the name of a change in texts
	maxNote    = 200
	maxLine    = 64 << 10
)

// Assign reads assignments line by line and carries them out. Lines that it refuses do not stop it. If
// it fails, the answer says what was done.
func (d *Desk) Assign(ctx context.Context, body io.Reader, how How) (AssignedChanges, error) {
	var done AssignedChanges
	tree := d.Tree()
	if tree == nil {
		return done, Errorf(ErrUnavailable, "no rules are loaded yet")
	}
	if err := d.InForce.Load(ctx); err != nil { // so that a line that repeats what was assigned before changes nothing
		return done, err
	}
	pending := batches{desk: d, done: &done}
	seen, complete, last := map[string]bool{}, true, Assignment{}
	by := strconv.FormatInt(time.Now().UnixMilli(), 10) + "\n" + strings.ReplaceAll(plaintext.Line(Begin(how.By, maxBy)), "\n", " ")
	err := readLines(body, how.CSV, func(line int, row Assignment, err error) error {
		if err != nil {
			complete = false
			done.refuse(line, err.Error())
			return nil
		}
		last = row
		id, part, err := d.assignedID(tree, row, how)
		if how.Prune {
			seen[id] = true
		}
		switch text := d.InForce.parts[max(part, 1)].Text(id); {
		case err != nil:
			done.refuse(line, err.Error())
			return nil
		case how.Remove:
			return pending.add(ctx, line, part, [6]string{"put", id})
		case row.ID == "" && !how.Add && isSame(text, row):
			done.Unchanged++
			return nil
		}
		return pending.add(ctx, line, part, row.change(id, by, how.Add))
	})
	err = cmp.Or(err, pending.flush(ctx))
	if err == nil && how.Prune {
		err = cmp.Or(pending.prune(ctx, seen, complete, how.Yes), pending.flush(ctx))
	}
	slices.SortFunc(done.Refusals, func(a, b Refusal) int { return cmp.Compare(a.Line, b.Line) })
	if n := done.Added + done.Changed + done.Removed; n > 0 {
		attrs := []slog.Attr{slog.Bool("audit", true), plain("by", how.By), plain("peer", how.Peer), slog.Int("added", done.Added), slog.Int("changed", done.Changed), slog.Int("removed", done.Removed)}
		if n == 1 {
			attrs = append(attrs, plain("domain", last.Domain), plain("descriptor", last.Descriptor), plain("amount", string(last.Amount)), plain("note", last.Note))
		}
		d.Logger.LogAttrs(ctx, slog.LevelInfo, "amounts assigned", attrs...)
	}
	if d.InForce.entries == nil {
		done.Note = "without Redis, assigned amounts apply on this server only, until it stops"
	}
	return done, err
}

// batches collects changes of each part, with their lines, and makes some at once.
type batches struct {
	desk  *Desk
	done  *AssignedChanges
	parts [1 + plan.AssignedParts]struct {
		changes [][6]string
		lines   []int
	}
}

func (b *batches) add(ctx context.Context, line, part int, change [6]string) error {
	p := &b.parts[part]
	p.changes, p.lines = append(p.changes, change), append(p.lines, line)
	if len(p.changes) < atOnce {
		return nil
	}
	return b.make(ctx, part)
}

// make makes the changes of a part.
func (b *batches) make(ctx context.Context, part int) error {
	p, es := &b.parts[part], b.desk.InForce
	err := es.update(ctx, func(ctx context.Context) error {
		results, err := es.change(ctx, part, p.changes...)
		if err == nil {
			b.done.count(p.lines, results)
		}
		return err
	})
	p.changes, p.lines = nil, nil
	return err
}

// flush makes all collected changes.
func (b *batches) flush(ctx context.Context) error {
	for part := range b.parts {
		if len(b.parts[part].changes) > 0 {
			if err := b.make(ctx, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// change returns the change that carries out row.
func (row *Assignment) change(id, by string, adds bool) [6]string {
	amount, name := string(row.Amount), ""
	if adds {
		amount = "+" + amount
	}
	if row.ID != "" {
		digest := sha256.Sum256([]byte(row.ID))
		name = base64.RawStdEncoding.EncodeToString(digest[:8])
	}
	return [6]string{"assign", id, amount, by, plaintext.Line(row.Note), name}
}

// isSame reports whether row changes nothing of a text.
func isSame(text string, row Assignment) bool {
	fields := strings.SplitN(text, "\n", 5)
	return len(fields) == 5 && fields[0] == string(row.Amount) && (row.Note == "" || fields[3] == plaintext.Line(row.Note))
}

// prune removes the assigned amounts whose IDs are not in seen, unless the body has lines that could not
// be read, or they are more than a tenth of all and yes is false.
func (b *batches) prune(ctx context.Context, seen map[string]bool, complete, yes bool) error {
	var gone []string
	var parts []int
	all := 0
	for part := 1; part < len(b.parts); part++ {
		for id := range b.desk.InForce.parts[part].All() {
			if all++; !seen[id] {
				gone, parts = append(gone, id), append(parts, part)
			}
		}
	}
	if !complete || 10*len(gone) > all && !yes {
		b.done.Unpruned = len(gone)
		return nil
	}
	for i, id := range gone {
		if err := b.add(ctx, 0, parts[i], [6]string{"put", id}); err != nil {
			return err
		}
	}
	return nil
}

// assignedID returns the ID to which row refers, and its part, or why row is refused.
func (d *Desk) assignedID(tree *descriptors.Tree, row Assignment, how How) (id string, part int, err error) {
	domain, err := explain.ParseDomain(row.Domain)
	entries, invalid := explain.ParseDescriptor(row.Descriptor)
	amount, isAmount := plan.ParseAmount(string(row.Amount))
	if err = cmp.Or(err, invalid); err != nil {
		return "", 0, fmt.Errorf("descriptor %.100q: %w", row.Descriptor, err)
	}
	id, part = plan.AssignedID(domain, entries, row.Limit)
	if part++; how.Remove && d.InForce.parts[part].Text(id) != "" {
		return id, part, nil // even if its rule has gone
	}
	switch {
	case len(id) > maxText:
		return id, part, fmt.Errorf("domain, descriptor and limit have more than %d bytes", maxText)
	case len(row.Note) > maxNote || len(row.ID) > maxNote:
		return id, part, fmt.Errorf("the note or the id has more than %d bytes", maxNote)
	case !how.Remove && (!isAmount || how.Add && amount == plan.Unlimited):
		return id, part, fmt.Errorf("%.40q is not an amount; use 0 to %d%s", row.Amount, uint64(limiter.MaxAmount), map[bool]string{false: ", or unlimited"}[how.Add])
	}
	rule, counted, l, err := assignable(tree, domain, entries, row.Limit)
	if err == nil && !how.Remove && !how.Add {
		_, err = plan.WithAmount(rule, l, amount)
	}
	if err != nil {
		return id, part, err
	}
	id, part = plan.AssignedID(domain, counted, l.Name)
	if part++; how.Remove && d.InForce.parts[part].Text(id) == "" {
		return id, part, errors.New("nothing is assigned")
	}
	return id, part, nil
}

// assignable returns the rule to which a descriptor leads, the entries as they are counted, and the
// rule's limit with a name, or its only limit if name is empty. The error says why no amount can be
// assigned.
func assignable(tree *descriptors.Tree, domain string, entries []limiter.Entry, name string) (rule *descriptors.Rule, counted []limiter.Entry, l *limiter.Limit, err error) {
	work := descriptors.MaxWork
	rule, hold, counted := tree.Match(domain, entries, &work)
	if hold >= 0 {
		counted = slices.Delete(slices.Clone(counted), hold, hold+1)
	}
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
	case l == nil:
		err = fmt.Errorf("the rule %s has no limit %.40q, only %q", rule, name, names)
		if near := spelling.Nearest(name, names); near != "" {
			err = fmt.Errorf("%w; did you mean %q?", err, near)
		}
	}
	return rule, counted, l, err
}

// readLines calls yield with each assignment of a body, or with the reason why it cannot be read, and
// its line. It stops at an error of yield.
func readLines(body io.Reader, isCSV bool, yield func(line int, row Assignment, err error) error) error {
	if isCSV {
		return readCSV(body, yield)
	}
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for line := 1; lines.Scan(); line++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var row Assignment
		err := ReadJSON(lines.Bytes(), &row)
		if err == nil && !utf8.Valid(lines.Bytes()) {
			err = errors.New("it is not UTF-8; write other bytes as \\x and two digits")
		}
		if err := yield(line, row, err); err != nil {
			return err
		}
	}
	return lines.Err()
}

// readCSV reads the columns domain, descriptor, limit, amount and note. The first line may name them.
func readCSV(body io.Reader, yield func(line int, row Assignment, err error) error) error {
	r := csv.NewReader(body)
	r.FieldsPerRecord, r.ReuseRecord, r.TrimLeadingSpace = -1, true, true
	for {
		fields, err := r.Read()
		invalid, isParse := errors.AsType[*csv.ParseError](err)
		var line int
		var row Assignment
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case isParse:
			line, err = invalid.Line, invalid.Err
		case err != nil:
			return err
		case len(fields) > 5:
			line, _ = r.FieldPos(0)
			err = fmt.Errorf("it has %d columns, at most 5 are allowed: domain, descriptor, limit, amount, note; put a value with a comma in double quotes", len(fields))
		default:
			line, _ = r.FieldPos(0)
			fields = append(slices.Clone(fields), "", "", "", "")
			row = Assignment{Domain: fields[0], Descriptor: fields[1], Limit: fields[2], Amount: Amount(strings.TrimSpace(fields[3])), Note: fields[4]}
			if line == 1 && row.Domain == "domain" && row.Descriptor == "descriptor" {
				continue
			}
		}
		if err := yield(line, row, err); err != nil {
			return err
		}
	}
}

// assigned returns what is assigned to a limit for entries, or nil.
func (d *Desk) assigned(domain string, entries []limiter.Entry, limit string) *Assignment {
	if d.Plan.Assigned == nil {
		return nil
	}
	id, part := plan.AssignedID(domain, entries, limit)
	text := d.Plan.Assigned.Parts[part].Text(id)
	if text == "" {
		return nil
	}
	return new(assignmentOf(id, text))
}

// assignmentOf returns an entry in the form of answers.
func assignmentOf(id, text string) Assignment {
	domain, entries, limit := plan.ReadAssignedID(id)
	fields := append(strings.SplitN(text, "\n", 5), "", "", "", "")
	since, _ := strconv.ParseInt(fields[1], 10, 64)
	return Assignment{
		Domain: explain.FormatDomain(domain), Descriptor: explain.FormatDescriptor(entries), Limit: limit,
		Amount: Amount(fields[0]), Since: time.UnixMilli(since).UTC(), By: fields[2], Note: fields[3],
	}
}

// Assigned returns the first n assigned amounts of a domain, or of all if it is empty, whose descriptor
// begins with prefix. Both are in the syntax of commands.
func (d *Desk) Assigned(domain, prefix string, n int) AssignmentList {
	list := AssignmentList{Assigned: []Assignment{}}
	for i := range d.InForce.Assigned.Parts {
		part := &d.InForce.Assigned.Parts[i]
		var ids []string
		for id := range part.All() {
			ids = append(ids, id)
		}
		for _, id := range ids {
			if a := assignmentOf(id, part.Text(id)); strings.HasPrefix(a.Descriptor, prefix) && (domain == "" || domain == a.Domain) {
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
