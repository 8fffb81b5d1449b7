// Package offline is the parent of the packages behind the commands that need no running
// Weir. It has no code of its own. Its packages are
//
//   - limittest: unit tests of rules.
//   - envoyconfig: the descriptors that Envoy sends for a request, according to its configuration.
//   - simulate: the effect that rules would have had on the requests in access logs.
//   - bench: load tests of any server of Envoy's RateLimitService.
//
// Each returns a report for people and for programs. cmd/server calls them. limittest and
// simulate decide through plan and limiter, as a server does.
package offline
