// Package redis keeps counters in Redis, where any number of servers share them: a single Redis,
// the primary that sentinels know, or a cluster; and optionally a second Redis for limits per
// second.
//
// It takes the hits of a request and returns their decisions, all or nothing. One EVALSHA decides
// many requests: those that arrive during a call wait for it and share the next one. No timer
// delays a request, and the busier the store, the fewer calls per request it makes.
//
// Read store.go first. Each package knows only those before it: conn connects to a Redis and sends
// commands, wire writes requests as arguments of the script and reads its replies, queue makes the
// calls, and this package is the store.
//
// The time is that of Redis, so that the clocks of servers need not agree. Counters expire with
// their window. A value that is not a state of a counter counts as unused and is replaced, so that
// it fails no request. Redis must be of version 6.0 or later, and not a replica.
//
// A call is never repeated once Redis may have executed it, since that would charge twice.
// Therefore a request in flight when a connection breaks fails, and may have been charged.
package redis
