// Package testenv gives tests the real programs that Weir works with,
// certificates for them, a control plane, the surroundings in which a container
// runs, and patience.
//
// It is the only place that skips a test: where a program is not installed,
// what asks for it is skipped, unless the environment variable
// WEIR_TEST_REQUIRE names the program (several are separated by commas). Then
// the test fails, so that a machine that must run everything cannot quietly run
// less. Nothing but tests may import it.
package testenv
