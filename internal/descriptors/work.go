package descriptors

// Work limits the cost of finding the rules of one request. It is spent where a value is
// compared with patterns one after the other: regular expressions, and wildcards with the same
// ends. The cost depends on the length of values, which clients choose. A unit is one step of a
// regular expression on one byte (5 to 12 ns), or the search for a text in 16 bytes.
type Work int

// MaxWork is the Work of one request. If too little is left for a value, the value leads to a
// rule that denies, because any other rule, or no rule, might favor the client.
//
// Most requests need less than FreeWork. The work of all other requests together is limited to
// SharedWork a second for each processor, about a third of the processor's time.
const (
	MaxWork    Work = 1 << 20
	FreeWork   Work = 1 << 14
	SharedWork Work = 40 * MaxWork
)

// take spends units, and returns false if too few are left.
func (w *Work) take(units int) bool {
	*w -= Work(units)
	return *w >= 0
}

// scan spends the cost of searching value for a text.
func (w *Work) scan(value string) bool { return w.take(1 + len(value)/16) }
