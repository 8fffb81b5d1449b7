// Package limiter decides requests against limits, exactly and all or nothing.
//
// Hits, the states of their counters and the time go in; decisions and new states come
// out. It imports the standard library alone. Read decide.go first: the contract of a
// Store, and the pure function that every store does. hit.go has what it takes and
// returns, limit.go what a limit is, algorithm.go a row for each algorithm and what an
// algorithm is. fixedwindow.go counts for three of them, for one by the windows of
// calendar.go; each other one has a file of its own.
//
// describe.go says what a decision means to its caller, retryspread.go when those who are
// denied come back, and recent.go remembers the counters that were touched last. key.go
// spells the keys of counters, series.go the labels of metrics.
//
// Its sub-packages hold the stores, memory and redis, what decides while they fail,
// failover, and the one suite that every store passes, storetest.
package limiter
