// Package envoyconfig reads from Envoy's own configuration how a request becomes
// descriptors, and does what Envoy does: it finds the virtual host and the route, and
// runs the actions of their rate limits.
//
// In comes a file by Load: a bootstrap, a config dump or route dump of the admin port, route
// configurations, Istio's EnvoyFilter, or a small file with the same words. Out comes a
// Config, which makes a Result for each descriptor of a Request. Begin with
// envoyconfig.go. The other files are in the order in which a file passes them:
//
//	file.go     documents -> listeners, routes and manifests, and which of them is meant
//	node.go     values of the file, with their locations, and the messages that they are
//	reader.go   problems, and notes of what is not read
//	filter.go   rate limit filters, and what routes configure for them
//	host.go     virtual hosts and routes -> the calls that filters make for each route
//	istio.go    EnvoyFilters -> a route configuration as far as it is known
//	limit.go    a rate limit and its actions -> functions that make entries of a request
//	match.go    matchers of routes, headers and parameters -> functions that test a request
//	client.go   x-forwarded-for -> the address of the client
//	report.go   Report: descriptors and notes, as text and as JSON
//
// It knows what a request shows, and nothing of clusters, runtime values, metadata or other
// filters: rate limits that need them are skipped, and a Note names each. It knows no
// rules and decides nothing.
package envoyconfig
