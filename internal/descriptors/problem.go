package descriptors

import "weir/internal/strictyaml"

// Problem is one thing that is wrong in a rule file.
type Problem = strictyaml.Problem

// Problems is every problem of a set of rule files, sorted by place.
type Problems = strictyaml.Problems
