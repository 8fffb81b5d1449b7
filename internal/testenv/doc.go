// Package testenv provides tests with the real programs that Weir works with,
// certificates for them, a control plane, and functions that wait and compare.
//
// Only this package skips tests. A test that needs a program is skipped if the program is not
// installed. If the environment variable WEIR_TEST_REQUIRE contains its name (names are separated
// by commas), the test fails instead. So a machine that must run all tests cannot silently skip
// some. Only tests may import this package.
package testenv
