package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Record is what a Board keeps, of which it knows no more.
type Record struct {
	ID   string // of 1 to 64 letters and digits of ASCII
	Body []byte // at most MaxRecord bytes
}

// Version is that of the records of a Board. They are lost together with it, or not at
// all: then it is the zero one, and with the next record it has another epoch. The count
// grows with each change.
type Version struct {
	Epoch string
	Count uint64
}

// MaxRecord is the largest body of a record, in bytes.
const MaxRecord = 16 << 10

// ErrFull is the error of Add where there are as many records as there may be.
var ErrFull = errors.New("there are as many records as there may be")

const (
	// recordsPerCall is how many are read or written in one call, which keeps Redis busy
	// for less than a millisecond, and 4 MiB of memory.
	recordsPerCall = 256
	// loads is how often records are read that change meanwhile.
	loads = 5
)

var errChanging = errors.New("the records change while they are read")

// Load returns all records, and their version. If that is known, it reads nothing else
// and returns none.
func (b *Board) Load(ctx context.Context, known Version) ([]Record, Version, error) {
	version, err := b.version(ctx)
	for range loads {
		if err != nil || version == known || version == (Version{}) {
			return nil, version, err
		}
		var records []Record
		if records, err = b.read(ctx); err != nil {
			return nil, Version{}, err
		}
		before := version
		// Several calls have read them. If they were lost in between, some must not be
		// taken for removed.
		if version, err = b.version(ctx); err == nil && version == before {
			return records, version, nil
		}
	}
	return nil, Version{}, cmp.Or(err, unavailable(errChanging))
}

// version returns that of the records, the zero one if there are none.
func (b *Board) version(ctx context.Context) (Version, error) {
	said, err := b.client.current().HMGet(ctx, b.records, ".epoch", ".count").Result()
	if err != nil {
		return Version{}, b.failed(err)
	}
	epoch, _ := said[0].(string)
	text, _ := said[1].(string)
	count, err := strconv.ParseUint(text, 10, 64)
	if epoch == "" || err != nil {
		return Version{}, nil // nothing that a Board has written
	}
	return Version{epoch, count}, nil
}

// read returns all records.
func (b *Board) read(ctx context.Context) ([]Record, error) {
	ids, err := b.client.current().HKeys(ctx, b.records).Result()
	if err != nil {
		return nil, b.failed(err)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" || id[0] == '.' })
	records := make([]Record, 0, len(ids))
	for chunk := range slices.Chunk(ids, recordsPerCall) {
		bodies, err := b.client.current().HMGet(ctx, b.records, chunk...).Result()
		if err != nil {
			return nil, b.failed(err)
		}
		for i, body := range bodies {
			if text, there := body.(string); there {
				records = append(records, Record{chunk[i], []byte(text)})
			}
		}
	}
	return records, nil
}

// Add puts r beside the others, or in the place of one with the same ID. If it is new and
// there are most records or more, it returns ErrFull.
func (b *Board) Add(ctx context.Context, r Record, most int) error {
	if len(r.Body) > MaxRecord {
		return fmt.Errorf("a record of %d bytes is too large, at most %d are allowed", len(r.Body), MaxRecord)
	}
	added, err := b.eval(ctx, addScript, b.records, r.ID, r.Body, most, newName()).Int()
	switch {
	case err != nil:
		return b.failed(err)
	case added == 0:
		return ErrFull
	}
	return nil
}

// Remove removes the record with id, and reports whether there was one.
func (b *Board) Remove(ctx context.Context, id string) (bool, error) {
	removed, err := b.eval(ctx, removeScript, b.records, id).Int()
	return removed == 1, b.failed(err)
}

// Restore adds those of records whose ID is missing, and leaves the others as they are.
// Many are added in several calls.
func (b *Board) Restore(ctx context.Context, records []Record) error {
	for chunk := range slices.Chunk(records, recordsPerCall) {
		args := []any{newName()}
		for _, r := range chunk {
			args = append(args, r.ID, r.Body)
		}
		if err := b.eval(ctx, restoreScript, b.records, args...).Err(); err != nil {
			return b.failed(err)
		}
	}
	return nil
}

// Forget removes the records with ids, and leaves the version.
func (b *Board) Forget(ctx context.Context, ids []string) error {
	for chunk := range slices.Chunk(ids, recordsPerCall) {
		if err := b.client.current().HDel(ctx, b.records, chunk...).Err(); err != nil {
			return b.failed(err)
		}
	}
	return nil
}
