package server

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"weir/internal/settings/follow"
	"weir/internal/testenv"
	"weir/internal/xds"
)

// fromControlPlane returns the flags of a server with rules from a control plane and short waits.
func fromControlPlane(plane *testenv.ControlPlane, more ...string) []string {
	return append([]string{
		"--config-type=GRPC_XDS_SOTW", "--config-grpc-xds-server-url=" + plane.Addr, "--config-grpc-xds-server-connect-retry-interval=20ms",
		"--xds-client-backoff-initial-interval=20ms", "--xds-client-backoff-max-interval=100ms",
	}, more...)
}

// sent returns a resource with a limit of n requests a year for each user.
func sent(name string, n int) string {
	return fmt.Sprintf(`{"name": %q, "domain": "api", "descriptors": [{"key": "user", "rate_limit": {"unit": "YEAR", "requests_per_unit": %d}}]}`, name, n)
}

func refusals(r *discovery.DiscoveryRequest) bool { return r.GetErrorDetail() != nil }

func TestRulesOfControlPlane(t *testing.T) {
	plane := testenv.StartControlPlane(t)
	f := start(t, fromControlPlane(plane, "--config=elsewhere")...)
	f.wantLog(`msg="rules come from the control plane; --config (CONFIG_PATH) is ignored" path=elsewhere`)
	f.wantLog("waiting for rules from the control plane")
	f.wantHealth(false, "no rules are loaded yet")
	f.wantUnavailable()
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "rules       none loaded from the control plane at "+plane.Addr+" (node default) yet\n")

	plane.Set("v1", sent("x", 3))
	f.wantLimit(3)
	f.wantHealth(true, "OK")
	loaded := fmt.Sprintf("1 rule in 1 domain from the control plane at %s (node default)\n", plane.Addr)
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "rules       "+loaded, ` ago), version "v1", resources: 1`+"\n            connected since ")
	f.wantAnswer("GET", f.debug.addr(), "/rlconfig", 200, "# "+loaded, "\napi.user: unit=YEAR requests_per_unit=3, shadow_mode: false")
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "ratelimit_service_config_load_success 1\n", "ratelimit_service_config_load_error 0\n", "weir_xds_connected 1\n")

	plane.Set("v2", sent("x", 7))
	f.wantLimit(7)

	bad := strings.ReplaceAll(sent("x", 9), "YEAR", "UNKNOWN")
	problem := `resource "x": descriptors[0].rate_limit.unit: a unit is required`
	plane.Set("v3", bad)
	refusal := plane.WaitFor("that refuses", refusals)
	if refusal.GetVersionInfo() != "v2" || !strings.Contains(refusal.GetErrorDetail().GetMessage(), problem) {
		t.Errorf("the refusal is %v", refusal)
	}
	f.wantLimit(7)
	f.wantHealth(true, "OK")
	failed := []string{`version "v2"`, `The last load, version "v3", failed at `, "and changed nothing", problem}
	f.wantAnswer("GET", f.debug.addr(), "/", 200, failed...)
	f.wantAnswer("GET", f.debug.addr(), "/rlconfig", 200, append(failed, "\n#   "+problem, "\napi.user: unit=YEAR requests_per_unit=7, shadow_mode: false")...)
	// Repeated refusals of a response are counted and logged once.
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "ratelimit_service_config_load_error 1\n")
	testenv.Equal(t, strings.Count(f.log.String(), "new rules rejected"), 1, "logs of the refusal")

	plane.Set("v4", sent("x", 2))
	f.wantLimit(2)
	if code, page, err := f.request("GET", f.debug.addr(), "/", ""); err != nil || code != 200 || strings.Contains(page, "failed") {
		t.Errorf("status after good rules: %d %s (error: %v)", code, page, err)
	}
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 500, "the control plane sends rules when they change")
	f.reload <- syscall.SIGHUP
	f.wantLog(`msg="rules not loaded" err="the control plane sends rules when they change`)

	plane.Set("v5")
	f.wantLog("the control plane sent no rules; every request is allowed")
	testenv.Becomes(t, "the limit", "0 never denied", func() string { return fmt.Sprint(f.limit()) })
	f.wantHealth(true, "OK")
}

// TestLongTextsOfControlPlane sends a version and a name of megabytes. Only the answers to the
// control plane contain them in full.
func TestLongTextsOfControlPlane(t *testing.T) {
	plane := testenv.StartControlPlane(t)
	f := start(t, fromControlPlane(plane)...)
	version := strings.Repeat("v", 1_600_000)
	plane.Set(version, sent("x", 3))
	f.wantLimit(3)
	plane.WaitFor("that accepts", func(r *discovery.DiscoveryRequest) bool { return r.GetVersionInfo() == version })
	plane.Set(version+"2", strings.ReplaceAll(sent(version, 9), "YEAR", "UNKNOWN"))
	plane.WaitFor("that refuses", refusals)
	for _, path := range []string{"/", "/status"} {
		f.wantAnswer("GET", f.debug.addr(), path, 200, "vvv... (1600000 bytes)", "vvv... (1600001 bytes)")
		if _, page, err := f.request("GET", f.debug.addr(), path, ""); err != nil || len(page) > 10<<10 {
			t.Errorf("%s has %d bytes (error: %v)", path, len(page), err)
		}
	}
	if n := len(f.log.String()); n > 10<<10 {
		t.Errorf("the log has %d bytes", n)
	}
}

