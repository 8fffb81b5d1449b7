// Package descriptors turns rule files, or the messages of a control plane, into
// a Tree, and finds in it the rule for a descriptor.
//
// ReadFiles reads files, Load decodes them strictly and joins them, and Tree.Match
// finds a rule, without allocating. ARCHITECTURE.md shows the life of a rule.
//
// A Tree is immutable: a changed file makes a new one. This package knows
// nothing of counters, stores or gRPC, and of limiter only the types.
package descriptors
