package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"weir/internal/settings"
	"weir/internal/testenv"
)

const secret = "swordfish"

// shownSecret finds a line with it, also as the name of a header.
var shownSecret = regexp.MustCompile("(?i).*" + secret + ".*")

// secretForms are ways to write a secret into a setting of each kind: right for one or
// another of them, and mistyped. Each is one start of the program; the package settings
// holds the texts of errors to many more.
var secretForms = map[string][]string{
	"url": {
		"redis://u:%s@127.0.0.1:1", "rediss://:%s@127.0.0.1:1/1", "redis://127.0.0.1:1?password=%s", "unix://u:%s@/nowhere.sock",
		"redis://%s@127.0.0.1:1", "redis://127.0.0.1:1/%s", "redis://127.0.0.1:1#%s", "redis://u:%s/x@127.0.0.1:1", "u:%s@127.0.0.1:1",
		"/u:%s@127.0.0.1:1", "http://u:%s@127.0.0.1:1", "127.0.0.1:%s", "127.0.0.1:1,redis://u:%s@127.0.0.1:1",
		"weir,redis://u:%s@127.0.0.1:1", "%s@weir,127.0.0.1:1",
	},
	"headers": {"authorization:Bearer %s", "Authorization=Bearer%%20%s", "Bearer %s", "a=b,%s", "x=%s%%zz", "x:%s\x01", "%s x:y", "%s x=y"},
	"":        {"%s", "%s:", ":%s", "u:%s", " %s"},
	"key":     {"-----BEGIN PRIVATE KEY-----\nMIIE%s\n-----END PRIVATE KEY-----\n", "\n-----BEGIN EC PRIVATE KEY-----\\nMIIE%s\r\n"}, // its text instead of its path
}

// TestNoSecretIsShown gives the program a setting of each kind that may hold a secret,
// which is told by its type, in many ways, and every other such setting in one way. It
// looks for the secret in all that the program prints and serves.
func TestNoSecretIsShown(t *testing.T) {
	dir := rules(t, "a.yaml", good)
	file := filepath.Join(rules(t, "secret", secret), "secret")
	flags, seen, found := serveFlags(), map[string]bool{}, 0
	for _, flag := range flags {
		isKey := strings.HasSuffix(flag.Name, "-key")
		if flag.Target.Type() != reflect.TypeFor[settings.Secret]() && !isKey {
			continue
		}
		found++
		kind := ""
		for k := range secretForms {
			if k != "" && strings.HasSuffix(flag.Name, k) {
				kind = k
			}
		}
		forms := append([]string{"%s"}, secretForms[kind]...)
		if isKey {
			forms = secretForms[kind]
		} else if seen[kind] {
			forms = forms[:2]
		}
		seen[kind] = true
		t.Run(flag.Envs[0], func(t *testing.T) {
			t.Parallel()
			for n, form := range forms {
				checkShown(t, flag, fmt.Sprintf(form, secret), n, dir)
			}
			other := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == flag.Name+"-file" })
			switch {
			case other >= 0:
				checkShown(t, flags[other], file, 0, dir)
			case !isKey && !strings.HasSuffix(flag.Name, "-command"):
				t.Errorf("there is no --%s-file", flag.Name)
			}
		})
	}
	if found < 12 {
		t.Errorf("only %d settings hold secrets", found)
	}
}

// TestNoSecretIsShownElsewhere writes a secret where none belongs.
func TestNoSecretIsShownElsewhere(t *testing.T) {
	dir := rules(t, "a.yaml", good)
	xds, traces := []string{"CONFIG_TYPE=GRPC_XDS_SOTW", "FORCE_START_WITHOUT_INITIAL_CONFIG=true"}, []string{"TRACING_ENABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}
	for _, c := range []struct {
		name      string
		args, env []string
		want      string // in the log
	}{
		{"URL of a control plane", nil, append(xds, "CONFIG_GRPC_XDS_SERVER_URL=http://u:"+secret+"@127.0.0.1"), "CONFIG_GRPC_XDS_SERVER_URL"},
		{"control plane with a user", nil, append(xds, "CONFIG_GRPC_XDS_SERVER_URL="+secret+"@127.0.0.1:1"), "CONFIG_GRPC_XDS_SERVER_URL"},
		{"target with a password", nil, append(xds, "CONFIG_GRPC_XDS_SERVER_URL=dns:///u:"+secret+"@127.0.0.1:1"), "CONFIG_GRPC_XDS_SERVER_URL"},
		{"flag of a control plane", []string{"--config-grpc-xds-server-url=http://u:" + secret + "@127.0.0.1"}, xds, "--config-grpc-xds-server-url"},
		{"metadata of an xDS node", nil, append(xds, "CONFIG_GRPC_XDS_NODE_METADATA=token:"+secret), "CONFIG_GRPC_XDS_NODE_METADATA"},
		{"argument of serve", []string{"serve", "--redis-auth=x", secret}, nil, "no arguments"},
		{"argument behind a flag", []string{"--redis-auth=x", secret}, nil, "no arguments"},
		{"attributes", nil, append(traces, "OTEL_RESOURCE_ATTRIBUTES=a=b,"+secret), "OTEL_RESOURCE_ATTRIBUTES"},
		{"value of an attribute", nil, append(traces, "OTEL_RESOURCE_ATTRIBUTES=a=%zz"+secret), "OTEL_RESOURCE_ATTRIBUTES"},
		{"attributes of a URL", nil, append(traces, "OTEL_RESOURCE_ATTRIBUTES="+secret+"%zz"), "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{}, c.args...), local...)
			shown := outputs(t, append(args, "--config="+dir, "--log-level=debug"), append(append(os.Environ(), asProgram+"=1", "DRAIN_TIMEOUT=100ms", "DRAIN_DELAY=0s"), c.env...))
			for place, text := range shown {
				if found := shownSecret.FindString(text); found != "" {
					t.Errorf("%s shows it: %s", place, found)
				}
			}
			if !strings.Contains(shown["log"], c.want) {
				t.Errorf("the log does not name %s: %s", c.want, shown["log"])
			}
		})
	}
}

