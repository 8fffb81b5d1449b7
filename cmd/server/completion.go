package main

import (
	"cmp"
	"embed"
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"weir/internal/settings"
)

type completion struct {
	Shell string   `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
	Words []string `arg:"" optional:"" name:"word" help:"The words after weir on a command line, the last one unfinished. With them, completion prints what could complete the last."`
}

// The scripts run the program with the words that were typed, and show its answer.
//
//go:embed completion
var scripts embed.FS

// Run prints the script of a shell, or what may stand in place of the last word: for each
// possibility a line with the word, a tab and what it is.
func (c completion) Run(p *program) error {
	if len(c.Words) == 0 {
		script, err := scripts.ReadFile("completion/weir." + c.Shell)
		fmt.Fprintf(p.stdout, "%s", script)
		return err
	}
	for _, found := range complete(p.parser, c.Words) {
		what, _, _ := strings.Cut(found.what, ". ")
		what, _, _ = strings.Cut(what, "\n")
		fmt.Fprintf(p.stdout, "%s\t%s\n", found.word, what)
	}
	return nil
}

// possibility is a word that may stand somewhere.
type possibility struct{ word, what string }

// wantsFiles is printed where the shell is to complete names of files.
const wantsFiles = ":files"

// complete returns what may stand in place of the last word, from the parser alone.
func complete(parser *kong.Kong, words []string) []possibility {
	if strings.HasPrefix(words[0], "-") {
		words = append([]string{"serve"}, words...)
	}
	typed, last := words[:len(words)-1], words[len(words)-1]
	trace, err := kong.Trace(parser, typed)
	if err != nil {
		return nil
	}
	var flags []possibility
	head, value, assigned := strings.Cut(last, "=")
	for _, flag := range trace.Flags() {
		name := "--" + flag.Name
		flags = append(flags, possibility{name, flag.Help})
		switch {
		case assigned && head == name:
			return matching(values(parser, flag.Value), head+"=", value)
		case len(typed) > 0 && typed[len(typed)-1] == name && !flag.IsBool():
			return matching(values(parser, flag.Value), "", last)
		}
	}
	node, arguments := cmp.Or(trace.Selected(), parser.Model.Node), 0
	for _, passed := range trace.Path {
		if passed.Positional != nil {
			arguments++
		}
	}
	switch {
	case strings.HasPrefix(last, "-"):
		return matching(flags, "", last)
	case trace.Error != nil && strings.HasPrefix(trace.Error.Error(), "unexpected argument"):
		return nil
	case len(node.Children) > 0:
		return matching(children(node), "", last)
	case len(node.Positional) > 0 && (arguments < len(node.Positional) || node.Positional[arguments-1].IsCumulative()):
		return matching(values(parser, node.Positional[min(arguments, len(node.Positional)-1)]), "", last)
	}
	return nil
}

// matching returns those of the possibilities that begin with text, behind a head. Names of
// files are left to the shell.
func matching(all []possibility, head, text string) (found []possibility) {
	for _, p := range all {
		if p.word == wantsFiles {
			return []possibility{p}
		}
		if strings.HasPrefix(p.word, text) {
			found = append(found, possibility{head + p.word, p.what})
		}
	}
	return found
}

func children(node *kong.Node) (found []possibility) {
	for _, child := range node.Children {
		found = append(found, possibility{child.Name, child.Help})
	}
	return found
}

// values returns what a flag or argument may be: its words, names of commands, or files
// where any text may stand.
func values(parser *kong.Kong, v *kong.Value) (found []possibility) {
	words := settings.WordsOf(v)
	switch {
	case v.Enum != "":
		words = v.EnumSlice()
	case words != nil:
	case v.Name == "command":
		return children(parser.Model.Node)
	case v.Target.Kind() == reflect.String || v.Target.Kind() == reflect.Slice:
		return []possibility{{word: wantsFiles}}
	}
	for _, word := range words {
		found = append(found, possibility{word: word})
	}
	return found
}
