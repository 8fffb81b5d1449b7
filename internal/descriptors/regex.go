package descriptors

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// maxRegexSteps limits the total steps of the regular expressions of one node and key. A step is an
// instruction of the compiled program; there is about one for each character of the expression.
// Each step may run once for each byte of the value.
const maxRegexSteps = 2000

// A regular expression must match the entire value. A . also matches a newline, like a * in a
// wildcard, so that a value with a newline cannot avoid a limit.
const beforeRegex, afterRegex = `\A(?s:`, `)\z`

// regex is a regular expression of the rules.
type regex struct {
	compiled *regexp.Regexp
	prefix   string // prefix of every matching value, may be empty
	literal  string // part of every matching value, may be empty
	steps    int
	child    *node // node to which matching values lead, set by attach
}

// matches reports whether r matches the entire value. It returns false if too little work is left.
// The tests of the prefix and the literal are cheap and reject most values.
func (r *regex) matches(value string, work *Work) bool {
	return work.take(1) && strings.HasPrefix(value, r.prefix) &&
		work.scan(value) && strings.Contains(value, r.literal) &&
		work.take(r.steps*(1+len(value))) && r.compiled.MatchString(value)
}

// parseRegex compiles a regular expression, or returns a message if the text is invalid.
func parseRegex(text string) (re *regex, wrong string) {
	anchored := beforeRegex + text + afterRegex
	alone, err := syntax.Parse(text, syntax.Perl) // because a)(b becomes valid when it is anchored
	var parsed *syntax.Regexp
	if err == nil {
		parsed, err = syntax.Parse(anchored, syntax.Perl) // because \Q becomes invalid when it is anchored
	}
	if err != nil {
		return nil, fmt.Sprintf("%q is not a valid regular expression: %s", text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	re = &regex{literal: literal(parsed)}
	program, _ := syntax.Compile(alone.Simplify()) // never fails
	re.prefix, _ = program.Prefix()                // from alone, because the \A of parsed hides its prefix
	program, _ = syntax.Compile(parsed.Simplify())
	if re.steps = len(program.Inst); re.steps > maxRegexSteps {
		return nil, tooManySteps(re.steps)
	}
	re.compiled = regexp.MustCompile(anchored)
	return re, ""
}

// literal returns the longest text that is known to be in every match of re.
func literal(re *syntax.Regexp) (longest string) {
	switch {
	case re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0:
		longest = string(re.Rune)
	case re.Op == syntax.OpCapture, re.Op == syntax.OpPlus, re.Op == syntax.OpRepeat && re.Min > 0:
		longest = literal(re.Sub[0])
	case re.Op == syntax.OpConcat:
		for _, sub := range re.Sub {
			if text := literal(sub); len(text) > len(longest) {
				longest = text
			}
		}
	}
	if strings.ContainsRune(longest, utf8.RuneError) { // such a literal also matches bytes that are not UTF-8
		return ""
	}
	return longest
}

func tooManySteps(steps int) string {
	return fmt.Sprintf("%d steps are too many, at most %d are allowed for all regular expressions of a key on one level: a character is about one, and {n} repeats", steps, maxRegexSteps)
}
