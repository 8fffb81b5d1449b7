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
	Words []string `arg:"" optional:"" name:"word" help:"Words after weir, the last one unfinished. With them it prints what may stand in place of the last."`
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
	words, apart := assigned(words)
	typed, last := words[:len(words)-1], words[len(words)-1]
	node, arguments := parser.Model.Node, 0
	if trace, err := kong.Trace(parser, typed); err == nil && len(typed) > 0 {
		if trace.Error != nil && !strings.HasPrefix(trace.Error.Error(), "expected ") { // a command
			arguments++
		}
		for _, passed := range trace.Path {
			switch {
			case passed.Command != nil:
				node = passed.Command
			case passed.Positional != nil:
				arguments++
			}
		}
	}
	flags := slices.Concat(node.AllFlags(true)...)
	if node == parser.Model.Node {
		flags = append(flags, parser.Model.DefaultCmd.Flags...)
	}
	find := func(word string) *kong.Flag {
		for _, f := range flags {
			if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
				return f
			}
		}
		return nil
	}
	var open *kong.Flag // whose value the last word is
	head := ""          // before the value
	if name, value, assigned := strings.Cut(last, "="); assigned && strings.HasPrefix(last, "--") {
		if open, last = find(name), value; open == nil {
			return nil
		}
		if !apart {
			head = name + "="
		}
	} else if len(typed) > 0 {
		open = find(typed[len(typed)-1])
	}
	var found []possibility
	switch noFlags := slices.Contains(typed, "--"); {
	case !noFlags && open != nil && (head != "" || apart || !open.IsBool()):
		found = values(parser, open.Value)
	case !noFlags && strings.HasPrefix(last, "-"):
		for _, flag := range flags {
			found = append(found, possibility{"--" + flag.Name, flag.Help})
		}
	case len(node.Children) > 0 && arguments == 0:
		found = children(node)
	case len(node.Children) == 0 && len(node.Positional) > 0:
		argument := node.Positional[min(arguments, len(node.Positional)-1)]
		if arguments < len(node.Positional) || argument.IsCumulative() {
			found = values(parser, argument)
		}
	}
	return beginning(head, last, found)
}

// assigned joins the words around each =, which bash takes apart, and reports whether the
// last one is such a part.
func assigned(words []string) (joined []string, apart bool) {
	for _, word := range words {
		if n := len(joined); n > 0 && (word == "=" || apart && strings.HasSuffix(joined[n-1], "=")) {
			joined[n-1] += word
			apart = true
			continue
		}
		joined, apart = append(joined, word), false
	}
	return joined, apart
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

// beginning returns those possibilities that begin so, with head before them.
func beginning(head, start string, all []possibility) (found []possibility) {
	for _, p := range all {
		switch {
		case p.word == wantsFiles:
			found = append(found, p)
		case strings.HasPrefix(p.word, start):
			found = append(found, possibility{head + p.word, p.what})
		}
	}
	return found
}
