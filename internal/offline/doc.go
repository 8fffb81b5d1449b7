// Package offline is the room of what runs without a server. It holds no code of its
// own, but
//
//   - explain: why a descriptor is limited as it is. Read it first: its descriptors, as
//     people write them, are those of all commands.
//   - limittest: unit tests of rules.
//   - envoyconfig: the descriptors that Envoy sends for a request, by its own configuration.
//   - simulate: what rules would have done to the requests of access logs.
//   - bench: load on any server of Envoy's RateLimitService.
//   - limitcases: a test alone, of many workers that wait as they are told.
//
// Rules and a question go in, and a report for people and for programs comes out. It is
// asked by cmd/server, and all of it but bench decides through plan and limiter, as a
// server does.
package offline
