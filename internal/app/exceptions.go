package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"weir/internal/adminapi"
	"weir/internal/exceptions"
	"weir/internal/limiter"
)

// firstLoad bounds how long a start waits for the exceptions: a Redis that is not there
// yet is asked again later.
const firstLoad = 500 * time.Millisecond

// openExceptions loads the exceptions if their store is there, and returns where those in
// force are.
func (a *App) openExceptions() *atomic.Pointer[exceptions.Set] {
	a.exceptions = exceptions.NewKeeper(exceptions.Options{Store: a.exceptionStore(), Registerer: a.opts.Registry, Logger: a.logger})
	ctx, cancel := context.WithTimeout(context.Background(), firstLoad)
	defer cancel()
	_ = a.exceptions.Load(ctx) // which has logged it
	return a.exceptions.Current()
}

// exceptionStore returns what keeps exceptions for all servers.
func (a *App) exceptionStore() exceptions.Store {
	return new(exceptions.Memory)
}

// tooLong is longer than any exception may last, and a Duration.
const tooLong = 1000 * 24 * time.Hour

// addException adds an exception for somebody at the address peer.
func (a *App) addException(ctx context.Context, n adminapi.NewException, peer string) (adminapi.Exception, error) {
	domain, entries, err := n.Bytes()
	if err != nil {
		return adminapi.Exception{}, err
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
		return adminapi.Exception{}, exceptionError(err)
	}
	return newException(e), nil
}

// removeException ends the exception with id, for by at the address peer.
func (a *App) removeException(ctx context.Context, id, by, peer string) error {
	if err := a.exceptions.Remove(ctx, id, by, peer); err != nil {
		return exceptionError(fmt.Errorf("exception %.70q: %w", id, err))
	}
	return nil
}

// listExceptions returns those in force, with their uses here.
func (a *App) listExceptions() adminapi.Exceptions {
	list := adminapi.Exceptions{Exceptions: []adminapi.Exception{}, Servers: 1}
	for _, e := range a.exceptions.All() {
		list.Exceptions = append(list.Exceptions, newException(e))
	}
	return list
}

// findException returns the exception that applies to a descriptor, nil if none does.
func (a *App) findException(domain string, entries []limiter.Entry) *adminapi.Exception {
	if e := a.exceptions.Find(domain, entries); e != nil {
		return new(newException(e))
	}
	return nil
}

func newException(e *exceptions.Exception) adminapi.Exception {
	var entries []adminapi.KeyValue
	for _, entry := range e.Entries {
		entries = append(entries, adminapi.KeyValue(entry))
	}
	return adminapi.Exception{
		ID: e.ID, Descriptor: adminapi.NewDescriptor(e.Domain, entries), Effect: e.Effect.String(), Factor: e.Factor,
		Created: e.Created, Until: e.Until, By: e.By, Reason: e.Reason, Used: e.Used(),
	}
}

// exceptionError returns err as one of the kinds of adminapi.
func exceptionError(err error) error {
	for of, kind := range map[error]error{
		exceptions.ErrBad: adminapi.ErrBadRequest, exceptions.ErrNotFound: adminapi.ErrNotFound,
		exceptions.ErrFull: adminapi.ErrFull, exceptions.ErrStore: adminapi.ErrUnavailable,
	} {
		if errors.Is(err, of) {
			return adminapi.Errorf(kind, "%w", err)
		}
	}
	return err
}
