// Package api is the debug port: what operators ask a running server, who may ask it, and
// what it answers, as JSON or text.
//
// A request goes through the row of its path in the table of endpoints (server.go) and past
// Access, which knows who sent it (access.go), to a function that reads it and answers
// (json.go). What is answered comes from operators.Desk, or from the server.
//
//	server.go   Server: the parts that are asked, and the table of endpoints
//	access.go   Access: the token, the cookie, and who comes from this machine
//	json.go     bodies and answers, and the kinds of errors
//	status.go   how the server is, as the text of status.txt, too
//	page.go     large pages, which are made once for all who read them
//
// To add what operators can ask: its type and work in operators, its row here, the question
// and the words of its answer in client, and the command in cmd/server/operators.go.
package api
