// Package redis keeps counters in Redis, where any number of processes
// share them: in one server, in a primary that sentinels know, or in a cluster;
// and those of limits per second, if that is set, in a second Redis.
//
// In come the hits of a request, out go their decisions, all or nothing. One EVALSHA
// decides whole requests: those that arrive while a call is in flight wait for it and go
// together into the next one. No timer delays a request, and the busier the store, the
// fewer calls per request it makes.
//
// Read store.go first, then ARCHITECTURE.md for the files through which a request goes. In a
// cluster each primary has a node, whose calls are pipelines with a batch for each hash slot.
//
// The time is that of Redis' clock, so that processes need not agree on theirs.
// Counters expire with their window. A value that is not a state of a counter
// counts as unused and is replaced, so that no request fails for it. Redis must be of
// version 6.0 or later, and no replica.
//
// A call is never repeated once Redis may have seen it, since that would charge
// twice. The price is that a request in flight when a connection breaks fails,
// and may have been counted.
package redis
