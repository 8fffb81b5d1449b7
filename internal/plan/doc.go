// Package plan turns requests into the hits of limits, and the decisions about hits into
// statuses. No other package does this. Package plan parses no bytes and keeps no counters.
//
// A Request becomes a Plan with the request's hits, and then a Result. Start with decide.go, then
// read the files in the order of a request:
//
//	decide.go    Decider: the current rules, the store, and all steps of a decision
//	request.go   Request, and whether it is valid
//	plan.go      Planner: Request and rules -> Plan, with its Hits
//	override.go  limits that requests send
//	assigned.go  amounts that operators assign to limits, kept in texts.go
//	exception.go exceptions of operators, and how they change limits
//	json.go      JSONDescriptor: a descriptor of any bytes as JSON
//	cache.go     remembers the limits that were made for overrides and exceptions
//	status.go    Plan and Decisions -> Result, with its Statuses
//	outcome.go   the outcome of each limit, for observers
//
// The subpackage explain explains in words why a descriptor is limited as it is.
package plan
