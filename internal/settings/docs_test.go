package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"weir/internal/testenv"
)

const document = "../../docs/settings.md"

// written is the line where the generated part of the document begins.
const written = "<!-- Written by: go test ./internal/settings -update -->\n"

// TestDocument compares docs/settings.md with the settings. Settings that most users choose are in a
// table written by hand; generated tables have the others, with their help.
func TestDocument(t *testing.T) {
	text := testenv.Must(os.ReadFile(document))(t)
	explained, _, _ := strings.Cut(string(text), written)
	list, group := flags(t), ""
	want := explained + written
	for _, flag := range list {
		if isVariant(list, flag) || strings.Contains(explained, "\n|`"+flag.Envs[0]+"`|") {
			continue
		}
		if flag.Group.Title != group {
			group = flag.Group.Title
			want += fmt.Sprintf("\n## %s\n\n|environment|default|meaning|\n|---|---|---|\n", strings.TrimSuffix(group, ":"))
		}
		initial := ""
		if flag.Default != "" && flag.Default != "false" {
			initial = code(flag.Default)
		}
		want += fmt.Sprintf("|`%s`|%s|%s|\n", flag.Envs[0], initial, strings.ReplaceAll(flag.Help, "|", `\|`))
	}
	testenv.Golden(t, document, want)
}

// isVariant reports whether a setting is a variant of another: the file of a secret, or a setting of
// the second Redis.
func isVariant(list []*kong.Flag, flag *kong.Flag) bool {
	name := flag.Envs[0]
	other := strings.Replace(strings.TrimSuffix(name, "_FILE"), "REDIS_PERSECOND_", "REDIS_", 1)
	return other != name && slices.ContainsFunc(list, func(f *kong.Flag) bool { return f.Envs[0] == other })
}

// TestEverySettingIsComplete checks the tags of every field.
func TestEverySettingIsComplete(t *testing.T) {
	taken := map[string]string{}
	for _, flag := range flags(t) {
		if len(flag.Envs) != 1 {
			t.Errorf("--%s has %d variables, want 1", flag.Name, len(flag.Envs))
			continue
		}
		env := flag.Envs[0]
		if other, ok := taken[env]; ok {
			t.Errorf("--%s and --%s share %s", flag.Name, other, env)
		}
		taken[env] = flag.Name
		if name := strings.ReplaceAll(strings.ToLower(env), "_", "-"); flag.Name != name && env != "CONFIG_PATH" {
			t.Errorf("%s has the flag --%s, the document says --%s", env, flag.Name, name)
		}
		switch env {
		case "REDIS_PORT", "REDIS_HOST", "RATELIMIT_PORT":
			t.Errorf("--%s: Kubernetes sets %s for a service of that name", flag.Name, env)
		}
		if !strings.HasSuffix(flag.Help, ".") {
			t.Errorf("--%s: help %q is no sentence", flag.Name, flag.Help)
		}
		if flag.Default == "" && flag.PlaceHolder == "" {
			t.Errorf("--%s has neither default nor placeholder", flag.Name)
		}
		for _, bound := range []string{flag.Tag.Get("min"), flag.Tag.Get("max")} {
			if bound != "" {
				number(bound) // panics if a tag is invalid
			}
		}
	}
}

// TestEverySettingIsRead looks for code that reads the field of each setting. A setting that no code
// reads would be accepted without effect.
func TestEverySettingIsRead(t *testing.T) {
	var code strings.Builder
	for _, pattern := range []string{"*.go", "../server/*.go", "../../cmd/server/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no file is %s (error: %v)", pattern, err)
		}
		for _, path := range paths {
			text := testenv.Must(os.ReadFile(path))(t)
			if !strings.HasSuffix(path, "_test.go") {
				code.Write(text)
			}
		}
	}
	for _, field := range regexp.MustCompile("(?m)^\t(\\w+) .*`.*env:\"").FindAllStringSubmatch(code.String(), -1) {
		if name := field[1]; name != "BackendType" && !regexp.MustCompile(`\.`+name+`\b`).MatchString(code.String()) { // it has only one value
			t.Errorf("nothing reads the setting %s", name)
		}
	}
}

// flags lists the settings in the order of their fields.
func flags(t *testing.T) []*kong.Flag {
	var cli struct{ Settings }
	return newParser(t, &cli, kong.NoDefaultHelp()).Model.Flags
}

func code(s string) string {
	if s == "" {
		return "none"
	}
	return "`" + s + "`"
}

// others are words in documents that look like settings: codes, and variables of other programs.
var others = []string{
	"DEADLINE_EXCEEDED", "INVALID_ARGUMENT", "OVER_LIMIT", "RESOURCE_EXHAUSTED", "STRICT_DNS", "GRPC_XDS_SOTW",
	"OTEL_EXPORTER_OTLP_ENDPOINT", "WEIR_TEST_REQUIRE", "REDIS_PORT", "WEIR_SERVER", "WEIR_TOKEN_FILE", "WEIR_SIMULATE_REQUESTS", "WEIR_QUOTA_FIGURES", "OLD_RULES",
}

// TestDocumentsNameWhatExists looks up the tests and variables that documents name.
func TestDocumentsNameWhatExists(t *testing.T) {
	tests, known := testFiles(t), map[string]bool{}
	for _, flag := range flags(t) {
		known[flag.Envs[0]] = true
	}
	for _, c := range counterparts {
		for name := range c.variables() {
			known[name] = true
		}
	}
	test, variable := regexp.MustCompile("`(Test\\w+)`"), regexp.MustCompile("(?m)(?:`|^| )([A-Z]+(?:_[A-Z]+)+|PORT)[`=]")
	for _, document := range testenv.Documents(t) {
		text := testenv.Must(os.ReadFile(document))(t)
		for _, name := range test.FindAllStringSubmatch(string(text), -1) {
			if tests[name[1]] == nil {
				t.Errorf("%s: there is no test %s", document, name[1])
			}
		}
		for _, name := range variable.FindAllStringSubmatch(string(text), -1) {
			if !known[name[1]] && !slices.Contains(others, name[1]) && !strings.HasPrefix(name[1], "DOG_STATSD_MOGRIFIER_") {
				t.Errorf("%s: %s is no setting", document, name[1])
			}
		}
	}
}
