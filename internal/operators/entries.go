package operators

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"weir/internal/plan"
)

// feed has a server's copy of the texts that servers share, and keeps it up to date. Redis has one version and,
// for each part, a list of the last changes. A change is a token of 8 bytes and the ID of a text. If Redis
// loses changes, as after a failover or a flush, each server that notices it restores its texts.
type feed struct {
	set     plan.SharedSet
	entries EntryStore // or nil if this server does not share its texts
	logger  *slog.Logger

	// Emptied is the time at which feed noticed that Redis had lost its data, in seconds since the epoch, or 0.
	Emptied  atomic.Int64
	version  string                     // last version read; its first 8 bytes differ after Redis has lost its data
	checked  time.Time                  // time of the last refresh of all parts
	restored int                        // number of restored texts that is not logged yet
	changed  bool                       // an exception has changed since the last take
	changes  [plan.SharedParts][]string // the last changes that were read, newest last, or nil before the first read
	there    [plan.SharedParts]bool     // Redis had texts of the part at the last read
}

const (
	maxChanges = 4096        // in a list of changes, as in change.lua
	maxRead    = 1000        // changes in a reply, as in changes.lua
	checkEvery = time.Minute // to find changes that an older version of Weir made without the list
	atOnce     = 32          // maximum number of changes in a call, so that a call hardly delays decisions
)

// newest returns the newest change that this server has read from a part, in the form of change.lua.
// Before the first read, newest returns a text that matches no change.
func (f *feed) newest(part int) string {
	if f.changes[part] == nil {
		return "?"
	}
	return newestOf(f.there[part], f.changes[part])
}

// newestOf returns the last change or, without changes, "." if Redis has texts of the part, else "".
func newestOf(there bool, changes []string) string {
	switch {
	case len(changes) > 0:
		return changes[len(changes)-1]
	case there:
		return markerID
	}
	return ""
}

// add puts the text of the newest change of a part, and remembers the change.
func (f *feed) add(part int, change, text string) {
	f.put(part, change[8:], text)
	known := append(f.changes[part], change)
	f.changes[part] = known[max(0, len(known)-maxChanges):]
}

func (f *feed) put(part int, id, text string) {
	if f.set.Text(part, id) != text {
		f.set.Put(part, id, text)
		f.changed = f.changed || part == 0
	}
}

// load reads the new changes of all parts if the version has changed or the last refresh is checkEvery ago.
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
	if version == "" { // Redis is new, or has lost its data
		_, err = f.entries.Change(call, 0, f.newest(0), cryptorand.Text()[:8], false, nil)
	} else if f.version != "" && version[:8] != f.version[:8] {
		f.Emptied.Store(time.Now().Unix())
	}
	f.version, f.checked = cmp.Or(version, f.version), time.Now()
	return err
}

