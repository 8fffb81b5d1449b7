// Package spelling guesses the intended word for a misspelt word.
package spelling

import "strings"

// Nearest returns the first candidate that begins with word or, if there is none, the most
// similar candidate within two typing errors. It returns "" if no candidate is similar.
func Nearest(word string, candidates []string) string {
	const (
		shortest = 3  // minimum length of word as the beginning of a candidate
		longest  = 40 // maximum length of word, longer than any name that people type
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
			continue // the distance is not below least, and c may be very long
		}
		if n := editDistance(word, c); n < least && n < len(c)-1 {
			best, least = c, n
		}
	}
	return best
}

// editDistance returns the minimum number of edits that turn a into b: insertions, removals and
// replacements of a byte, and swaps of two adjacent bytes (optimal string alignment).
func editDistance(a, b string) int {
	d := make([][]int, len(a)+1) // distances of each a[:i] from each b[:j]
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			if i == 0 || j == 0 {
				d[i][j] = i + j
				continue
			}
			replaced := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			d[i][j] = min(replaced, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
