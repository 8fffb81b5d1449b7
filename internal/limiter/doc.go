// Package limiter decides requests against limits, exactly and all or nothing.
//
// Hits, the states of their counters and the time go in; decisions and new states come out. The
// package imports only the standard library. Read decide.go first: it has the contract of a Store,
// and the function Decide that every store implements. hit.go has the arguments and results of
// Decide, limit.go the definition of a limit, and algorithm.go a row for each algorithm and the
// interface that algorithms implement. fixedwindow.go implements three algorithms, one of which
// uses the windows of calendar.go. Each other algorithm has a file of its own.
//
// describe.go computes the times and remaining units of a decision, retryspread.go spreads the
// times at which denied clients retry, and recent.go is a cache by counter. key.go builds the keys
// of counters. series.go encodes the labels of a limit's metrics, which rules set and telemetry
// reads; this package only carries them.
//
// The subpackages memory and redis are stores, failover decides while a store fails, and
// storetest is the test suite that every store passes.
package limiter
