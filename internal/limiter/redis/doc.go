// Package redis keeps counters in Redis, where any number of servers share them. The counters of
// limits per second may be in a second deployment.
//
// The store decides the hits of a request, all or nothing. Requests that arrive during a call share
// the next one, so the busier the store, the fewer calls per request it makes.
//
// Read store.go first. Each of these packages imports only packages before it in this list: conn
// connects to a Redis and sends commands, wire writes requests as arguments of the script and
// reads its replies, queue makes the calls, and this package is the store.
//
// Redis provides the time, so the clocks of servers need not agree. A counter expires when its
// charges no longer count. A stored value that is not the state of a counter is treated as an
// unused counter and replaced. Redis must be version 6.0 or later, and not a replica.
//
// A call that Redis may have executed is never repeated, since a repetition could charge twice. So
// a request in flight when a connection breaks fails, and may have been charged.
package redis
