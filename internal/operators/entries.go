package operators

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// feed is a server's copy of the entries that servers share: texts by ID, in parts. It follows them by
// one version number and a list of the last changes of each part. A change has a token of 8 bytes and
// the ID. If Redis loses changes, as after a failover or a flush, the first server to notice makes
// them again.
type feed struct {
	entries EntryStore // or nil if this server does not share them
	logger  *slog.Logger
	parts   []*part

	// Emptied is the time at which Redis had lost its data, in seconds since the epoch, or 0.
	Emptied  atomic.Int64
	version  string    // its first 8 bytes differ after Redis has lost its data
	checked  time.Time // time of the last comparison of all parts
	restored int       // changes that were made again, until they are logged
}

// part is the copy of a part.
type part struct {
	texts
	isRead  bool
	changes []string // the last changes that were read, newest first
}

// texts has the texts of a part.
type texts interface {
	Put(id, text string) // removes the text if it is empty
	Text(id string) string
	Len() int
	All() iter.Seq2[string, string] // "" for a text that this version cannot read
}

const (
	maxChanges = 4096        // in a list of changes, as in change.lua
	checkEvery = time.Minute // for changes that an older version made without the list
	atOnce     = 64          // changes in a call, so that decisions need not wait for Redis
)

// newest returns the newest change that was read, or "" if there was none. Before the first read, it
// returns a text that is no change.
func (p *part) newest() string {
	switch {
	case !p.isRead:
		return "?"
	case len(p.changes) == 0:
		return ""
	}
	return p.changes[0]
}