func (f *feed) refreshAll(ctx context.Context) error {
	for _, part := range rand.Perm(plan.SharedParts) { //nolint:gosec // in random order, so that servers share the work if Redis has lost everything
		if err := f.refresh(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// refresh reads the new changes of a part. If Redis has lost changes, refresh first restores the texts.
func (f *feed) refresh(ctx context.Context, part int) error {
	for f.entries != nil {
		call, cancel := context.WithTimeout(ctx, patience)
		size, changes, texts, found, err := f.entries.Changes(call, part, f.newest(part))
		cancel()
		if err != nil {
			return err
		}
		known, n := f.changes[part], f.set.Len(part)
		f.there[part] = size >= 0
		fewer := n > 0 && (size < 0 || part > 0 && len(known) == 0 && len(changes) < maxRead && size < n-len(changes)) // a change removes at most one text
		isLost := known != nil && (fewer || !found && (len(changes) < maxChanges || len(known) > 0 && slices.Contains(changes, known[0])))
		switch {
		case isLost || !found: // also at the first read, and if this server is too far behind
			if isLost {
				if restored, err := f.restore(ctx, part, changes); err != nil {
					return err
				} else if !restored {
					continue
				}
			}
			if err := f.readAll(ctx, part); err != nil {
				return err
			}
			slices.Reverse(changes)
			f.changes[part] = append([]string{}, changes...)
		case len(changes) == 0 && size >= 0 && size != n: // another server has set lost texts again, or an older version has made changes
			return f.readAll(ctx, part)
		case len(changes) == 0:
			return nil
		default:
			for i, change := range slices.Backward(changes) {
				f.add(part, change, texts[i])
			}
		}
	}
	return nil
}

// readAll reads all texts of a part.
func (f *feed) readAll(ctx context.Context, part int) error {
	stored, err := f.stored(ctx, part)
	if err != nil {
		return err
	}
	for id := range f.set.All(part) {
		f.put(part, id, stored[id])
	}
	for id, text := range stored {
		f.put(part, id, text)
	}
	return nil
}

// stored returns a part's texts in Redis by ID.
func (f *feed) stored(ctx context.Context, part int) (map[string]string, error) {
	texts := map[string]string{}
	err := f.entries.Scan(ctx, part, func(id, text string) { texts[id] = text })
	delete(texts, markerID)
	return texts, err
}

// restore sets each known text again that is missing or older in Redis, and repeats each known removal that
// is missing from changes, the list in Redis. It leaves texts that other servers have changed since the
// loss, and does not change f.set. It returns false if another server has changed the part first.
func (f *feed) restore(ctx context.Context, part int, changes []string) (restored bool, err error) {
	known, made, changed, again := map[string]bool{}, map[string]bool{}, map[string]bool{}, [][2]string{}
	for _, change := range f.changes[part] {
		known[change] = true
	}
	for _, change := range changes {
		made[change] = true
		changed[change[8:]] = changed[change[8:]] || !known[change]
	}
	stored, err := f.stored(ctx, part)
	if err != nil {
		return false, err
	}
	for id, text := range f.set.All(part) {
		if text != stored[id] && (stored[id] != "" || !changed[id]) {
			again = append(again, [2]string{id, text})
		}
	}
	for change := range known {
		if id := change[8:]; !made[change] && !changed[id] && stored[id] != "" && f.set.Text(part, id) == "" {
			again = append(again, [2]string{id})
			changed[id] = true // once, even if it was changed several times
		}
	}
	newest := newestOf(f.there[part], changes[:min(len(changes), 1)])
	for some := range slices.Chunk(again, atOnce) {
		call, cancel := context.WithTimeout(ctx, patience)
		newest, err = f.entries.Change(call, part, newest, cryptorand.Text()[:8], true, some)
		cancel()
		if err != nil || newest == "behind" {
			return false, err
		}
		f.restored += len(some)
	}
	return true, nil
}

// change changes texts of a part in Redis and in f.set. edit returns a new slice of the new texts by ID, with
// "" to remove a text. If another server has changed the part, change calls edit again, so no change is lost.
func (f *feed) change(ctx context.Context, part int, edit func() [][2]string) error {
	for {
		texts := slices.DeleteFunc(edit(), func(text [2]string) bool { return f.set.Text(part, text[0]) == text[1] })
		if f.entries == nil || len(texts) == 0 {
			for _, text := range texts {
				f.put(part, text[0], text[1])
			}
			return nil
		}
		call, cancel := context.WithTimeout(ctx, patience)
		token := cryptorand.Text()[:8]
		newest, err := f.entries.Change(call, part, f.newest(part), token, false, texts)
		cancel()
		if err == nil && newest == token+texts[len(texts)-1][0] { // no need to read the changes from Redis
			for _, text := range texts {
				f.add(part, token+text[0], text[1])
			}
			return nil
		}
		if err == nil && newest == "wait" {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
			err = f.refreshAll(ctx) // other parts may also be lost, and other servers wait for their texts
			if err == nil {
				err = f.readAll(ctx, part) // the list lacks texts that other servers have set again
			}
		}
		if err == nil {
			err = f.refresh(ctx, part)
		}
		switch {
		case err != nil:
			return Errorf(ErrUnavailable, "Redis failed, so the change may or may not apply: %w", err)
		case newest == "behind" || newest == "wait":
			continue
		case !slices.Contains(f.changes[part], newest):
			return Errorf(ErrUnavailable, "Redis has lost the change at once, so it may or may not apply")
		}
		return nil
	}
}
