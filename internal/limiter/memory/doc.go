// Package memory keeps counters in the memory of this process. It is the store of a
// single server and of tests: nothing is shared between processes and nothing survives
// one. What comes in are the hits of a request; what goes out are their decisions.
//
// Read store.go first: it decides a request under the locks of the shards that hold its
// counters. shard.go keeps the counters of one shard, finds them by key, and knows which
// expires first.
//
// There is no goroutine: expired counters are cleared away by the requests that follow.
package memory
