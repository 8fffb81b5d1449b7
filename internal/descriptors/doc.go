// Package descriptors builds a Tree from rule files or from a control plane's messages. The Tree
// finds the rule for a descriptor.
//
// Loading either returns a Tree, or Problems that name each file, line and column. A Tree
// is immutable: when a file changes, a new Tree replaces it. Tree.Match finds a rule,
// nearly always without allocating.
//
// Start with load.go. The files up to hidden.go load rules, and the rest use the finished Tree:
//
//   - file.go reads files, message.go turns messages into the nodes of an equivalent file;
//   - fields.go has a row for each field of the format;
//   - decode.go reads descriptors into the tree; limit.go, override.go and values.go read fields;
//   - warning.go and hidden.go warn of valid rules that are probably mistakes;
//   - match.go finds rules for descriptors, and bucket.go for bucket IDs; patterns.go, wildcard.go,
//     regex.go and network.go find rules by patterns, within the limits in work.go;
//   - trace.go and dump.go describe rules for people, label.go for metrics.
//
// ARCHITECTURE.md, "To add", lists the steps to add a field. The package does not depend on
// counters, stores or gRPC. From package limiter, it uses only limits, entries and labels.
package descriptors
