// Package e2e tests the full path of requests from outside: real clients, a real Envoy, a
// real redis-server and the program itself, built and started as its users do.
//
// It uses only the flags, environment, ports and log of the program, never its packages.
// Each test starts its programs on ports that the system chooses and stops them. Package
// testenv skips tests whose programs are not installed.
package e2e
