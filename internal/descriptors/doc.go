// Package descriptors turns rule files, or the messages of a control plane, into
// a Tree, and finds in it the rule for a descriptor.
//
// In come files, which ReadFiles reads, or resources; out comes a Tree, or Problems that
// name each file, line and column. A Tree is immutable: a changed file makes a new one.
// Tree.Match finds a rule without allocating.
//
// Read load.go first, which calls the rest in order:
//
//   - file.go reads files, message.go writes messages as the nodes of an equal file;
//   - fields.go has a row for each field of the format, by which it is read;
//   - decode.go reads descriptors into the tree, limit.go, override.go and values.go what
//     they say;
//   - warning.go and hidden.go report what is allowed and hardly meant;
//   - match.go finds rules, by patterns.go, wildcard.go, regex.go and network.go where a
//     value is not listed, within the bound of work.go;
//   - explain.go, dump.go and label.go show rules to people and metrics.
//
// ARCHITECTURE.md, "To add", lists what another field needs.
//
// This package knows nothing of counters, stores or gRPC, and of limiter only the types.
package descriptors
