package settings

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// others are what documents spell like a setting: codes and variables that others read.
var others = []string{
	"DEADLINE_EXCEEDED", "INVALID_ARGUMENT", "OVER_LIMIT", "RESOURCE_EXHAUSTED", "STRICT_DNS", "GRPC_XDS_SOTW",
	"OTEL_EXPORTER_OTLP_ENDPOINT", "WEIR_TEST_REQUIRE", "REDIS_PORT", "WEIR_SERVER", "WEIR_TOKEN_FILE", "WEIR_SIMULATE_REQUESTS", "OLD_RULES",
}

// TestDocumentsNameWhatExists looks for the tests and variables that documents name.
func TestDocumentsNameWhatExists(t *testing.T) {
	tests, known := testFiles(t), map[string]bool{}
	for _, flag := range flags(t) {
		known[flag.Envs[0]] = true
	}
	for _, c := range counterparts {
		known[c.name] = true
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
