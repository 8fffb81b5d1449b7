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

// inShell runs a script with a weir in the PATH, the test's binary.
func inShell(t *testing.T, shell, script string, args ...string) string {
	t.Helper()
	self := testenv.Must(filepath.Abs(os.Args[0]))(t)
	dir := t.TempDir()
	testenv.OK(t, os.Symlink(self, filepath.Join(dir, "weir")))
	command := exec.CommandContext(t.Context(), testenv.InteractiveShell(t, shell), append(args, "-c", script)...)
	command.Dir = "../.."
	command.Env = append(os.Environ(), asProgram+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", shell, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestCompletionInBash(t *testing.T) {
	tests := []struct{ words, want string }{
		{"weir v", "validate\nversion"},
		{"weir except ''", "add\nlist\nremove"},
		{"weir except add --am", "--amount"},
		{"weir validate --output = ''", "text\njson\ngithub"},
		{"weir validate --output =", "text\njson\ngithub"},
		{"weir validate --output = g", "github"},
		{"weir validate --output j", "json"},
		{"weir validate --output = json ''", "default"},
		{"weir validate ''", "default"},
		{"weir --config ''", "default"},
		{"weir --config = conf", "default"},
		{"weir --port ''", ""},
		{"weir --nothing ''", ""},
		{"weir nothing ''", ""},
		{"weir --port 80 --us-nothing", ""},
		{"weir --use-prometheus = t", "true"},
		{"weir version ''", ""},
		{"weir version nothing ''", ""},
		{"weir help va", "validate"},
		{"weir completion ''", "bash\nzsh\nfish"},
		{"weir serve --failure-mode ''", "error\nallow\ndeny\nlocal"},
		{"weir --log-level = d", "debug"},
		{"weir serve --redis-type s", "single\nsentinel"},
		{`weir '$(touch hostile)' '"; exit 1' ''`, ""},
	}
	script := "set -eu; source <(weir completion bash)\n" +
		"compopt() { echo \"$2\"; } # which is refused outside of readline\n"
	for _, test := range tests {
		script += "COMP_WORDS=(" + test.words + `) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _weir weir; printf '%s\n' "${COMPREPLY[@]:-}"; echo ==` + "\n"
	}
	answers := strings.Split(inShell(t, "bash", script), "==")
	for i, test := range tests {
		if got := strings.TrimSpace(answers[i]); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.words, got, test.want)
		}
	}
}

func TestCompletionInZsh(t *testing.T) {
	got := inShell(t, "zsh", `compdef() { print -r -- "$@" }
		_describe() { print -rl -- "$found[@]" }
		_files() { print -r -- files }
		source <(weir completion zsh)
		words=(weir expl) CURRENT=2; _weir
		words=(weir validate --output=j) CURRENT=3; _weir
		compset() { print -r -- "$@" }
		words=(weir validate '') CURRENT=3; _weir
		words=(weir --config=a) CURRENT=2 PREFIX=--config=a; _weir`, "-f")
	if want := "_weir weir\nexplain:Explain what happens to a descriptor\n--output=json:\nfiles\n-P *=\nfiles"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCompletionInFish(t *testing.T) {
	got := inShell(t, "fish", `weir completion fish | source
		complete -C "weir expl"
		complete -C "weir validate --output=j"
		complete -C "weir validate --output js"
		complete -C "weir validate ARCHITECT"
		complete -C "weir --config=ARCHITECT"`, "--no-config")
	want := "explain\tExplain what happens to a descriptor\n--output=json\njson\nARCHITECTURE.md\n--config=ARCHITECTURE.md"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whatever the parser knows is completed: no command and no flag is left out.
func TestCompletionFollowsTheModel(t *testing.T) {
	parser := newParser(new(commandLine), io.Discard, io.Discard, func(int) {})
	var walk func(node *kong.Node, way []string)
	walk = func(node *kong.Node, way []string) {
		words := func(typed ...string) (found []string) {
			for _, line := range complete(parser, slices.Concat(way, typed)) {
				word, _, _ := strings.Cut(line, "\t")
				found = append(found, word)
			}
			return found
		}
		for _, flag := range node.Flags {
			if !slices.Contains(words("-"), "--"+flag.Name) {
				t.Errorf("weir %s does not complete --%s", strings.Join(way, " "), flag.Name)
			}
		}
		for _, child := range node.Children {
			if !slices.Contains(words(""), child.Name) {
				t.Errorf("weir %s does not complete %s", strings.Join(way, " "), child.Name)
			}
			walk(child, append(slices.Clone(way), child.Name))
		}
	}
	walk(parser.Model.Node, nil)
}
