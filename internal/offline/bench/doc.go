// Package bench puts load on a server of Envoy's RateLimitService v3 and
// measures how it answers: in a closed loop, in which each caller sends its
// next request when the last one is answered, or in an open loop, which sends
// by a plan that waits for nobody. It knows nothing of how a server decides, so
// that any can be measured.
//
// In come [Options]: which servers, how fast, for how long, and the [Traffic].
// Out goes a [Result], which is also the JSON of the command; WriteText is its
// text. Read run.go first: [Run] from the connections to the result.
package bench
