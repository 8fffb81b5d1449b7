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

// completion is the command completion.
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
	node, arguments := parser.Model.Node, 0
	trace, err := kong.Trace(parser, typed)
	if err != nil {
		return nil
	}
	for _, passed := range trace.Path {
		if passed.Command != nil {
			node = passed.Command
		} else if passed.Positional != nil {
			arguments++
		}
	}
	flags := slices.Concat(node.AllFlags(true)...)
	find := func(word string) *kong.Flag {
		i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) })
		if i < 0 {
			return nil
		}
		return flags[i]
	}
	onlyArguments, head := slices.Contains(typed, "--"), ""
	var open *kong.Flag // whose value the last word is
	if name, value, assigned := strings.Cut(last, "="); !onlyArguments && assigned && strings.HasPrefix(last, "--") {
		if open = find(name); open == nil {
			return nil
		}
		head, last = name+"=", value
	} else if f := find(slices.Concat([]string{""}, typed)[len(typed)]); !onlyArguments && f != nil && !f.IsBool() {
		open = f
	}
	switch {
	case open != nil:
		found = values(parser, open.Value)
	case !onlyArguments && strings.HasPrefix(last, "-"):
		for _, flag := range flags {
			found = append(found, possibility{"--" + flag.Name, flag.Help})
		}
	case trace.Error != nil && strings.HasPrefix(trace.Error.Error(), "unexpected argument"):
	case len(node.Children) > 0:
		found = children(node)
	case arguments < len(node.Positional):
		found = values(parser, node.Positional[arguments])
	case arguments > 0 && node.Positional[arguments-1].IsCumulative():
		found = values(parser, node.Positional[arguments-1])
	}
	found = slices.DeleteFunc(found, func(p possibility) bool { return p.word != wantsFiles && !strings.HasPrefix(p.word, last) })
	for i := range found {
		if found[i].word != wantsFiles {
			found[i].word = head + found[i].word
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
