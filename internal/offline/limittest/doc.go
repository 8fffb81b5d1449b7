// Package limittest runs unit tests of rules: files that say at which time
// which requests are sent, and what shall become of them.
//
// A test has counters and a clock of its own. The clock stands still but for
// what the steps say, and starts at the epoch, where a window of every length
// begins, or when the test says. Requests take the server's own way through
// plan.Decider and the memory store, so nothing here decides anything, and nothing
// listens, waits or asks Redis.
//
// In come files of tests, out goes a [Report] of each. Read file.go first:
//
//   - file.go: Find finds the files in directories, Load reads one and its rules.
//   - decode.go: what a file may say; anything else is a problem with file, line
//     and column. expect.go is its field expect.
//   - run.go: Run runs the tests of a file.
//   - junit.go: WriteJUnit writes reports for programs.
package limittest
