package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/spelling"
	"weir/internal/limiter"
	"weir/internal/limiter/redis"
	"weir/internal/operators/api"
	"weir/internal/operators/exceptions"
	"weir/internal/plan"
)

// firstLoad bounds how long a start waits for the exceptions: a Redis that is not there
// yet is asked again later.
const firstLoad = 500 * time.Millisecond

// openExceptions loads the exceptions if their store is there, and returns where those in
// force are.
func (a *App) openExceptions() *atomic.Pointer[plan.Exceptions] {
	a.exceptions = exceptions.NewKeeper(exceptions.Options{Store: a.exceptionStore(), Registerer: a.opts.Registry, Logger: a.logger})
	ctx, cancel := context.WithTimeout(context.Background(), firstLoad)
	defer cancel()
	_ = a.exceptions.Load(ctx) // which has logged it
	return a.exceptions.Current()
}

// exceptionStore returns what keeps exceptions for all servers.
func (a *App) exceptionStore() exceptions.Store {
	if a.store.board != nil {
		return sharedExceptions{a.store.board}
	}
	return new(exceptions.Memory)
}

// tooLong is longer than any exception may last, and a Duration.
const tooLong = 1000 * 24 * time.Hour

// addException adds an exception for somebody at the address peer.
func (a *App) addException(ctx context.Context, n api.NewException, peer string) (api.Exception, error) {
	domain, entries, err := n.Bytes()
	if err != nil {
		return api.Exception{}, err
	}
	wanted := exceptions.New{
		Domain: domain, Effect: n.Effect, Factor: n.Factor, By: n.By, Reason: n.Reason,
		For: time.Duration(max(min(n.For, tooLong.Seconds()), 0) * float64(time.Second)),
	}
	for _, e := range entries {
		wanted.Entries = append(wanted.Entries, limiter.Entry(e))
	}
	e, err := a.exceptions.Add(ctx, wanted, peer)
	if err != nil {
		return api.Exception{}, exceptionError(err)
	}
	added := newException(e)
	added.Note = a.unknownDomain(domain)
	return added, nil
}

// unknownDomain says that no rule has a domain, and which one may be meant, "" if one has.
func (a *App) unknownDomain(domain string) string {
	tree := a.rules.tree.Load()
	if tree == nil || tree.HasDomain(domain) {
		return ""
	}
	note := "no rule has the domain " + descriptors.Spell(limiter.Entry{Key: domain})
	if near := spelling.Nearest(domain, tree.DomainNames()); near != "" {
		note += fmt.Sprintf(", did you mean %s?", descriptors.Spell(limiter.Entry{Key: near}))
	}
	return note
}

// removeException ends the exception with id, for by at the address peer.
func (a *App) removeException(ctx context.Context, id, by, peer string) error {
	if err := a.exceptions.Remove(ctx, id, by, peer); err != nil {
		return exceptionError(fmt.Errorf("exception %.70q: %w", id, err))
	}
	return nil
}

// listExceptions returns those in force, with their uses here.
func (a *App) listExceptions() api.Exceptions {
	list := api.Exceptions{Exceptions: []api.Exception{}, Servers: 1}
	for _, e := range a.exceptions.All() {
		list.Exceptions = append(list.Exceptions, newException(e))
	}
	return list
}

// exceptionsOf returns those in force, with their uses here, or on all servers that share
// the Redis of this one.
func (a *App) exceptionsOf(ctx context.Context, all bool) (api.Exceptions, error) {
	list := a.listExceptions()
	uses, servers, err := a.usesOf(ctx, all)
	for i := range list.Exceptions {
		list.Exceptions[i].Used = uses[list.Exceptions[i].ID]
	}
	list.Servers = servers
	return list, err
}

// usesHere is how often each exception was applied here, by its ID.
func (a *App) usesHere() map[string]uint64 {
	uses := map[string]uint64{}
	for _, e := range a.exceptions.All() {
		uses[e.ID] = e.Used()
	}
	return uses
}

// findException returns the exception that applies to a descriptor, nil if none does.
func (a *App) findException(domain string, entries []limiter.Entry) *api.Exception {
	if e := a.exceptions.Find(domain, entries); e != nil {
		return new(newException(e))
	}
	return nil
}

func newException(e *plan.Exception) api.Exception {
	return api.Exception{
		ID: e.ID, Descriptor: api.NewDescriptor(e.Domain, e.Entries), Effect: string(e.Effect), Factor: e.Factor,
		Created: e.Created, Until: e.Until, By: e.By, Reason: e.Reason, Used: e.Used(),
	}
}

// exceptionError returns err as one of the kinds of adminapi.
func exceptionError(err error) error {
	for of, kind := range map[error]error{
		exceptions.ErrBad: api.ErrBadRequest, exceptions.ErrNotFound: api.ErrNotFound,
		exceptions.ErrFull: api.ErrFull, exceptions.ErrStore: api.ErrUnavailable,
	} {
		if errors.Is(err, of) {
			return api.Errorf(kind, "%w", err)
		}
	}
	return err
}

// sharedExceptions are those that all servers on one Redis have.
type sharedExceptions struct{ board *redis.Board }

// Load implements exceptions.Store.
func (s sharedExceptions) Load(ctx context.Context, known exceptions.Version) ([]exceptions.Record, exceptions.Version, error) {
	records, version, err := s.board.Load(ctx, redis.Version(known))
	of := make([]exceptions.Record, len(records))
	for i, r := range records {
		of[i] = exceptions.Record(r)
	}
	return of, exceptions.Version(version), err
}

// Add implements exceptions.Store.
func (s sharedExceptions) Add(ctx context.Context, r exceptions.Record, most int) error {
	err := s.board.Add(ctx, redis.Record(r), most)
	if errors.Is(err, redis.ErrFull) {
		return exceptions.ErrFull
	}
	return err
}

// Remove implements exceptions.Store.
func (s sharedExceptions) Remove(ctx context.Context, id string) (bool, error) {
	return s.board.Remove(ctx, id)
}

// Restore implements exceptions.Store.
func (s sharedExceptions) Restore(ctx context.Context, records []exceptions.Record) error {
	of := make([]redis.Record, len(records))
	for i, r := range records {
		of[i] = redis.Record(r)
	}
	return s.board.Restore(ctx, of)
}

// Forget implements exceptions.Store.
func (s sharedExceptions) Forget(ctx context.Context, ids []string) error {
	return s.board.Forget(ctx, ids)
}