// load reads all changes if the version differs.
func (f *feed) load(ctx context.Context) error {
	if f.entries == nil {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	version, err := f.entries.Version(call)
	if f.restored > 0 {
		f.logger.Warn("Redis has lost exceptions or assigned amounts, they are restored", "changes", f.restored)
		f.restored = 0
	}
	if err != nil || version == f.version && time.Since(f.checked) < checkEvery {
		return err
	}
	if err := f.refreshAll(ctx); err != nil {
		return err
	}
	if version == "" { // nobody has made a change since Redis is new, or has lost its data
		_, err = f.entries.Change(call, 0, f.parts[0].newest(), "", cryptorand.Text()[:8], nil)
	} else if f.version != "" && version[:8] != f.version[:8] {
		f.Emptied.Store(time.Now().Unix())
	}
	f.version, f.checked = cmp.Or(version, f.version), time.Now()
	return err
}

func (f *feed) refreshAll(ctx context.Context) error {
	for _, i := range rand.Perm(len(f.parts)) { //nolint:gosec // in any order, so that servers share the work if Redis has lost all
		if err := f.refresh(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// refresh reads the changes of a part.
func (f *feed) refresh(ctx context.Context, i int) error {
	for p := f.parts[i]; f.entries != nil; {
		call, cancel := context.WithTimeout(ctx, patience)
		size, changes, texts, found, err := f.entries.Changes(call, i, p.newest())
		cancel()
		fewer := size < p.Len() && (size < 0 && p.Len() > 0 || i > 0 && len(p.changes)+len(changes) == 0 && size >= 0)
		isLost := p.isRead && (fewer || !found && len(changes) < maxChanges)
		switch {
		case err != nil:
			return err
		case isLost:
			if err := f.restore(ctx, i, changes); err != nil {
				return err
			}
		case !found: // the first read, or too far behind
			p.changes, p.isRead = changes, true
			if err := f.scan(ctx, i); err != nil {
				p.isRead = false
				return err
			}
		case len(changes) == 0 && size >= 0 && size != p.Len(): // an older version has made changes
			return f.scan(ctx, i)
		case len(changes) == 0:
			return nil
		default:
			for j, change := range slices.Backward(changes) {
				p.Put(change[8:], texts[j])
			}
			p.changes = append(changes, p.changes[:min(len(p.changes), maxChanges-len(changes))]...)
		}
	}
	return nil
}

// scan reads all texts of a part.
func (f *feed) scan(ctx context.Context, i int) error {
	p, stored := f.parts[i], map[string]string{}
	if err := f.entries.Scan(ctx, i, func(id, text string) { stored[id] = text }); err != nil {
		return err
	}
	delete(stored, markerID)
	for id := range p.copied() {
		if stored[id] == "" {
			p.Put(id, "")
		}
	}
	for id, text := range stored {
		if p.Text(id) != text {
			p.Put(id, text)
		}
	}
	return nil
}

// copied returns a copy of the texts, with "" for those that cannot be read.
func (p *part) copied() map[string]string {
	all := make(map[string]string, p.Len())
	maps.Insert(all, p.All())
	return all
}

// restore makes changes again that Redis has lost. If it still has one of the known changes, it has lost
// the newer ones, and other servers may have made newer ones since. Otherwise it has lost the part, which
// other servers may have begun to restore. Until all is done, what is known stays.
func (f *feed) restore(ctx context.Context, i int, stored []string) error {
	p, again, newest := f.parts[i], [][6]string{}, append(stored, "")[0]
	last := slices.IndexFunc(p.changes, func(c string) bool { return slices.Contains(stored, c) })
	if last >= 0 {
		done := map[string]bool{}
		for _, change := range stored[:slices.Index(stored, p.changes[last])] {
			done[change[8:]] = true
		}
		for _, change := range p.changes[:last] {
			if id := change[8:]; !done[id] {
				again, done[id] = append(again, [6]string{"put", id, p.Text(id), change}), true
			}
		}
		slices.Reverse(again)
	} else {
		texts := map[string]string{}
		if err := f.entries.Scan(ctx, i, func(id, text string) { texts[id] = text }); err != nil {
			return err
		}
		for id, text := range p.copied() {
			if text != "" && text != texts[id] {
				again = append(again, [6]string{"keep", id, text})
			}
		}
	}
	for some := range slices.Chunk(again, atOnce) {
		call, cancel := context.WithTimeout(ctx, patience)
		results, err := f.entries.Change(call, i, newest, "again", cryptorand.Text()[:8], some)
		cancel()
		if err != nil || results[0] == "behind" {
			return err // refresh looks again
		}
		if f.restored += len(some); last >= 0 {
			newest = some[len(some)-1][3]
		}
	}
	if last >= 0 {
		p.changes = p.changes[last:]
		return nil
	}
	p.changes = stored
	return f.scan(ctx, i) // some texts may be newer, or those of other servers
}

// change makes changes of a part, as change.lua describes, and reads them. It returns the results.
func (f *feed) change(ctx context.Context, i int, changes ...[6]string) ([]string, error) {
	if f.entries == nil {
		results, p := []string{}, f.parts[i]
		for _, c := range changes {
			text, result := changed(p.Text(c[1]), c)
			p.Put(c[1], text)
			results = append(results, result)
		}
		return results, nil
	}
	for {
		call, cancel := context.WithTimeout(ctx, patience)
		p, how, token := f.parts[i], "", cryptorand.Text()[:8]
		if p.Len() > 0 {
			how = "known"
		}
		results, err := f.entries.Change(call, i, p.newest(), how, token, changes)
		cancel()
		if err == nil && results[0] == "wait" {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			err = f.refreshAll(ctx) // other servers wait for what this one knows of other parts
		}
		if err == nil {
			err = f.refresh(ctx, i)
		}
		switch {
		case err != nil:
			return nil, Errorf(ErrUnavailable, "Redis failed, so the change may or may not apply: %w", err)
		case results[0] == "behind" || results[0] == "wait":
			continue
		}
		for j, c := range changes { // Redis may have lost them before they were read
			made := slices.Contains([]string{"added", "changed", "removed"}, results[j])
			if made && !slices.Contains(p.changes, token+c[1]) || (made || results[j] == "same") && !strings.Contains(p.Text(c[1]), c[5]) {
				return nil, Errorf(ErrUnavailable, "Redis has lost the change at once, so it may or may not apply")
			}
		}
		return results, nil
	}
}

// changed returns the text after a change, and the result, as change.lua does.
func changed(old string, c [6]string) (text, result string) {
	text = c[2]
	if c[0] == "assign" {
		fields := strings.SplitN(cmp.Or(old, "0\n\n\n\n"), "\n", 5)
		was, ok := plan.ParseAmount(fields[0])
		more, adds := strings.CutPrefix(c[2], "+")
		amount, _ := plan.ParseAmount(more)
		switch {
		case len(fields) < 5 || !ok:
			return old, "unread"
		case c[5] != "" && strings.Contains(fields[4], c[5]), adds && was == plan.Unlimited,
			!adds && old != "" && amount == was && (c[4] == "" || c[4] == fields[3]):
			return old, "same"
		case adds && was+amount > limiter.MaxAmount:
			return old, "large"
		case adds:
			more = strconv.FormatUint(was+amount, 10)
		}
		names := fields[4] + c[5]
		names = names[max(0, len(names)-16*changeName):]
		text = more + "\n" + c[3] + "\n" + cmp.Or(c[4], fields[3]) + "\n" + names
	}
	switch {
	case text == old:
		return old, "same"
	case text == "":
		return "", "removed"
	case old == "":
		return text, "added"
	}
	return text, "changed"
}
