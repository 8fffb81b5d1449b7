// Package limittest runs unit tests of rules. A test is a list of requests, each with
// its time and the expected decision.
//
// Each test has its own counters and its own clock. The clock moves only as the steps
// say. It starts at the time that the test names, by default at the epoch, at which
// windows of every length begin. Requests pass through the server's plan.Decider and
// memory store, so this package decides nothing itself. It does not listen, wait or
// use Redis.
//
// The input is test files, the output is a [Report] for each. Read file.go first:
//
//   - file.go: Find finds the files in directories, Load reads one and its rules.
//   - decode.go: the format of a file. Anything else in a file is reported as a problem
//     with file, line and column. expect.go decodes the field expect.
//   - run.go: Run runs the tests of a file, and WriteJUnit writes reports for programs.
package limittest
