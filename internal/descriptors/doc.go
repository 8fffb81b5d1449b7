// Package descriptors turns rule files, or the messages of a control plane, into
// a Tree, and finds in it the rule for a descriptor.
//
// The life of a rule:
//
//   - file.go: ReadFiles finds and reads the files.
//   - decode.go, limit.go, metadata.go: each file is decoded strictly, with
//     package strictyaml. What is wrong becomes a Problem with line and column;
//     decoding goes on, so that one report holds all of them.
//   - parts.go: a large file is decoded part by part, to need less memory.
//   - xds.go, xdsmessage.go: rules that a control plane sends instead are written
//     as the nodes of such a file, and decoded by the same code.
//   - compile.go: Load joins the files of a domain and builds the Tree. One
//     problem anywhere, and there is no Tree.
//   - match.go, wildcard.go: Tree.Match walks down one level per entry of a
//     descriptor and returns the Rule, without allocating.
//   - explain.go: Tree.Explain tells the way that Match takes.
//   - dump.go: Tree.Dump writes the rules for people to read.
//
// A Tree is immutable: a changed file makes a new one. This package knows
// nothing of counters, stores or gRPC, and of limiter only the types.
package descriptors
