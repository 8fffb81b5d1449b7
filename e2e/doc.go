// Package e2e proves the whole path from outside: real clients, a real Envoy, a
// real redis-server and the program itself, built and started as its users do.
//
// It knows the program only by its flags, environment, ports and log, never by
// its packages. Each test starts what it needs on ports of the system and ends
// it again; where a program is not installed, testenv skips what needs it.
package e2e
