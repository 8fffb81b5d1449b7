// Package api is the debug port: what operators ask a running server, who may ask it, and
// what it answers, as JSON or text.
//
// A request goes through the route of its path (server.go) and past Access, which knows who
// sent it (access.go), to a function that reads it and answers (json.go). The file of a
// subject has all that is its own: the types of the JSON, the routes, and what makes the
// answers, unless the server hands that over.
//
//	server.go      Server: the parts that are asked, and the list of all routes
//	access.go      Access: the token, the cookie, and who comes from this machine
//	json.go        bodies and answers, and the kinds of errors
//	status.go      how the server is
//	denials.go     what was denied lately
//	counters.go    peek and reset
//	exceptions.go  exceptions from the rules
//	descriptor.go  descriptors with any bytes in JSON
//	page.go        large pages, which are made once for all who read them
//	profiles.go    /debug/pprof/
//
// To add what operators can ask: its type, route and work in a file here, the question and
// the words of its answer in client, and the command in cmd/server/operators.go.
package api
