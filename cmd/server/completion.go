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

// wantsFiles is printed where the shell is to complete names of files.
const wantsFiles = ":files"

// Run prints the script of a shell, or what may stand in place of the last word: for each
// possibility a line with the word, a tab and what it is.
func (c completion) Run(p *program) error {
	if len(c.Words) == 0 {
		script, err := scripts.ReadFile("completion/weir." + c.Shell)
		fmt.Fprintf(p.stdout, "%s", script)
		return err
	}
	for _, found := range complete(p.parser.Model, c.Words) {
		what, _, _ := strings.Cut(found.what, "\n")
		fmt.Fprintf(p.stdout, "%s\t%s\n", found.word, what)
	}
	return nil
}

// possibility is a word that may stand somewhere.
type possibility struct{ word, what string }

// complete returns what may stand in place of the last word, from the model of the
// parser alone.
func complete(program *kong.Application, words []string) []possibility {
	last := words[len(words)-1]
	node, arguments, noFlags := program.Node, 0, false
	var open *kong.Flag // whose value comes next
	for i, word := range words[:len(words)-1] {
		child := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		switch {
		case open != nil && word == "=": // in bash, between a flag and its value
		case open != nil:
			open = nil
		case !noFlags && word == "--":
			noFlags = true
		case !noFlags && strings.HasPrefix(word, "-") && word != "-":
			if name, _, _ := strings.Cut(word, "="); node == program.Node && findFlag(program.Flags, name) == nil {
				node = program.DefaultCmd // none is named
			}
			if flag := findFlag(flagsOf(program, node), word); flag != nil && (!flag.IsBool() || words[i+1] == "=") {
				open = flag
			}
		case !noFlags && child >= 0:
			node = node.Children[child]
		default:
			arguments++
		}
	}
	name, value, assigned := strings.Cut(last, "=")
	switch {
	case last == "=" && open != nil: // bash makes a word of it
		return beginning("", "", values(program, open.Value))
	case open != nil:
		return beginning("", last, values(program, open.Value))
	case !noFlags && strings.HasPrefix(last, "--") && assigned:
		if flag := findFlag(flagsOf(program, node), name); flag != nil {
			return beginning(name+"=", value, values(program, flag.Value))
		}
	case !noFlags && strings.HasPrefix(last, "-"):
		var flags []possibility
		for _, flag := range flagsOf(program, node) {
			flags = append(flags, possibility{"--" + flag.Name, firstSentence(flag.Help)})
		}
		return beginning("", last, flags)
	case len(node.Children) > 0 && arguments == 0:
		return beginning("", last, children(node))
	case len(node.Children) == 0 && len(node.Positional) > 0:
		argument := node.Positional[min(arguments, len(node.Positional)-1)]
		if arguments < len(node.Positional) || argument.IsCumulative() {
			return beginning("", last, values(program, argument))
		}
	}
	return nil
}

// flagsOf lists the flags that may stand behind a command.
func flagsOf(program *kong.Application, node *kong.Node) []*kong.Flag {
	flags := slices.Concat(node.AllFlags(true)...)
	if node == program.Node && program.DefaultCmd != nil {
		flags = append(flags, program.DefaultCmd.Flags...)
	}
	return flags
}

// findFlag returns the flag of a word, or nil.
func findFlag(flags []*kong.Flag, word string) *kong.Flag {
	for _, flag := range flags {
		if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

func children(node *kong.Node) (found []possibility) {
	for _, child := range node.Children {
		found = append(found, possibility{child.Name, firstSentence(child.Help)})
	}
	return found
}

func firstSentence(help string) string {
	what, _, _ := strings.Cut(help, ". ")
	return what
}

// values returns what a flag or argument may be: its words, names of commands, or files
// where any text may stand.
func values(program *kong.Application, v *kong.Value) (found []possibility) {
	words := settings.WordsOf(v)
	switch {
	case v.Enum != "":
		words = v.EnumSlice()
	case words != nil:
	case v.Name == "command":
		return children(program.Node)
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
