// Package spelling guesses the word that is meant by a misspelt one.
package spelling

import "strings"

// Nearest returns the first candidate that begins with word, or the most similar one within two
// typing errors, or "".
func Nearest(word string, candidates []string) string {
	const (
		shortest = 3  // minimum length of a beginning
		longest  = 40 // longer than any name that people type
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
			continue // has at least that distance, and may be very long
		}
		if n := editDistance(word, c); n < least && n < len(c)-1 {
			best, least = c, n
		}
	}
	return best
}

// editDistance returns the Levenshtein distance of two texts in bytes.
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
