package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// blockTests names, for each block of code in the documents, the test that runs
// it or compares it with what runs. An empty start stands for all blocks of that
// language. Where nothing here can run a block, why says so.
var blockTests = []struct{ document, language, start, test, why string }{
	{document: "*", language: "console", test: "TestCommandsOfDocuments"},
	{document: "README.md", language: "sh", test: "TestReadme"},
	{document: "README.md", language: "yaml", test: "TestReadmeYAML"},
	{document: "README.md", start: "config/api.yaml:7:24", test: "TestProblemsInDocuments"},
	{document: "MIGRATING.md", start: "weir validate", test: "TestMigratingCommands"},
	{document: "CONTRIBUTING.md", start: "make test ", test: "TestMakeCommands"},
	{document: "CONTRIBUTING.md", start: "WEIR_TEST_REQUIRE=", test: "TestMakeCommands"},
	{document: "ARCHITECTURE.md", start: "cmd/server", why: "a picture of the packages; the linter holds the imports to it"},
	{document: "deploy/chart/README.md", language: "yaml", test: "TestChartReadme"},
	{document: "deploy/chart/README.md", start: "helm install", test: "TestChartReadme"},
	{document: "docs/algorithms.md", start: "count + cost", why: "a formula"},
	{document: "docs/algorithms.md", start: "previous", why: "a formula"},
	{document: "docs/algorithms.md", start: "level + cost", why: "a formula"},
	{document: "docs/algorithms.md", start: "in flight < L", why: "a formula"},
	{document: "docs/at-3am.md", start: "kubectl port-forward", test: "TestKubectlCommands"},
	{document: "docs/at-3am.md", language: "sh", test: "TestAt3AM"},
	{document: "docs/examples.md", language: "yaml", test: "TestExamples"},
	{document: "docs/metrics.md", language: "yaml", test: "TestDocumentedLabels"},
	{document: "docs/metrics.md", language: "promql", test: "TestDocumentedExpressions"},
	{document: "docs/metrics.md", start: "USE_DOG_STATSD=true", test: "TestDogStatsD"},
	{document: "docs/operations.md", language: "sh", start: "GRPC_SERVER_USE_TLS=true", test: "TestMutualTLS"},
	{document: "docs/operations.md", language: "sh", start: "REDIS_AUTH_FILE=", test: "TestPasswordsOfRedisAreReplaced"},
	{document: "docs/operations.md", language: "yaml", start: "health_checks:", test: "TestRollingRestart"},
	{document: "docs/operations.md", language: "json", start: "{\"time\"", test: "TestDocumentedDecision"},
	{document: "bench/README.md", language: "sh", test: "TestCommandsOfDocument"},
	{document: "docs/performance.md", language: "sh", test: "TestDocumentedBench"},
	{document: "docs/rules.md", language: "yaml", test: "TestRuleReferenceLoads"},
	{document: "docs/rules.md", language: "json", start: "{\n  \"domain\"", test: "TestDocumentedJSONRequest"},
	{document: "docs/rules.md", language: "json", start: "{\"domain\"", test: "TestDocumentedMetadata"},
	{document: "docs/rules.md", start: "config/api.yaml:7:15", test: "TestProblemsInDocuments"},
	{document: "docs/testing-rules.md", language: "yaml", test: "TestDocument"},
	{document: "docs/testing-rules.md", start: "config/api_test.yaml:9:21", test: "TestDocument"},
	{document: "docs/xds.md", start: "CONFIG_TYPE=GRPC_XDS_SOTW", test: "TestRulesFromControlPlane"},
	{document: "docs/simulate.md", language: "sh", test: "TestLargeLog"},
	{document: "examples/contour/README.md", start: "kubectl apply", test: "TestKubectlCommands"},
	{document: "examples/contour/README.md", start: "kubectl edit", test: "TestKubectlCommands"},
	{document: "examples/envoy-gateway/README.md", start: "kubectl apply", test: "TestKubectlCommands"},
	{document: "examples/envoy-gateway/README.md", start: "for i in", test: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{document: "examples/envoy/README.md", language: "sh", test: "TestExampleReadme"},
	{document: "examples/envoy/README.md", test: "TestExampleReadme"},
	{document: "examples/in-flight/README.md", language: "sh", test: "TestInFlightExampleReadme"},
	{document: "examples/in-flight/README.md", test: "TestInFlightExampleReadme"},
	{document: "examples/istio/README.md", start: "kubectl apply", test: "TestKubectlCommands"},
	{document: "examples/istio/README.md", start: "for i in", test: "TestIstioReadme"},
	{document: "examples/kubernetes/README.md", start: "kubectl apply", test: "TestKubectlCommands"},
	{document: "examples/kubernetes/README.md", start: "kubectl port-forward", test: "TestKubectlCommands"},
	{document: "examples/llm/README.md", language: "sh", test: "TestLLMExampleReadme"},
	{document: "examples/llm/README.md", test: "TestLLMExampleReadme"},
	{document: "examples/login/README.md", language: "sh", test: "TestLoginExampleReadme"},
	{document: "examples/login/README.md", test: "TestLoginExampleReadme"},
	{document: "examples/xds/README.md", language: "sh", test: "TestXDSExampleReadme"},
	{document: "examples/xds/README.md", test: "TestXDSExampleReadme"},
}

// Every block of code in every document is run by a test, or says why it is not.
func TestEveryBlockIsTested(t *testing.T) {
	t.Parallel()
	tests := testFiles(t)
	used := make([]bool, len(blockTests))
	for _, document := range documents(t) {
		for _, b := range codeBlocks(t, filepath.Join(testenv.Repository(t), document)) {
			at := slices.IndexFunc(blockTests, func(row struct{ document, language, start, test, why string }) bool {
				return (row.document == document || row.document == "*") && row.language == b.language && strings.HasPrefix(b.text, row.start)
			})
			if at < 0 {
				t.Errorf("%s: no test runs this %s block:\n%s", document, b.language, b.text)
				continue
			}
			used[at] = true
		}
	}
	for i, row := range blockTests {
		if !used[i] {
			t.Errorf("%s has no %s block that begins with %q", row.document, row.language, row.start)
		}
		name := filepath.Base(row.document)
		switch {
		case row.why != "":
		case tests[row.test] == "":
			t.Errorf("%s: there is no %s", row.document, row.test)
		case name != "*" && !strings.Contains(tests[row.test], name):
			t.Errorf("the file with %s does not read %s", row.test, name)
		}
	}
}

// documents are all that users read, from the root of the repository.
func documents(t *testing.T) (names []string) {
	t.Helper()
	root := testenv.Repository(t)
	for _, file := range testenv.Documents(t) {
		names = append(names, testenv.Must(filepath.Rel(root, file))(t))
	}
	return names
}

// testFiles returns the text of the file of each test in the repository.
func testFiles(t *testing.T) map[string]string {
	t.Helper()
	tests := map[string]string{}
	definition := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	root := testenv.Repository(t)
	for _, dir := range []string{"e2e", "cmd", "internal", "bench", "docs", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text := readDocument(t, path)
			for _, found := range definition.FindAllStringSubmatch(text, -1) {
				tests[found[1]] += text // some names are there twice
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return tests
}

// The commands and flags that sentences name exist. What blocks of code hold is
// run by the tests above.
func TestInlineCommands(t *testing.T) {
	t.Parallel()
	var help strings.Builder
	commands := []string{"except add", "except list", "except remove"}
	for _, found := range regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllStringSubmatch(output(t, program(t), "help"), -1) {
		commands = append(commands, found[1])
	}
	for _, command := range commands {
		help.WriteString("command " + command + "\n" + output(t, program(t), append([]string{"help"}, strings.Fields(command)...)...))
	}
	others := []string{"--mode", "--time"} // of Envoy and of docker
	span, flag := regexp.MustCompile("`([^`\n]+)`"), regexp.MustCompile(`(?:^| )(--[a-z][a-z-]*)`)
	command := regexp.MustCompile(`^(?:weir|bin/weir|go run \./cmd/server) ([a-z]+)`)
	seen := 0
	for _, document := range documents(t) {
		if document == "CHANGELOG.md" { // it names what there was
			continue
		}
		for _, found := range span.FindAllStringSubmatch(readDocument(t, document), -1) {
			code := found[1]
			if found := command.FindStringSubmatch(code); found != nil && found[1] != "help" {
				seen++
				if !strings.Contains(help.String(), "command "+found[1]+"\n") {
					t.Errorf("%s: there is no command %s", document, code)
				}
			}
			if slices.ContainsFunc([]string{"kubectl ", "docker compose ", "helm "}, func(other string) bool { return strings.HasPrefix(code, other) }) {
				continue
			}
			for _, found := range flag.FindAllStringSubmatch(code, -1) {
				seen++
				if !strings.Contains(help.String(), found[1]) && !slices.Contains(others, found[1]) {
					t.Errorf("%s: there is no flag %s", document, code)
				}
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d commands and flags were found", seen)
	}
}

// Every make command of the documents has a target, with variables that the
// Makefile knows. CI runs those targets.
func TestMakeCommands(t *testing.T) {
	t.Parallel()
	root, shell := testenv.Repository(t), testenv.Shell(t)
	makefile, ci := readDocument(t, filepath.Join(root, "Makefile")), readDocument(t, filepath.Join(root, ".ci/run"))
	command := regexp.MustCompile("(?m)(?:`|^ *)((?:[A-Z_]+=\\S+ )?make [a-z]+(?: [A-Z]+=(?:'[^']*'|\\w+))*)")
	seen := 0
	for _, document := range documents(t) { // CONTRIBUTING.md has most
		for _, found := range command.FindAllStringSubmatch(readDocument(t, filepath.Join(root, document)), -1) {
			seen++
			variable, line, hasVariable := strings.Cut(found[1], "make ")
			if hasVariable && !strings.Contains(ci, strings.TrimSpace(variable)) {
				t.Errorf("%s: CI does not set %s", document, variable)
			}
			cmd := exec.Command(shell, "-c", "make --dry-run "+line)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", document, found[1], err, out)
			}
			for _, name := range regexp.MustCompile(` ([A-Z]+)=`).FindAllStringSubmatch(line, -1) {
				if !strings.Contains(makefile, "$("+name[1]+")") {
					t.Errorf("%s: the Makefile does not read %s", document, name[1])
				}
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d make commands were found", seen)
	}
}

// wordsAtMost bounds the words of each document, so that a new fact takes the place of
// an old one.
var wordsAtMost = map[string]int{
	"README.md": 780, "MIGRATING.md": 900, "ARCHITECTURE.md": 1800, "CHANGELOG.md": 400,
	"docs/README.md": 150, "docs/algorithms.md": 900, "docs/at-3am.md": 760, "docs/compatibility.md": 220, "docs/console.md": 130,
	"docs/examples.md": 700, "docs/metrics.md": 700, "docs/operations.md": 2260, "docs/performance.md": 450, "docs/rules.md": 2580,
	"docs/scale.md": 450, "docs/settings.md": 1000, "docs/simulate.md": 500, "docs/testing-rules.md": 750, "docs/xds.md": 330,
}

// The documents stay short enough to read.
func TestDocumentsAreShort(t *testing.T) {
	t.Parallel()
	sum := 0
	for _, document := range documents(t) {
		words, isUsers := len(strings.Fields(readDocument(t, document))), document == "README.md" || document == "MIGRATING.md" || filepath.Dir(document) == "docs"
		most, isBounded := wordsAtMost[document]
		if isUsers {
			sum += words
		}
		if words > most && (isUsers || isBounded) {
			t.Errorf("%s has %d words, want at most %d", document, words, most)
		}
	}
	if sum > 14000 {
		t.Errorf("README.md, MIGRATING.md and docs have %d words, want at most 14000", sum)
	}
}

// MIGRATING.md checks rules with the program, and with the image, whose command
// follows the image's name.
func TestMigratingCommands(t *testing.T) {
	t.Parallel()
	shell := testenv.Shell(t)
	dir := t.TempDir()
	testenv.OK(t, os.MkdirAll(filepath.Join(dir, "path/to/config"), 0o755))
	write(t, filepath.Join(dir, "path/to/config/api.yaml"), "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]\n")
	onHost, inImage, _ := strings.Cut(documentedBlock(t, "MIGRATING.md", "weir validate"), "\n")
	options, within, isRun := strings.Cut(inImage, ":/config:ro\" weir ")
	if !isRun || options != `docker run --rm -v "$PWD/path/to/config` {
		t.Fatalf("the image is run by %s", inImage)
	}
	for _, command := range []string{onHost, strings.ReplaceAll(within, "/config", `"$PWD/path/to/config"`)} {
		cmd := exec.Command(shell, "-c", command)
		cmd.Dir, cmd.Env = dir, withProgram(t)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "valid: files=1 ") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}

// withProgram is the environment, in which weir is the program.
func withProgram(t *testing.T) []string {
	t.Helper()
	return append(os.Environ(), "PATH="+filepath.Dir(program(t))+":"+os.Getenv("PATH"))
}

// docs/performance.md measures a server from outside, with and without limits.
func TestDocumentedBench(t *testing.T) {
	t.Parallel()
	shell := testenv.Shell(t)
	w := startWeir(t, "config")
	found := regexp.MustCompile(`(?m)^go run \./cmd/server (bench .*HOST:PORT)`).FindStringSubmatch(readDocument(t, "docs/performance.md"))
	if found == nil {
		t.Fatal("docs/performance.md does not measure a server")
	}
	for options, denied := range map[string]bool{" --keys 1": true, " --descriptor user=loadtest": false} {
		cmd := exec.Command(shell, "-c", "weir "+strings.ReplaceAll(found[1], "HOST:PORT", w.grpc)+" --requests 100 --warmup 0s --output json"+options)
		cmd.Env = withProgram(t)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", cmd, err, out)
		}
		if strings.Contains(string(out), `"over_limit": 0`) == denied {
			t.Errorf("%s printed\n%s", cmd, out)
		}
	}
}

// codeBlock is a fenced or indented block of a Markdown file. Indented ones have no
// language.
type codeBlock struct{ language, text string }

// codeBlocks returns the blocks of code in a Markdown file.
func codeBlocks(t *testing.T, file string) []codeBlock {
	t.Helper()
	var blocks []codeBlock
	var text []string
	language, fenced, indent := "", false, ""
	end := func() {
		if fenced || indent != "" {
			blocks = append(blocks, codeBlock{language, strings.Join(text, "\n")})
		}
		text, language, fenced, indent = nil, "", false, ""
	}
	afterEmpty := false
	for line := range strings.SplitSeq(readDocument(t, file), "\n") {
		name, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && fenced:
			end()
		case isFence:
			end()
			language, fenced = name, true
		case fenced:
			text = append(text, line)
		case strings.TrimSpace(line) == "" || !strings.HasPrefix(line, "    ") && indent != "":
			end()
		case indent == "" && afterEmpty && strings.HasPrefix(line, "    "):
			indent = line[:len(line)-len(strings.TrimLeft(line, " "))]
			text = append(text, strings.TrimPrefix(line, indent))
		case indent != "":
			text = append(text, strings.TrimPrefix(line, indent))
		}
		afterEmpty = strings.TrimSpace(line) == ""
	}
	end()
	return blocks
}

// readDocument reads a file of the repository, or of elsewhere.
func readDocument(t *testing.T, file string) string {
	t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(testenv.Repository(t), file)
	}
	return string(testenv.Must(os.ReadFile(file))(t))
}

// documentedBlock returns the block of a document that begins with start.
func documentedBlock(t *testing.T, document, start string) string {
	t.Helper()
	for _, b := range codeBlocks(t, filepath.Join(testenv.Repository(t), document)) {
		if strings.HasPrefix(b.text, start) {
			return b.text
		}
	}
	t.Fatalf("%s has no block that begins with %s", document, start)
	return ""
}
