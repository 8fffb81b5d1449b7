package main

import (
	"fmt"
	"io"
	"net/http"
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

// secretForms are valid and mistyped ways to write a secret into settings of each kind. The test
// starts the program once for each. The package settings checks the errors of many more.
var secretForms = map[string][]string{
	"url":     {"redis://u:%s@127.0.0.1:1", "redis://127.0.0.1:1/%s", "redis://u:%s/x@127.0.0.1:1", "u:%s@127.0.0.1:1", "unix://u:%s@/nowhere.sock", "127.0.0.1:1,redis://u:%s@127.0.0.1:1"},
	"headers": {"authorization:Bearer %s", "Bearer %s", "x=%s%%zz", "x:%s\x01", "%s x:y"},
	"key":     {"-----BEGIN PRIVATE KEY-----\nMIIE%s\n-----END PRIVATE KEY-----\n"}, // the key's text instead of its path
	"":        {"%s", "u:%s", " %s"},
}

// TestNoSecretIsShown writes a secret into each setting whose type or name shows that it may
// contain one, and searches for the secret in the program's output and pages.
func TestNoSecretIsShown(t *testing.T) {
	file := filepath.Join(rules(t, "secret", secret), "secret")
	flags, found := serveFlags(), 0
	for _, flag := range flags {
		isKey := strings.HasSuffix(flag.Name, "-key")
		if flag.Target.Type() != reflect.TypeFor[settings.Secret]() && !isKey {
			continue
		}
		found++
		kind := flag.Name[strings.LastIndex(flag.Name, "-")+1:]
		if secretForms[kind] == nil {
			kind = ""
		}
		t.Run(flag.Envs[0], func(t *testing.T) {
			t.Parallel()
			for n, form := range secretForms[kind] {
				value := fmt.Sprintf(form, secret)
				if n%2 == 0 {
					checkShown(t, flag, nil, flag.Envs[0]+"="+value, "LOG_FORMAT=json")
				} else {
					checkShown(t, flag, []string{"--" + flag.Name + "=" + value})
				}
			}
			other := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == flag.Name+"-file" })
			if other >= 0 {
				checkShown(t, flag, nil, flag.Envs[0]+"=", flags[other].Envs[0]+"="+file)
			} else if !isKey && !strings.HasSuffix(flag.Name, "-command") {
				t.Errorf("there is no --%s-file", flag.Name)
			}
		})
	}
	if found < 12 {
		t.Errorf("only %d settings hold secrets", found)
	}
}

// checkShown fails if the program shows the secret in args or environment, or exits without
// naming the setting of flag.
func checkShown(t *testing.T, flag *kong.Flag, args []string, environment ...string) {
	t.Helper()
	before := []string{
		"REDIS_URL=127.0.0.1:1", "REDIS_PERSECOND=true", "REDIS_PERSECOND_URL=127.0.0.1:1",
		"TRACING_ENABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=10", "EVENTS_URL=http://127.0.0.1:1",
	}
	if prefix, _, ok := strings.Cut(flag.Envs[0], "SENTINEL_"); ok {
		before = append(before, prefix+"TYPE=sentinel", prefix+"URL=weir,127.0.0.1:1")
	}
	if strings.Contains(flag.Name, "xds") {
		before = append(before, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=127.0.0.1:1", "FORCE_START_WITHOUT_INITIAL_CONFIG=true")
	}
	log := noSecretIn(t, args, append(before, environment...))
	if !strings.Contains(log, "listening") && !strings.Contains(log, strings.SplitAfter(flag.Envs[0], "_")[0]) {
		t.Errorf("%v %v: the program ends without naming the setting: %s", args, environment, log)
	}
}

// TestNoSecretIsShownElsewhere writes a secret into settings that should not contain one.
func TestNoSecretIsShownElsewhere(t *testing.T) {
	xds, traces := []string{"CONFIG_TYPE=GRPC_XDS_SOTW", "FORCE_START_WITHOUT_INITIAL_CONFIG=true"}, []string{"TRACING_ENABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}
	for _, c := range []struct {
		args, env []string
		names     string // setting that the log must name
	}{
		{nil, append(xds, "CONFIG_GRPC_XDS_SERVER_URL=http://u:"+secret+"@127.0.0.1"), "CONFIG_GRPC_XDS_SERVER_URL"},
		{nil, append(xds, "CONFIG_GRPC_XDS_SERVER_URL="+secret+"@127.0.0.1:1"), "CONFIG_GRPC_XDS_SERVER_URL"},
		{nil, append(xds, "CONFIG_GRPC_XDS_SERVER_URL=dns:///u:"+secret+"@127.0.0.1:1"), "CONFIG_GRPC_XDS_SERVER_URL"},
		{nil, append(xds, "CONFIG_GRPC_XDS_NODE_METADATA=token:"+secret), "CONFIG_GRPC_XDS_NODE_METADATA"},
		{nil, append(traces, "OTEL_RESOURCE_ATTRIBUTES=a=b,"+secret), "OTEL_RESOURCE_ATTRIBUTES"},
		{nil, append(traces, "OTEL_RESOURCE_ATTRIBUTES=a=%zz"+secret), "OTEL_RESOURCE_ATTRIBUTES"},
		{[]string{"serve", "--redis-auth=x", secret}, nil, "no arguments"},
		{[]string{"--redis-auth=x", secret}, nil, "no arguments"},
	} {
		testenv.Contains(t, noSecretIn(t, c.args, c.env), c.names)
	}
}

// noSecretIn runs the program until it listens or exits, searches for the secret in its log
// and pages, and returns the log.
func noSecretIn(t *testing.T, args, environment []string) string {
	t.Helper()
	command := inProcess(slices.Concat(args, local, []string{"--config=" + rules(t, "a.yaml", good), "--log-level=debug"})...)
	command.Env = append(append(command.Env, "DRAIN_TIMEOUT=100ms"), environment...)
	log, ended := start(t, command), make(chan struct{})
	go func() {
		_ = command.Wait() // it fails for most settings
		close(ended)
	}()
	shown := map[string]string{}
	testenv.Eventually(t, func() error {
		at := addresses(log)
		select {
		case <-ended:
			return nil
		default:
		}
		if len(at) == 0 {
			return fmt.Errorf("it neither listens nor ends:\n%s", log)
		}
		for _, address := range at {
			for _, page := range []string{"/", "/rlconfig", "/stats", "/metrics", "/healthcheck", "/debug/pprof/goroutine?debug=2"} {
				if response, err := http.Get("http://" + address + page); err == nil {
					text, _ := io.ReadAll(response.Body)
					response.Body.Close()
					shown[page] += string(text)
				}
			}
		}
		return nil
	})
	_ = command.Process.Signal(syscall.SIGTERM) // fails if the process has exited
	<-ended
	shown["log"] = log.String()
	for source, text := range shown {
		testenv.Equal(t, regexp.MustCompile("(?i).*"+secret+".*").FindString(text), "", "%v %v: %s shows it", args, environment, source)
	}
	return shown["log"]
}

// TestHelpShowsNoSecret prints help while the environment contains secrets.
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
