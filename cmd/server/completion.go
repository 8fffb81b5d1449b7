package main

import (
	_ "embed"
	"fmt"
	"io"
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
var (
	//go:embed completion/weir.bash
	bashScript string
	//go:embed completion/weir.zsh
	zshScript string
	//go:embed completion/weir.fish
	fishScript string
)

// wantsFiles is printed where the shell is to complete names of files.
const wantsFiles = ":files"

// run prints the script of a shell, or what may stand in place of the last word: for each
// possibility a line with the word, a tab and what it is.
func (c completion) run(program *kong.Application, stdout io.Writer) int {
	if len(c.Words) == 0 {
		fmt.Fprint(stdout, map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell])
		return exitOK
	}
	for _, p := range complete(program, c.Words) {
		what, _, _ := strings.Cut(p.what, "\n")
		fmt.Fprintf(stdout, "%s\t%s\n", p.word, what)
	}
	return exitOK
}

// possibility is a word that may stand somewhere.
type possibility struct{ word, what string }

// typed is where in the model the words lead.
type typed struct {
	node      *kong.Node
	arguments int        // that the node has got
	flag      *kong.Flag // whose value comes next, or nil
	onlyArgs  bool       // after a --
}

// complete returns what may stand in place of the last word, from the model of the
// parser alone.
func complete(program *kong.Application, words []string) []possibility {
	last := words[len(words)-1]
	at := typed{node: program.Node}
	for i, word := range words[:len(words)-1] {
		at.read(program, word, words[i+1])
	}
	name, value, assigned := strings.Cut(last, "=")
	switch {
	case last == "=" && at.flag != nil: // bash makes a word of it
		return beginning("", "", values(program, at.flag.Value))
	case at.flag != nil:
		return beginning("", last, values(program, at.flag.Value))
	case !at.onlyArgs && strings.HasPrefix(last, "--") && assigned:
		if flag := at.flagOf(program, name); flag != nil {
			return beginning(name+"=", value, values(program, flag.Value))
		}
		return nil
	case !at.onlyArgs && strings.HasPrefix(last, "-"):
		return beginning("", last, at.flags(program))
	case len(at.node.Children) > 0 && at.arguments > 0: // none is such a command
		return nil
	case len(at.node.Children) > 0:
		return beginning("", last, children(at.node))
	case len(at.node.Positional) > 0:
		argument := at.node.Positional[min(at.arguments, len(at.node.Positional)-1)]
		if at.arguments >= len(at.node.Positional) && !argument.IsCumulative() {
			return nil
		}
		return beginning("", last, values(program, argument))
	}
	return nil
}

// read follows one word; next is the one behind it.
func (at *typed) read(program *kong.Application, word, next string) {
	switch {
	case at.flag != nil && word == "=": // in bash, between a flag and its value
	case at.flag != nil:
		at.flag = nil
	case at.onlyArgs || !strings.HasPrefix(word, "-") || word == "-":
		for _, child := range at.node.Children {
			if child.Name == word && !at.onlyArgs {
				at.node = child
				return
			}
		}
		at.arguments++
	case word == "--":
		at.onlyArgs = true
	default:
		at.serve(program, word)
		if flag := at.flagOf(program, word); flag != nil && (!flag.IsBool() || next == "=") {
			at.flag = flag
		}
	}
}

// serve goes on to the command that a flag belongs to if none is named.
func (at *typed) serve(program *kong.Application, word string) {
	name, _, _ := strings.Cut(word, "=")
	if own := slices.ContainsFunc(program.Flags, func(f *kong.Flag) bool { return "--"+f.Name == name }); at.node == program.Node && !own {
		at.node = program.DefaultCmd
	}
}

// flagsOf lists the flags that may stand at a place.
func (at *typed) flagsOf(program *kong.Application) (flags []*kong.Flag) {
	for _, group := range at.node.AllFlags(true) {
		flags = append(flags, group...)
	}
	if at.node == program.Node && program.DefaultCmd != nil {
		flags = append(flags, program.DefaultCmd.Flags...)
	}
	return flags
}

// flagOf returns the flag of a word, or nil.
func (at *typed) flagOf(program *kong.Application, word string) *kong.Flag {
	for _, flag := range at.flagsOf(program) {
		if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

func (at *typed) flags(program *kong.Application) (found []possibility) {
	for _, flag := range at.flagsOf(program) {
		what, _, _ := strings.Cut(flag.Help, ". ")
		found = append(found, possibility{"--" + flag.Name, what})
	}
	return found
}

func children(node *kong.Node) (found []possibility) {
	for _, child := range node.Children {
		if !child.Hidden {
			what, _, _ := strings.Cut(child.Help, ". ")
			found = append(found, possibility{child.Name, what})
		}
	}
	return found
}

// values returns what a flag or argument may be: its words, names of commands, or files
// where any text may stand.
func values(program *kong.Application, v *kong.Value) []possibility {
	var words []string
	setting, isOneOf := v.Target.Interface().(settings.OneOf)
	switch {
	case v.Enum != "":
		words = v.EnumSlice()
	case isOneOf:
		words = setting.Words()
	case v.IsBool():
		words = settings.Choice{}.Words()
	case v.Name == "command":
		return children(program.Node)
	case v.Target.Kind() == reflect.String || v.Target.Kind() == reflect.Slice:
		return []possibility{{word: wantsFiles}}
	}
	var found []possibility
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
