// Package redisstore keeps counters in a single Redis, where any number of
// processes share them.
//
// One EVALSHA of lua/decide.lua decides whole requests, each all or nothing.
// Requests that arrive while a call is in flight wait for it and go together
// into the next one: no timer delays a request, and the busier the store, the
// fewer calls per request it makes. queue.go holds that queue, batch.go what
// waits in it, script.go the call, store.go what a caller sees of them.
//
// Redis' clock tells the time, so that processes need not agree on theirs.
// Counters expire with their window. A value that is none of a counter's counts
// as unused and is replaced, so that it makes no request fail. Redis must be of
// version 6.0 or later, and one primary: neither a cluster nor a replica.
//
// A call is never repeated once Redis may have seen it, since that would charge
// twice. The price is that a request in flight when a connection breaks fails,
// and may have been counted.
package redisstore