// TestControlPlaneThatIsAway starts without a control plane, and loses it later.
func TestControlPlaneThatIsAway(t *testing.T) {
	plane := testenv.StartControlPlane(t)
	plane.Stop()
	f := start(t, fromControlPlane(plane)...)
	f.wantLog("the control plane is not connected; there are no rules yet")
	f.wantHealth(false, "no rules are loaded yet")
	plane.Start()
	plane.Set("1", sent("x", 3))
	f.wantLimit(3)
	plane.Stop()
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "weir_xds_connected 0\n")
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "NOT connected since ", "the last stream ended: ")
	f.wantLog("the control plane is not connected; its last rules stay in use")
	f.wantLimit(3)
	f.wantHealth(true, "OK")
	plane.Start()
	plane.Set("1", sent("x", 5)) // a new control plane with the same version
	f.wantLimit(5)
}

func TestOneDomainInTwoResources(t *testing.T) {
	plane := testenv.StartControlPlane(t)
	plane.Set("1", sent("x", 3), `{"name": "y", "domain": "api", "descriptors": [{"key": "path"}]}`)
	start(t, fromControlPlane(plane, "--merge-domain-config")...).wantLimit(3)
	alone := start(t, fromControlPlane(plane)...)
	plane.WaitFor("that refuses", refusals)
	alone.wantAnswer("GET", alone.debug.addr(), "/", 200, `resource "y": domain: "api" is already the domain of resource "x"; use another, or set MERGE_DOMAIN_CONFIG=true`)
	alone.wantHealth(false, "no rules are loaded yet")
	plane.Stop()
	alone.wantLog("the control plane is not connected; there are no rules yet")
	if strings.Contains(alone.log.String(), "its last rules stay in use") {
		t.Error("the control plane sent nothing good, and that is said to stay")
	}
}

// TestSilence has a control plane that sends nothing, like Envoy Gateway without rate limits, which
// sets FORCE_START_WITHOUT_INITIAL_CONFIG and kills unhealthy servers.
func TestSilence(t *testing.T) {
	plane := testenv.StartControlPlane(t)
	f := start(t, fromControlPlane(plane, "--force-start-without-initial-config")...)
	f.wantHealth(false, "no rules are loaded yet")
	f.source.(*controlPlane).silent() // package xds tests when it is called
	f.wantHealth(true, "OK")
	f.wantUnavailable()
	plane.Set("1", sent("x", 3))
	f.wantLimit(3)
}

// TestTLSToControlPlane replaces an authority while the server runs.
func TestTLSToControlPlane(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), testenv.NewAuthority(t)
	ca, trusted := dir+"/ca.crt", dir+"/other.crt"
	write(t, ca, string(authority.PEM()))
	write(t, trusted, string(testenv.NewAuthority(t).PEM()))
	cert, key := issue(t, authority, "plane.example")
	server := testenv.Must(follow.OpenTLS(follow.TLSOptions{Server: true, CertFile: cert, KeyFile: key, CAFile: ca, Logger: slog.New(slog.DiscardHandler)}))(t)
	plane := testenv.StartControlPlane(t, grpc.Creds(server.Credentials()))
	plane.Set("1", sent("x", 3))

	cert, key = issue(t, authority, "weir")
	flags := fromControlPlane(plane, "--config-grpc-xds-server-use-tls", "--config-grpc-xds-server-tls-san=plane.example",
		"--config-grpc-xds-client-tls-cert="+cert, "--config-grpc-xds-client-tls-key="+key)
	start(t, append(flags, "--config-grpc-xds-server-tls-cacert="+ca)...).wantLimit(3)

	other := start(t, append(flags, "--config-grpc-xds-server-tls-cacert="+trusted)...)
	other.wantLog("certificate signed by unknown authority")
	other.wantHealth(false, "no rules are loaded yet")
	replace(t, trusted, string(authority.PEM()))
	other.wantLimit(3)

	_, err := New(options(t, new(testenv.Log), append(flags, "--config-grpc-xds-client-tls-key=missing.key")...))
	testenv.Contains(t, fmt.Sprint(err), "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "missing.key")
}

// TestControlPlaneOptions checks the effect of every variable on the options of the client.
func TestControlPlaneOptions(t *testing.T) {
	for variable, value := range map[string]string{
		"CONFIG_GRPC_XDS_SERVER_URL": "cp:18001", "CONFIG_GRPC_XDS_NODE_ID": "one", "CONFIG_GRPC_XDS_NODE_METADATA": "zone=a",
		"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL": "1s", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "5",
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": "2s", "XDS_CLIENT_BACKOFF_MAX_INTERVAL": "3s", "XDS_CLIENT_BACKOFF_RANDOM_FACTOR": "0.25",
	} {
		t.Setenv(variable, value)
	}
	want := xds.Options{
		Server: "cp:18001", NodeID: "one", NodeMetadata: map[string]string{"zone": "a"},
		Retry: time.Second, MaxMessageSize: 5,
		BackoffInitial: 2 * time.Second, BackoffMax: 3 * time.Second, BackoffSpread: 0.25,
	}
	if got := xdsOptions(fromEnvironment(t).XDS); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	t.Setenv("XDS_CLIENT_BACKOFF_JITTER", "false")
	t.Setenv("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "") // 10 s by default
	want.BackoffInitial, want.BackoffSpread = 3*time.Second, 0
	if got := xdsOptions(fromEnvironment(t).XDS); !reflect.DeepEqual(got, want) {
		t.Errorf("without jitter: got %+v, want %+v", got, want)
	}
}
