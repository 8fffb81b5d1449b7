package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"weir/internal/testenv"
)

// Command lines in bash, and the completions of their last word.
var completed = []struct{ words, want string }{
	{"weir v", "validate\nversion"},
	{"weir except ''", "add\nlist\nremove"},
	{"weir except add --am", "--amount"},
	{"weir validate --output = ''", "text\njson\ngithub"},
	{"weir validate --output j", "json"},
	{"weir validate --output = json ''", "default\n"},
	{"weir validate ''", "default\n"},
	{"weir --config = conf", "default\n"},
	{"weir --port ''", ""},
	{"weir --port 80 --us-nothing", ""},
	{"weir --use-prometheus = t", "true"},
	{"weir version nothing ''", ""},
	{"weir help va", "validate"},
	{"weir completion ''", "bash\nzsh\nfish"},
	{"weir serve --failure-mode ''", "error\nallow\ndeny\nlocal"},
	{`weir '$(touch hostile)' '"; exit 1' ''`, ""},
}

func TestCompletion(t *testing.T) {
	inBash, wantBash := "set -eu; source <(weir completion bash)\n"+
		"compopt() { echo \"$2\"; } # compopt itself fails outside of readline\n", ""
	for _, c := range completed {
		inBash += "COMP_WORDS=(" + c.words + `) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _weir weir; printf '%s\n' "${COMPREPLY[@]:-}"; echo ==` + "\n"
		wantBash += c.want + "\n==\n"
	}
	for _, tt := range []struct{ shell, option, script, want string }{
		{"bash", "--norc", inBash, strings.TrimSpace(wantBash)},
		{"zsh", "-f", `compdef() { print -r -- "$@" }
			_describe() { print -rl -- "$found[@]" }
			_files() { print -r -- files }
			source <(weir completion zsh)
			words=(weir expl) CURRENT=2; _weir
			words=(weir validate --output=j) CURRENT=3; _weir
			compset() { print -r -- "$@" }
			words=(weir validate '') CURRENT=3; _weir
			words=(weir --config=a) CURRENT=2 PREFIX=--config=a; _weir`,
			"_weir weir\nexplain:Explain what happens to a descriptor\n--output=json:\nfiles\n-P *=\nfiles"},
		{"fish", "--no-config", `weir completion fish | source
			complete -C "weir expl"
			complete -C "weir validate --output=j"
			complete -C "weir validate --output js"
			complete -C "weir validate ARCHITECT"
			complete -C "weir --config=ARCHITECT"`,
			"explain\tExplain what happens to a descriptor\n--output=json\njson\nARCHITECTURE.md\n--config=ARCHITECTURE.md"},
	} {
		t.Run(tt.shell, func(t *testing.T) {
			dir := t.TempDir() // contains the test's binary under the name weir
			testenv.OK(t, os.Symlink(testenv.Must(filepath.Abs(os.Args[0]))(t), filepath.Join(dir, "weir")))
			command := exec.CommandContext(t.Context(), testenv.Program(t, tt.shell), tt.option, "-c", tt.script)
			command.Dir = "../.."
			command.Env = append(os.Environ(), asProgram+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
			out, err := command.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != tt.want {
				t.Errorf("%v, got\n%s\nwant\n%s", err, got, tt.want)
			}
		})
	}
}

// Every command and flag of the parser is completed.
func TestCompletionFollowsTheModel(t *testing.T) {
	parser := newParser(new(commandLine), io.Discard, io.Discard, func(int) {})
	var walk func(node *kong.Node, way []string)
	walk = func(node *kong.Node, way []string) {
		completes := func(typed, word string) {
			isWord := func(line string) bool { return strings.HasPrefix(line, word+"\t") }
			if !slices.ContainsFunc(complete(parser, append(slices.Clone(way), typed)), isWord) {
				t.Errorf("weir %s does not complete %s", strings.Join(way, " "), word)
			}
		}
		for _, flag := range node.Flags {
			completes("-", "--"+flag.Name)
		}
		for _, child := range node.Children {
			completes("", child.Name)
			walk(child, append(slices.Clone(way), child.Name))
		}
	}
	walk(parser.Model.Node, nil)
}
