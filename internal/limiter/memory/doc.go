// Package memory keeps counters in the memory of this process, for a single server and for
// tests: processes share nothing, and nothing survives a restart.
//
// Read store.go first: it decides a request under the locks of the shards of its counters.
// shard.go has the counters of one shard, by key and by expiry.
//
// The package starts no goroutines: later requests remove expired counters.
package memory