// checkShown runs the program with a setting, by its flag and by its variable and
// with the log in both formats in turn.
func checkShown(t *testing.T, flag *kong.Flag, value string, n int, dir string) {
	t.Helper()
	format := []string{"text", "json"}[n/2%2]
	args := append(local[:len(local):len(local)], "--config="+dir, "--log-level=debug", "--log-format="+format)
	environment := append(os.Environ(), asProgram+"=1", "REDIS_URL=127.0.0.1:1", "REDIS_PERSECOND=true", "REDIS_PERSECOND_URL=127.0.0.1:1",
		"TRACING_ENABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=10", "DRAIN_TIMEOUT=100ms")
	prefix, kind, url := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(flag.Envs[0], "_FILE"), "URL"), "SENTINEL_AUTH"), "", "weir,127.0.0.1:1"
	switch {
	case strings.HasPrefix(strings.TrimSuffix(flag.Envs[0], "_FILE"), prefix+"SENTINEL_AUTH"), strings.Contains(value, "weir,"):
		kind = "sentinel"
	case strings.HasPrefix(value, "127.0.0.1:1,"):
		kind, url = "cluster", ""
	}
	if kind != "" && strings.HasPrefix(prefix, "REDIS_") {
		environment = append(environment, prefix+"TYPE="+kind, prefix+"URL="+url)
	}
	if strings.Contains(flag.Name, "xds") {
		environment = append(environment, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=127.0.0.1:1", "FORCE_START_WITHOUT_INITIAL_CONFIG=true")
	}
	if prefix, ok := strings.CutSuffix(flag.Envs[0], "URL_FILE"); ok {
		environment = append(environment, prefix+"URL=")
	}
	if n%2 == 0 {
		environment = append(environment, flag.Envs[0]+"="+value)
	} else {
		args = append(args, "--"+flag.Name+"="+value)
	}
	what := fmt.Sprintf("%s in the form %q", flag.Envs[0], value)
	shown := outputs(t, args, environment)
	for place, text := range shown {
		if found := shownSecret.FindString(text); found != "" {
			t.Errorf("%s: %s shows it: %s", what, place, found)
		}
	}
	log := shown["log"]
	if !strings.Contains(log, "listening") && !strings.Contains(log, strings.SplitAfter(flag.Envs[0], "_")[0]) {
		t.Errorf("%s: the program ends without naming the setting: %s", what, log)
	}
}

// outputs runs the program until it listens or ends, and returns what it prints and
// what its pages show.
func outputs(t *testing.T, args, environment []string) map[string]string {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = environment
	log, shown := start(t, command), map[string]string{}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // it may well fail
		close(ended)
	}()
	testenv.Eventually(t, func() error {
		at := addresses(log.read(t))
		select {
		case <-ended:
			return nil
		default:
		}
		if len(at) == 0 {
			return fmt.Errorf("it neither listens nor ends:\n%s", log.read(t))
		}
		for _, address := range at {
			visit(shown, "http://"+address)
		}
		return nil
	})
	_ = command.Process.Signal(syscall.SIGTERM) // unless it has ended
	<-ended
	shown["log"] = log.read(t)
	return shown
}

// visit reads every page there may be at an address.
func visit(shown map[string]string, address string) {
	for _, page := range []string{"/", "/rlconfig", "/stats", "/metrics", "/healthcheck", "/debug/pprof/goroutine?debug=2"} {
		if response, err := http.Get(address + page); err == nil {
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			shown[address+page] = string(text)
		}
	}
	body := `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"alice"}]}]}`
	if response, err := http.Post(address+"/json", "application/json", strings.NewReader(body)); err == nil {
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		shown[address+"/json"] = string(text)
	}
}

// TestHelpShowsNoSecret asks for help while the environment holds secrets.
func TestHelpShowsNoSecret(t *testing.T) {
	for _, flag := range serveFlags() {
		if flag.Target.Type() == reflect.TypeFor[settings.Secret]() {
			t.Setenv(flag.Envs[0], secret)
		}
	}
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"help", "serve"}, {"--port=http"}, {"bench", "--redis-auth=" + secret}, {"--redis-aut=" + secret}, {"--redis-ur=redis://u:" + secret + "@h:1"}} {
		_, out, errs := call(t, args...)
		if text := out + errs; text == "" || strings.Contains(text, secret) {
			t.Errorf("weir %s shows a secret, or nothing: %s", args, text)
		}
	}
}
