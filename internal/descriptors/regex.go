package descriptors

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// maxRegexSteps bounds the steps of all regular expressions of one node and key: the
// instructions of their programs, about one for each character. Each may run once for each
// byte of the value.
const maxRegexSteps = 2000

// A regular expression stands for whole values. A . matches a newline as well, as *
// does in a wildcard: a value that holds one must not slip through a limit.
const beforeRegex, afterRegex = `\A(?s:`, `)\z`

// regex is a regular expression of the rules.
type regex struct {
	compiled *regexp.Regexp
	prefix   string // of every value that matches, may be ""
	literal  string // is in every value that matches, may be ""
	steps    int
	child    *node // that values lead to
}

// matches reports whether the whole value matches, and false if too little work is left.
// Most values that do not match lack the prefix or the literal, which takes much less.
func (r *regex) matches(value string, work *Work) bool {
	return work.take(1) && strings.HasPrefix(value, r.prefix) &&
		work.scan(value) && strings.Contains(value, r.literal) &&
		work.take(r.steps*(1+len(value))) && r.compiled.MatchString(value)
}

// parseRegex compiles a regular expression, or returns what is wrong with it.
func parseRegex(text string) (re *regex, wrong string) {
	anchored := beforeRegex + text + afterRegex
	alone, err := syntax.Parse(text, syntax.Perl) // a)(b is valid only if anchored
	var parsed *syntax.Regexp
	if err == nil {
		parsed, err = syntax.Parse(anchored, syntax.Perl) // \Q is valid only alone
	}
	if err != nil {
		return nil, fmt.Sprintf("%q is not a valid regular expression: %s", text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	re = &regex{literal: literal(parsed)}
	program, _ := syntax.Compile(alone.Simplify()) // it never fails
	re.prefix, _ = program.Prefix()                // that of parsed is empty, because of its \A
	program, _ = syntax.Compile(parsed.Simplify())
	if re.steps = len(program.Inst); re.steps > maxRegexSteps {
		return nil, tooManySteps(re.steps)
	}
	re.compiled = regexp.MustCompile(anchored)
	return re, ""
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
