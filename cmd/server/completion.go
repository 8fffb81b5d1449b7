package main

import (
	"embed"
	"fmt"
	"reflect"
	"slices"
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
func complete(parser *kong.Kong, words []string) (found []possibility) {
	if strings.HasPrefix(words[0], "-") {
		words = append([]string{"serve"}, words...)
	}
	typed, last := words[:len(words)-1], words[len(words)-1]
	trace, err := kong.Trace(parser, typed)
	if err != nil {
		return nil
	}
	node, arguments := parser.Model.Node, 0
	for _, passed := range trace.Path {
		if passed.Command != nil {
			node = passed.Command
		} else if passed.Positional != nil {
			arguments++
		}
	}
	flags := map[string]*kong.Flag{}
	for _, flag := range slices.Concat(node.AllFlags(true)...) {
		flags["--"+flag.Name] = flag
		found = append(found, possibility{"--" + flag.Name, flag.Help})
	}
	name, value, assigned := strings.Cut(last, "=")
	head, before := "", flags[slices.Concat([]string{""}, typed)[len(typed)]]
	switch {
	case assigned && flags[name] != nil:
		head, last, found = name+"=", value, values(parser, flags[name].Value)
	case before != nil && !before.IsBool():
		found = values(parser, before.Value)
	case strings.HasPrefix(last, "-"):
	case trace.Error != nil && strings.HasPrefix(trace.Error.Error(), "unexpected argument"):
		return nil
	case len(node.Children) > 0:
		found = children(node)
	case len(node.Positional) > 0 && (arguments < len(node.Positional) || node.Positional[arguments-1].IsCumulative()):
		found = values(parser, node.Positional[min(arguments, len(node.Positional)-1)])
	default:
		return nil
	}
	if len(found) == 1 && found[0].word == wantsFiles {
		return found
	}
	found = slices.DeleteFunc(found, func(p possibility) bool { return !strings.HasPrefix(p.word, last) })
	for i := range found {
		found[i].word = head + found[i].word
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
