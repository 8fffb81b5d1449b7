// Package limittest runs unit tests of rules: files that say at which time
// which requests are sent, and what shall become of them.
//
// A test has counters and a clock of its own. The clock stands still but for
// what the steps say, and starts at the epoch, where a window of every length
// begins, or when the test says. Requests take the server's own way through plan
// and the memory store, but for the bytes of Envoy's protocol. So nothing here
// decides anything, and nothing listens, waits or asks Redis.
//
// In come files of tests, out go the failures. Read file.go first:
//
//   - find.go: Find finds the files in directories.
//   - file.go: Load reads a file and the rules that it names.
//   - decode.go, expect.go: what a file may say; anything else is a problem with
//     file, line and column.
//   - run.go: File.Run runs the tests and returns the failures.
//   - junit.go: WriteJUnit reports them to programs.
package limittest
