// Package envoyconfig computes the descriptors of a request from Envoy's own
// configuration. As Envoy does, it finds the virtual host and the route, and runs the
// actions of their rate limits.
//
// Load reads a file: a bootstrap, a config dump or route dump of the admin port, route
// configurations, Istio's EnvoyFilters, or a small file with the same fields. It returns a
// Config, which makes a Result for each descriptor of a Request. Begin with
// envoyconfig.go. Load and the methods of Config use the other files in this order:
//
//	file.go     documents -> listeners, routes and manifests, and the choice between them; problems,
//	            and notes on unsupported configuration
//	node.go     values of the file, with their locations, and their protobuf messages
//	filter.go   rate limit filters, and their configuration in routes
//	host.go     virtual hosts and routes -> the filters that make a call for each route
//	istio.go    EnvoyFilters -> the known parts of a route configuration
//	limit.go    a rate limit and its actions -> functions that make the entries for a request
//	match.go    matchers of routes, headers and parameters -> functions that test a request
//	client.go   x-forwarded-for -> the address of the client
//	report.go   Report: descriptors and notes, as text and as JSON
//
// The package knows only the request. It knows nothing about clusters, runtime values, metadata or
// other filters: it skips rate limits that need them, and adds a Note for each. It knows nothing
// about rules, and decides nothing.
package envoyconfig
