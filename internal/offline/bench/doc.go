// Package bench puts load on servers of Envoy's RateLimitService v3 and measures
// their answers. In a closed loop, each caller sends its next request when its previous
// request is answered. In an open loop, requests follow a schedule that does not wait
// for answers. Nothing in the package depends on how a server decides, so the
// package can measure any implementation.
//
// The input is [Options]: the servers, the rate, the duration and the [Traffic].
// The output is a [Result], which is also the JSON of the command; WriteText writes
// it as text. Read run.go first: [Run] leads from the connections to the result.
package bench
