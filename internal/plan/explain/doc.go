// Package explain explains why a descriptor is limited as it is: its path through the tree of
// rules, the rule that applies or the reason why none does, and every limit with the key of its
// counter.
//
// The input is a [Question]: a tree of rules and a descriptor. The output is an [Answer], which
// is also the JSON output of the command. Read explain.go first:
//
//	explain.go     Explain: Question -> Answer -> text, with the template explain.txt
//	limit.go       the limits of an Answer
//	descriptor.go  descriptors in the syntax of commands <-> entries
//
// The package uses the code of the server: plan makes the hits, and limiter decides them. Package
// explain only describes the result and changes no counters. The commands and the console share the
// package and its syntax of descriptors.
package explain
