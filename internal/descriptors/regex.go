package descriptors

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// maxRegexSteps bounds what the regular expressions of one node and key may take for a
// value: the instructions of their programs, about one for each character. Each may
// run once for each byte of the value, which takes about 12 ns.
const maxRegexSteps = 2000

// A regular expression stands for whole values. A . matches a newline as well, as *
// does in a wildcard: a value that holds one must not slip through a limit.
const beforeRegex, afterRegex = `\A(?s:`, `)\z`

// regex is a regular expression of the rules.
type regex struct {
	compiled *regexp.Regexp
	literal  string // is in every value that matches, may be ""
	steps    int
}

// matches reports whether the whole value matches. Most values that do not, lack the
// literal, which is found out much sooner.
func (r *regex) matches(value string) bool {
	return strings.Contains(value, r.literal) && r.compiled.MatchString(value)
}

// parseRegex compiles a regular expression, or returns what is wrong with it.
func parseRegex(text string) (re *regex, wrong string) {
	whole := beforeRegex + text + afterRegex
	_, err := syntax.Parse(text, syntax.Perl) // by itself: a)(b is one only with what is around it
	var parsed *syntax.Regexp
	if err == nil {
		parsed, err = syntax.Parse(whole, syntax.Perl) // and \Q is one only without
	}
	if err != nil {
		return nil, invalidRegex(text, err)
	}
	re = &regex{literal: literal(parsed)}
	program, err := syntax.Compile(parsed.Simplify())
	if err == nil && len(program.Inst) > maxRegexSteps {
		return nil, tooManySteps(len(program.Inst))
	}
	if err == nil {
		re.steps = len(program.Inst)
		re.compiled, err = regexp.Compile(whole)
	}
	if err != nil {
		return nil, invalidRegex(text, err)
	}
	return re, ""
}

func invalidRegex(text string, err error) string {
	return fmt.Sprintf("%q is not a valid regular expression: %s", text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

// literal returns the longest text that is known to be in whatever matches re.
func literal(re *syntax.Regexp) (longest string) {
	switch {
	case re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0:
		longest = string(re.Rune)
	case re.Op == syntax.OpCapture, re.Op == syntax.OpPlus, re.Op == syntax.OpRepeat && re.Min > 0:
		longest = literal(re.Sub[0])
	case re.Op == syntax.OpConcat:
		for _, part := range re.Sub {
			if text := literal(part); len(text) > len(longest) {
				longest = text
			}
		}
	}
	if strings.ContainsRune(longest, utf8.RuneError) { // matches any byte that is no UTF-8
		return ""
	}
	return longest
}

func tooManySteps(steps int) string {
	return fmt.Sprintf("%d steps are too many, at most %d are allowed for all regular expressions of a key on one level: a character is about one, and {n} repeats", steps, maxRegexSteps)
}
