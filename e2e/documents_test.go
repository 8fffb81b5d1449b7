package e2e

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// blockTest names the test of a code block in documents. document may be a pattern, or * for
// all documents. An empty language or start matches all blocks. If no test can run the
// block, why is the reason.
type blockTest struct{ document, language, start, test, why string }

func (b blockTest) isAbout(document string, block codeBlock) bool {
	named, err := path.Match(b.document, document)
	return err == nil && (named || b.document == "*") && (b.language == "" || b.language == block.language) && strings.HasPrefix(block.text, b.start)
}

// blockTests has a row for each code block. The first row that matches applies.
var blockTests = []blockTest{
	{document: "*", language: "console", test: "TestCommandsOfDocuments"},
	{document: "README.md", language: "sh", test: "TestReadme"},
	{document: "README.md", language: "yaml", test: "TestReadmeYAML"},
	{document: "README.md", start: "config/api.yaml:7:24", test: "TestProblemsInDocuments"},
	{document: "MIGRATING.md", start: "weir validate", test: "TestMigratingCommands"},
	{document: "CONTRIBUTING.md", test: "TestMakeCommands"},
	{document: "ARCHITECTURE.md", start: "cmd/server", why: "a picture of the packages; the linter holds the imports to it"},
	{document: "deploy/chart/README.md", test: "TestChartReadme"},
	{document: "docs/algorithms.md", why: "formulas"},
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
	{document: "docs/rules.md", language: "json", start: "{\"specversion\"", test: "TestBudgetEvents"},
	{document: "docs/rules.md", start: "config/api.yaml:7:15", test: "TestProblemsInDocuments"},
	{document: "docs/testing-rules.md", test: "TestDocument"},
	{document: "docs/xds.md", start: "CONFIG_TYPE=GRPC_XDS_SOTW", test: "TestRulesFromControlPlane"},
	{document: "docs/simulate.md", language: "sh", test: "TestLargeLog"},
	{document: "examples/*/README.md", start: "kubectl ", test: "TestKubectlCommands"},
	{document: "examples/ai-gateway/README.md", start: "helm install", test: "TestChartReadme"},
	{document: "examples/envoy-gateway/README.md", start: "for i in", test: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{document: "examples/envoy/README.md", test: "TestExampleReadmes"},
	{document: "examples/in-flight/README.md", test: "TestExampleReadmes"},
	{document: "examples/istio/README.md", start: "for i in", test: "TestIstioFilters"},
	{document: "examples/llm/README.md", test: "TestExampleReadmes"},
	{document: "examples/login/README.md", test: "TestExampleReadmes"},
	{document: "examples/rlqs/README.md", test: "TestQuotaExampleReadme"},
	{document: "examples/xds/README.md", test: "TestXDSExampleReadme"},
}

// Every code block in every document has a test, or a reason for having none.
func TestEveryBlockIsTested(t *testing.T) {
	t.Parallel()
	tests := map[string]string{} // source text of the files with each test, by its name
	definition := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	testenv.OK(t, filepath.WalkDir(testenv.Repository(t), func(file string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, "_test.go") {
			text := readDocument(t, file)
			for _, found := range definition.FindAllStringSubmatch(text, -1) {
				tests[found[1]] += text
			}
		}
		return err
	}))
	used := make([]bool, len(blockTests))
	for _, document := range documents(t) {
		for _, b := range codeBlocks(t, document) {
			at := slices.IndexFunc(blockTests, func(row blockTest) bool { return row.isAbout(document, b) })
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
		name := path.Base(row.document)
		switch {
		case row.why != "":
		case tests[row.test] == "":
			t.Errorf("%s: there is no %s", row.document, row.test)
		case name != "*" && !strings.Contains(tests[row.test], name):
			t.Errorf("the file with %s does not read %s", row.test, name)
		}
	}
}

// documents returns the paths of all documents, relative to the root of the repository.
func documents(t *testing.T) (names []string) {
	t.Helper()
	root := testenv.Repository(t)
	for _, file := range testenv.Documents(t) {
		names = append(names, testenv.Must(filepath.Rel(root, file))(t))
	}
	return names
}

// The commands and flags that documents name within sentences exist. The tests in blockTests
// run the code blocks.
func TestInlineCommands(t *testing.T) {
	t.Parallel()
	var help strings.Builder
	commands := []string{"except add", "except list", "except remove"}
	for _, found := range regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllStringSubmatch(output(t, "weir help"), -1) {
		commands = append(commands, found[1])
	}
	for _, command := range commands {
		help.WriteString("command " + command + "\n" + output(t, "weir help "+command))
	}
	others := []string{"--mode", "--time"} // flags of Envoy and of docker
	span, flag := regexp.MustCompile("`([^`\n]+)`"), regexp.MustCompile(`(?:^| )(--[a-z][a-z-]*)`)
	command := regexp.MustCompile(`^(?:weir|bin/weir|go run \./cmd/server) ([a-z]+)`)
	foreign := regexp.MustCompile(`^(?:kubectl|docker compose|helm) `)
	seen := 0
	for _, document := range documents(t) {
		if document == "CHANGELOG.md" { // it names removed flags, too
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
			if foreign.MatchString(code) {
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

// Every make command in the documents has a target and uses variables of the Makefile. CI
// sets the same environment.
func TestMakeCommands(t *testing.T) {
	t.Parallel()
	makefile, ci := readDocument(t, "Makefile"), readDocument(t, ".ci/run")
	command := regexp.MustCompile("(?m)(?:`|^ *)((?:[A-Z_]+=\\S+ )?make [a-z]+(?: [A-Z]+=(?:'[^']*'|\\w+))*)")
	seen := 0
	for _, document := range documents(t) { // CONTRIBUTING.md has most
		for _, found := range command.FindAllStringSubmatch(readDocument(t, document), -1) {
			seen++
			variable, line, hasVariable := strings.Cut(found[1], "make ")
			if hasVariable && !strings.Contains(ci, strings.TrimSpace(variable)) {
				t.Errorf("%s: CI does not set %s", document, variable)
			}
			if _, err := shell(t, testenv.Repository(t), "make --dry-run "+line); err != nil {
				t.Errorf("%s: %v", document, err)
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

// wordsAtMost is the maximum number of words of each document, so that a new fact replaces an
// old one.
var wordsAtMost = map[string]int{
	"README.md": 818, "MIGRATING.md": 953, "ARCHITECTURE.md": 1800, "CHANGELOG.md": 400,
	"docs/README.md": 160, "docs/algorithms.md": 1239, "docs/at-3am.md": 971, "docs/compatibility.md": 220, "docs/console.md": 200,
	"docs/examples.md": 1027, "docs/metrics.md": 808, "docs/operations.md": 2487, "docs/performance.md": 469, "docs/rules.md": 3341,
	"docs/scale.md": 502, "docs/settings.md": 1068, "docs/simulate.md": 560, "docs/testing-rules.md": 761, "docs/xds.md": 362,
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
	if sum > 15900 {
		t.Errorf("README.md, MIGRATING.md and docs have %d words, want at most 15900", sum)
	}
}

// The commands in MIGRATING.md validate rules, with the program and with the image. In the
// second, the program's command line follows the name of the image.
func TestMigratingCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testenv.Write(t, filepath.Join(dir, "path/to/config/api.yaml"), userRules(2))
	onHost, inImage, _ := strings.Cut(documentedBlock(t, "MIGRATING.md", "weir validate"), "\n")
	options, within, isRun := strings.Cut(inImage, ":/config:ro\" weir ")
	if !isRun || options != `docker run --rm -v "$PWD/path/to/config` {
		t.Fatalf("the image is run by %s", inImage)
	}
	for _, command := range []string{onHost, strings.ReplaceAll(within, "/config", `"$PWD/path/to/config"`)} {
		if out, err := shell(t, dir, command); err != nil || !strings.HasPrefix(out, "valid: files=1 ") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}

// The command in docs/performance.md measures a server from outside, with and without limits.
func TestDocumentedBench(t *testing.T) {
	t.Parallel()
	w := startWeir(t, "config")
	found := regexp.MustCompile(`(?m)^go run \./cmd/server (bench .*)HOST:PORT`).FindStringSubmatch(readDocument(t, "docs/performance.md"))
	if found == nil {
		t.Fatal("docs/performance.md does not measure a server")
	}
	for options, denied := range map[string]bool{" --keys 1": true, " --descriptor user=loadtest": false} {
		out, err := shell(t, t.TempDir(), "weir "+found[1]+w.grpc+" --requests 100 --warmup 0s --output json"+options)
		if err != nil || strings.Contains(out, `"over_limit": 0`) == denied {
			t.Errorf("with%s: %v, printed\n%s", options, err, out)
		}
	}
}

// codeBlock is a fenced or indented block of a Markdown file. Indented blocks have no language.
type codeBlock struct{ language, text string }

// blockOfCode matches a fenced block or, after an empty line, an indented block.
var blockOfCode = regexp.MustCompile("(?m)^```(.*)\n((?s:.*?))\n?^```$|^\n((?:^ {4}.*\n)+)")

// codeBlocks returns the blocks of code in a Markdown file.
func codeBlocks(t *testing.T, file string) (blocks []codeBlock) {
	t.Helper()
	for _, found := range blockOfCode.FindAllStringSubmatch(readDocument(t, file), -1) {
		text := strings.TrimSuffix(found[3], "\n")
		indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
		text = strings.TrimPrefix(strings.ReplaceAll(text, "\n"+indent, "\n"), indent)
		blocks = append(blocks, codeBlock{found[1], found[2] + text})
	}
	return blocks
}

// readDocument reads a file. A relative path starts at the root of the repository.
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
	for _, b := range codeBlocks(t, document) {
		if strings.HasPrefix(b.text, start) {
			return b.text
		}
	}
	t.Fatalf("%s has no block that begins with %s", document, start)
	return ""
}
