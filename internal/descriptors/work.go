package descriptors

// Work is what finding the rules of a request may still take where values are compared with
// patterns, one after the other: wildcards with the same ends, and regular expressions. It
// depends on the length of the values, which clients choose. A unit is a step of a regular
// expression for one byte, 5 to 12 ns, or 16 bytes that are searched for a text.
type Work int

// MaxWork is the Work of one request. A value for which too little is left leads to a rule
// that denies: any other rule, or none, might be what the client wants.
const MaxWork Work = 1 << 20

// take takes units away, and reports whether there were as many.
func (w *Work) take(units int) bool {
	*w -= Work(units)
	return *w >= 0
}

// scan takes away the search of a text in value.
func (w *Work) scan(value string) bool { return w.take(1 + len(value)/16) }
