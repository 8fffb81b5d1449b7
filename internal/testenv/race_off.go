//go:build !race

package testenv

// RaceDetector reports whether the program was built with it. Then a sync.Pool loses
// what it is given, at random, so that allocations say nothing.
const RaceDetector = false
