package main

import (
	"cmp"
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

// scripts contains a script for each shell, which runs "weir completion" with the typed words and shows the output.
//
//go:embed completion
var scripts embed.FS

func (c completion) Run(p *program) error {
	if len(c.Words) == 0 {
		script, err := scripts.ReadFile("completion/weir." + c.Shell)
		fmt.Fprintf(p.stdout, "%s", script)
		return err
	}
	for _, line := range complete(p.parsed.Kong, c.Words) {
		fmt.Fprintln(p.stdout, line)
	}
	return nil
}

// candidate returns an output line: the word, a tab and the first sentence of its help.
func candidate(word, help string) string {
	sentence, _, _ := strings.Cut(help, ". ")
	sentence, _, _ = strings.Cut(sentence, "\n")
	return word + "\t" + sentence
}

// wantsFiles is the output line that asks the shell to complete file names.
var wantsFiles = candidate(":files", "")

// complete returns candidates from the parser for the last of the words, or nil. There must be at least one word.
func complete(parser *kong.Kong, words []string) (lines []string) {
	if strings.HasPrefix(words[0], "-") {
		words = append([]string{"serve"}, words...)
	}
	typed, last := words[:len(words)-1], words[len(words)-1]
	trace, err := kong.Trace(parser, typed)
	if err != nil {
		return nil
	}
	node, arguments := cmp.Or(trace.Selected(), parser.Model.Node), 0
	for _, passed := range trace.Path {
		if passed.Positional != nil {
			arguments++
		}
	}
	flags := map[string]*kong.Flag{}
	for _, flag := range trace.Flags() {
		flags["--"+flag.Name] = flag
		lines = append(lines, candidate("--"+flag.Name, flag.Help))
	}
	head, all := "", node.Positional
	name, value, assigned := strings.Cut(last, "=")
	before := flags[slices.Concat([]string{""}, typed)[len(typed)]]
	switch {
	case assigned && flags[name] != nil:
		head, last, lines = name+"=", value, values(parser, flags[name].Value)
	case before != nil && !before.IsBool():
		lines = values(parser, before.Value)
	case strings.HasPrefix(last, "-"):
	case trace.Error != nil && strings.HasPrefix(trace.Error.Error(), "unexpected argument"):
		return nil
	case len(node.Children) > 0:
		lines = children(node)
	case len(all) > 0 && (arguments < len(all) || all[arguments-1].IsCumulative()):
		lines = values(parser, all[min(arguments, len(all)-1)])
	default:
		return nil
	}
	if slices.Equal(lines, []string{wantsFiles}) {
		return lines
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, last) })
	for i := range lines {
		lines[i] = head + lines[i]
	}
	return lines
}

func children(node *kong.Node) (found []string) {
	for _, child := range node.Children {
		found = append(found, candidate(child.Name, child.Help))
	}
	return found
}

// values returns the candidates for v, the value of a flag or argument: the words that v allows, the
// names of commands, or wantsFiles if v takes any text.
func values(parser *kong.Kong, v *kong.Value) (found []string) {
	words := settings.WordsOf(v)
	switch {
	case v.Enum != "":
		words = v.EnumSlice()
	case words != nil:
	case v.Name == "command":
		return children(parser.Model.Node)
	case v.Target.Kind() == reflect.String || v.Target.Kind() == reflect.Slice:
		return []string{wantsFiles}
	}
	for _, word := range words {
		found = append(found, candidate(word, ""))
	}
	return found
}
