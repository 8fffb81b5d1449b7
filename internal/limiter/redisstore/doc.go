// Package redisstore keeps counters in Redis, where any number of processes
// share them: in one server, in a primary that sentinels know, or in a cluster;
// and those of limits per second, if so told, in a second Redis.
//
// One EVALSHA of lua/decide.lua decides whole requests, each all or nothing.
// Requests that arrive while a call is in flight wait for it and go together
// into the next one: no timer delays a request, and the busier the store, the
// fewer calls per request it makes. lane.go holds what makes these calls, queue.go
// what waits for them, batch.go what goes into one, script.go the call, breaker.go
// whether there is use in calls, backend.go one Redis, store.go what a caller sees of
// all. Package redisconn connects to Redis.
//
// In a cluster there is a lane for each hash slot that has counters. What limiter.Keys
// spells for clusters has a hash tag of few different ones, so that requests share
// calls there, too. A request whose counters have several lanes is decided in two
// steps, see spread.go.
//
// Redis' clock tells the time, so that processes need not agree on theirs.
// Counters expire with their window. A value that is none of a counter's counts
// as unused and is replaced, so that it makes no request fail. Redis must be of
// version 6.0 or later, and no replica.
//
// A call is never repeated once Redis may have seen it, since that would charge
// twice. The price is that a request in flight when a connection breaks fails,
// and may have been counted.
package redisstore
