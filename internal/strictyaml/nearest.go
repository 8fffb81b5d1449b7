package strictyaml

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean returns a hint at which of allowed is meant by word, "" if nothing is
// near.
func (d *Decoder) DidYouMean(word string, allowed []string) string {
	word = strings.ToLower(word)
	meant := d.Synonyms[word]
	if !slices.Contains(allowed, meant) {
		meant = Nearest(word, allowed)
	}
	if meant == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", meant)
}

// Nearest returns the first candidate that begins with word, else the one that at
// most two typing errors turn into it, or "".
func Nearest(word string, candidates []string) string {
	const (
		shortest = 3  // letters that tell which word was begun
		longest  = 40 // no field's name is nearly as long
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
