// Package spelling guesses which of some words was meant by a misspelt one. It
// knows nothing of where the words come from.
package spelling

import "strings"

// Nearest returns the first candidate that begins with word, else the one that at
// most two typing errors turn into it, or "".
func Nearest(word string, candidates []string) string {
	const (
		shortest = 3  // letters that tell which word was begun
		longest  = 40 // no name that people type is nearly as long
	)
	if len(word) > longest {
		return ""
	}
	for _, c := range candidates {
		if len(word) >= shortest && strings.HasPrefix(c, word) {
			return c
		}
	}
	best, least := "", 3
	for _, c := range candidates {
		if len(c) >= len(word)+least {
			continue // also where it would take long
		}
		if n := editDistance(word, c); n < least && n < len(c)-1 {
			best, least = c, n
		}
	}
	return best
}

// editDistance is the number of bytes to insert, remove or replace in a to get
// b (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // distances of a[:i] to each b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
