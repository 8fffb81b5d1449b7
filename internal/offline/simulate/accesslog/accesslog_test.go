package accesslog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// want is the expected Record of a line.
type want struct {
	at       string
	duration time.Duration
	texts    map[string]string
}

const agent = "curl/8.5.0"

var lines = map[string]struct {
	format Format
	line   string
	want   want
}{
	"envoy": {Envoy, `[2016-04-15T20:17:00.310Z] "POST /api/v1/locations?a=b HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "curl/8.5.0" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"`, want{
		at: "2016-04-15T20:17:00.31Z", duration: 226 * time.Millisecond,
		texts: map[string]string{":method": "POST", ":path": "/api/v1/locations?a=b", ":authority": "locations", "x-forwarded-for": "10.0.35.28", "user-agent": agent, "x-request-id": "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2", RemoteAddress: ""},
	}},
	"envoy without request": {Envoy, `[2016-04-15T20:17:00.310Z] "- - HTTP/1.1" 400 DPE 0 11 0 - "-" "-" "-" "-" "-"`, want{
		at: "2016-04-15T20:17:00.31Z", texts: map[string]string{":method": "", ":path": "", "x-forwarded-for": ""},
	}},
	"envoy with quotes": {Envoy, `[2016-04-15T20:17:00.310Z] "GET /a"b HTTP/1.1" 200 - 0 0 1 0 "10.0.0.1, 10.0.0.2" "a"b"c" "id" "host:80" "-"`, want{
		at: "2016-04-15T20:17:00.31Z", duration: time.Millisecond, texts: map[string]string{":path": `/a"b`, "x-forwarded-for": "10.0.0.1, 10.0.0.2", ":authority": "host:80"},
	}},
	"istio": {Istio, `[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 3 1 "10.1.2.3" "curl/8.5.0" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" inbound|80|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin.foo.svc.cluster.local default`, want{
		at: "2020-11-25T21:26:18.409Z", duration: 3 * time.Millisecond,
		texts: map[string]string{":method": "GET", ":path": "/status/418", ":authority": "httpbin:8000", RemoteAddress: "10.44.1.23:37652", "x-forwarded-for": "10.1.2.3"},
	}},
	"istio with quotes": {Istio, `[2020-11-25T21:26:18.409Z] "GET /a"b HTTP/1.1" 200 - via_upstream - "-" 0 135 3 1 "10.1.2.3" "a" b "c" "i"d" "httpbin:8000" "127.0.0.1:80" inbound|80|| [::1]:41854 [::1]:80 [2001:db8::1]:37652 - default`, want{
		at: "2020-11-25T21:26:18.409Z", duration: 3 * time.Millisecond,
		texts: map[string]string{":path": `/a"b`, "user-agent": `a" b "c`, "x-request-id": `i"d`, RemoteAddress: "[2001:db8::1]:37652", RouteName: "default"},
	}},
	"istio json": {JSON, `{"start_time":"2020-11-25T21:26:18.409Z","method":"GET","path":"/status/418","protocol":"HTTP/1.1","response_code":418,"response_flags":"-","duration":3,"x_forwarded_for":null,"user_agent":"curl/8.5.0","request_id":"84961386","authority":"httpbin:8000","downstream_remote_address":"10.44.1.23:37652","x_user":"ann"}`, want{
		at: "2020-11-25T21:26:18.409Z", duration: 3 * time.Millisecond,
		texts: map[string]string{":method": "GET", ":path": "/status/418", RemoteAddress: "10.44.1.23:37652", "x-forwarded-for": "", "x-user": "ann", "user-agent": agent, "x-none": ""},
	}},
	"envoy gateway": {JSON, `{":authority":"www.example.com","start_time":"2024-02-29T23:59:59Z","method":"GET","x-envoy-origin-path":"/a?b","x-forwarded-for":"1.2.3.4","downstream_remote_address":"[2001:db8::1]:80","x-request-id":"r","duration":"12"}`, want{
		at: "2024-02-29T23:59:59Z", duration: 12 * time.Millisecond,
		texts: map[string]string{":path": "/a?b", ":authority": "www.example.com", "x-forwarded-for": "1.2.3.4", RemoteAddress: "[2001:db8::1]:80", "x-request-id": "r"},
	}},
	"nginx": {Nginx, `203.0.113.9 - ann [10/Oct/2000:13:55:36 -0700] "GET /a\x22b?c HTTP/1.0" 200 2326 "http://example.com/" "Mozilla/4.08 [en] \x22x\x22"`, want{
		at: "2000-10-10T20:55:36Z", duration: -1000,
		texts: map[string]string{RemoteAddress: "203.0.113.9", ":method": "GET", ":path": `/a"b?c`, "user-agent": `Mozilla/4.08 [en] "x"`},
	}},
	"nginx json": {JSON, `{"time_local":"10/Oct/2000:13:55:36 +0200","request":"GET /a b HTTP/1.0","remote_addr":"203.0.113.9","request_time":0.25,"http_user_agent":"x","http_x_user":"ann"}`, want{
		at: "2000-10-10T11:55:35.75Z", duration: 250 * time.Millisecond,
		texts: map[string]string{RemoteAddress: "203.0.113.9", ":method": "GET", ":path": "/a b", "user-agent": "x", "x-user": "ann"},
	}},
	"escapes": {JSON, `{"start_time":1700000000.5,"method":"\u0047ET","path":"/\u001b[31m\"<script>"}`, want{
		at: "2023-11-14T22:13:20.5Z", duration: -1000, texts: map[string]string{":method": "GET", ":path": "/\x1b[31m\"<script>"},
	}},
}

func TestFormats(t *testing.T) {
	for name, test := range lines {
		t.Run(name, func(t *testing.T) {
			for _, format := range []Format{Auto, test.format} {
				check(t, NewParser(format, Mapping{}), test.line, test.want)
			}
			for _, other := range []Format{JSON, Envoy, Istio, Nginx} {
				var r Record
				if err := NewParser(other, Mapping{}).Parse([]byte(test.line), &r); err == nil && other != test.format {
					t.Errorf("it is also taken for %s", other)
				}
			}
		})
	}
}

// The same lines are parsed in the forms in which kubectl, Docker, a container runtime and Emissary write them.
func TestWrappedLines(t *testing.T) {
	inJSON := func(line string) string {
		quoted := testenv.Must(json.Marshal(line + "\n"))(t)
		return `{"log":` + string(quoted) + `,"stream":"stdout","time":"2016-10-05T00:00:30.082640485Z"}`
	}
	for name, test := range lines {
		for _, format := range []Format{Auto, test.format} {
			p := NewParser(format, Mapping{})
			for wrapper, line := range map[string]string{
				"kubectl logs --prefix": "[pod/envoy-default-eg-e41e7b31-7c6d9c5b8f-x2x9k/envoy] " + test.line,
				"Docker's json-file":    inJSON(test.line),
				"CRI":                   "2016-10-06T00:17:09.669794202Z stdout F " + test.line,
				"CRI, stderr":           "2016-10-06T00:17:09.669794202+02:00 stderr F " + test.line,
				"Emissary":              "ACCESS " + test.line,
				"kubectl and Emissary":  "[pod/emissary-ingress-5c9b6c7d4-abcde/ambassador] ACCESS " + test.line,
				"Docker and Emissary":   inJSON("ACCESS " + test.line),
			} {
				t.Run(name+" "+wrapper, func(t *testing.T) { check(t, p, line, test.want) })
			}
		}
	}
}

func check(t *testing.T, p *Parser, line string, w want) {
	t.Helper()
	var r Record
	testenv.OK(t, p.Parse([]byte(line), &r))
	testenv.Equal(t, time.UnixMicro(r.At).UTC().Format(time.RFC3339Nano), w.at, "time")
	if d := time.Duration(r.Duration) * time.Microsecond; d != w.duration && (w.duration >= 0 || r.Duration != -1) {
		t.Errorf("duration %v, want %v", d, w.duration)
	}
	for f, text := range w.texts {
		testenv.Equal(t, r.Get(f), text, "%s", f)
	}
}

// A client must not be able to move fields by quotes in its headers. Envoy's text format does not escape quotes.
func TestForgedFields(t *testing.T) {
	const envoy = `[2016-04-15T20:17:00.310Z] "GET %p HTTP/1.1" 204 - 154 0 226 100 "%x" "%u" "%i" "%a" "10.0.2.1:80"`
	const istio = `[2020-11-25T21:26:18.409Z] "GET %p HTTP/1.1" 418 - via_upstream - "-" 0 135 3 1 "%x" "%u" "%i" "%a" "127.0.0.1:80" inbound|80|| 127.0.0.1:41854 10.44.1.27:80 9.9.9.9:0 %s default`
	for _, values := range []map[string]string{
		{"%x": `6.6.6.1" "x, 8.8.8.8,9.9.9.9`},
		{"%x": `6.6.6.1" x, 8.8.8.8,9.9.9.9`},
		{"%x": `a "6.6.6.1" b`},
		{"%x": `"6.6.6.1`},
		{"%x": `6.6.6.1"`},
		{"%u": `e" "r" "h" "u" c l d 4.4.4.1:1 - x`},
		{"%u": `e" "r" "h" "u`},
		{"%i": `e" "r`},
		{"%a": `e" "r`},
		{"%p": `/a HTTP/1.1" 200 - 0 0 0 0 "1.1.1.1`},
		{"%p": `/a HTTP/1.1" 200 - 0 0 0 0 "1.1.1.1" "x`},
		{"%p": `/a HTTP/1.1" 200 - via - "-" 0 0 0 0 "1.1.1.1`},
		{"%p": `/a HTTP/1.1" 200 - via - "-" 0 0 0 0 "1.1.1.1" "x`},
		{"%p": `/a HTTP/1.1" 200 - 0 0 0 0 "1.1.1.1" "u" "i" "a" "h"`},
		{"%s": `x" c l d 4.4.4.4:1 -`},
		{"%s": `s 1.1.1.1:1`},
		{"%a": `a" "h" c l d 4.4.4.4:1 -`},
	} {
		for _, line := range []string{envoy, istio} {
			for name, value := range map[string]string{"%p": "/", "%x": "9.9.9.9", "%u": "curl", "%i": "id", "%a": "host", "%s": "sni"} {
				if forged := values[name]; forged != "" && strings.Contains(line, name) {
					value = forged
				}
				line = strings.Replace(line, name, value, 1)
			}
			for _, format := range []Format{Auto, Envoy, Istio} {
				var r Record
				if NewParser(format, Mapping{}).Parse([]byte(line), &r) != nil {
					continue
				}
				if xff, address := r.Get("x-forwarded-for"), r.Get(RemoteAddress); xff != "9.9.9.9" || address != "" && address != "9.9.9.9:0" || r.Get(":path") != "/" {
					t.Errorf("as %s, client %q %q asks for %q in\n%s", format, address, xff, r.Get(":path"), line)
				}
			}
		}
	}
}

// A line that only resembles a format is an error.
func TestOtherFormats(t *testing.T) {
	envoy := lines["envoy"].line
	for name, line := range map[string]string{
		"first part of a long line":    `2016-10-06T00:17:09.669794202Z stdout P ` + envoy,
		"Docker's line of an operator": `{"log":"{\"level\":\"info\",\"ts\":\"2026-11-02T09:00:00Z\",\"msg\":\"starting\"}\n","stream":"stderr","time":"2026-11-02T09:00:00.000000001Z"}`,
		"Docker's line of other text":  `{"log":"starting\n","stream":"stderr","time":"2026-11-02T09:00:00.000000001Z"}`,
		"line of an operator":          `{"level":"info","ts":1700000000.5,"logger":"controller","msg":"Reconciler error","namespace":"default","name":"gateway","error":"not found"}`,
		"address after the time":       strings.Replace(envoy, "] ", "] 10.0.0.1 ", 1),
		"more fields than envoy's":     envoy + ` a b c d e f g h i`,
		"one more than envoy's":        envoy + ` "a"`,
		"one less than envoy's":        strings.TrimSuffix(envoy, ` "tcp://10.0.2.1:80"`),
		"more fields than istio's":     lines["istio"].line + ` "a"`,
		"name in place of address":     strings.Replace(lines["nginx"].line, "203.0.113.9", "host.example.com", 1),
		"virtual host before nginx's":  `www.example.com ` + lines["nginx"].line,
		"common, not combined":         `203.0.113.9 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326`,
	} {
		var r Record
		for _, format := range []Format{Auto, Envoy, Istio, Nginx} {
			if NewParser(format, Mapping{}).Parse([]byte(line), &r) == nil {
				t.Errorf("%s is taken for %s", name, format)
			}
		}
	}
	for before, address := range map[string]string{"unix:": "", "-": "", "2001:db8::1": "2001:db8::1"} {
		for _, after := range []string{"", ` "10.0.0.1"`, ` "10.0.0.1" rt=0.1`, ` 463 0.005 [name] [] 10.0.0.2:80`} {
			var r Record
			line := strings.Replace(lines["nginx"].line, "203.0.113.9", before, 1) + after
			if err := NewParser(Auto, Mapping{}).Parse([]byte(line), &r); err != nil {
				t.Errorf("%s: %v", line, err)
			} else if r.Get(RemoteAddress) != address || (r.Get("x-forwarded-for") == "10.0.0.1") != strings.Contains(after, `"`) {
				t.Errorf("%s: client %q, %q", line, r.Get(RemoteAddress), r.Get("x-forwarded-for"))
			}
		}
	}
}

// Some lines are not about a request that Envoy's filters see. A line without a field for the path counts as a request.
func TestNoRequest(t *testing.T) {
	const head, tail = `[2016-04-15T20:17:00.310Z] "`, `" 400 - 0 11 0 - "-" "-" "-" "host" "-"`
	const nginx, after = `203.0.113.9 - - [10/Oct/2000:13:55:36 -0700] "`, `" 400 150 "-" "-"`
	const istio, inbound = `[2020-11-25T21:26:18.409Z] "`, `" 0 - - - "-" 0 135 3 - "-" "-" "-" "-" "127.0.0.1:80" inbound|80|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 - -`
	for line, want := range map[string]string{ // method and path, or "none" if the line is not about a request
		head + "- - HTTP/1.1" + tail:                                  "none",
		head + "OPTIONS * HTTP/1.1" + tail:                            "none",
		head + "CONNECT - HTTP/1.1" + tail:                            "CONNECT ", // a route may match it
		head + "GET / HTTP/1.1" + tail:                                "GET /",
		head + "OPTIONS /a HTTP/1.1" + tail:                           "OPTIONS /a",
		istio + "- - -" + inbound:                                     "none",
		nginx + `\x16\x03\x01` + after:                                "none",
		nginx + `\x16\x03\x01 \x01/ \x02` + after:                     "none",
		nginx + after:                                                 "none",
		nginx + "-" + after:                                           "none",
		nginx + "t3 12.1.2" + after:                                   "none",
		nginx + "MGLNDD_192.0.2.1" + after:                            "none",
		nginx + "CONNECT example.com:443 HTTP/1.1" + after:            "CONNECT ",
		nginx + "GET /" + after:                                       "GET /",
		nginx + "GET http://example.com/a?b HTTP/1.1" + after:         "GET /a?b",
		nginx + "GET http://example.com HTTP/1.1" + after:             "GET /",
		nginx + "GET /a://b c HTTP/1.1" + after:                       "GET /a://b c",
		`{"start_time":1,"method":null,"path":null}`:                  "none",
		`{"start_time":1,"method":"-","path":"-"}`:                    "none",
		`{"start_time":1,"method":"OPTIONS","path":"*"}`:              "none",
		`{"start_time":1,"method":"GET","path":"/","authority":null}`: "none",
		`{"start_time":1,"method":"CONNECT","path":null}`:             "CONNECT ",
		`{"start_time":1,"request":""}`:                               "none",
		`{"start_time":1,"request":"\u0016\u0003"}`:                   "none",
		`{"start_time":1,"request":"GET / HTTP/1.1"}`:                 "GET /",
		`{"start_time":1,"method":"GET","path":"/"}`:                  "GET /",
		`{"start_time":1,"user":"ann","response_code":200}`:           " ",
	} {
		var r Record
		err := NewParser(Auto, Mapping{}).Parse([]byte(line), &r)
		got := r.Method + " " + r.Path
		if r.NoRequest {
			got = "none"
		}
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", line, got, err, want)
		}
	}
}

// If a line has several fields for a property, their order decides which one is used, whatever earlier lines had.
// A null or a dash does not count as a value.
func TestOrderOfNames(t *testing.T) {
	both := `{"start_time":1700000000,"time":1800000000,"path":"/a","url":"/b","duration":1,"request_time":2,"method":"GET","downstream_remote_address":"10.0.0.1","remote_addr":"10.0.0.2","x-user":"ann","x_user":"bob"}`
	wanted := want{
		at: "2023-11-14T22:13:20Z", duration: time.Millisecond,
		texts: map[string]string{":path": "/a", RemoteAddress: "10.0.0.1", "x-user": "ann"},
	}
	p := NewParser(Auto, Mapping{})
	check(t, p, both, wanted)
	check(t, p, `{"start_time":"-","time":1700000000.5,"path":null,"url":"/b","duration":"-","request_time":2,"downstream_remote_address":null,"remote_addr":"10.0.0.2","x-user":"-","x_user":"bob"}`, want{
		at: "2023-11-14T22:13:18.5Z", duration: 2 * time.Second,
		texts: map[string]string{":path": "/b", RemoteAddress: "10.0.0.2", "x-user": "bob"},
	})
	check(t, p, both, wanted)
}

// With a mapping, JSON lines may have any field names.
func TestMapping(t *testing.T) {
	m := testenv.Must(ParseMapping([]string{"time=@t", "method=http.verb", "path=http.url", "remote_address=ip", "header:X-User=claims.sub"}))(t)
	check(t, NewParser(Auto, m), `{"@t":1700000000123,"http":{"verb":"GET","url":"/a"},"ip":"10.0.0.1","claims":{"sub":"ann"}}`, want{
		at: "2023-11-14T22:13:20.123Z", duration: -1000,
		texts: map[string]string{":method": "GET", ":path": "/a", RemoteAddress: "10.0.0.1", "x-user": "ann"},
	})
	// A mapping can name the unit of durations, and say whether the time is the beginning or the end.
	ended := testenv.Must(ParseMapping([]string{"end_time=ts", "duration_seconds=rt", "method=m"}))(t)
	check(t, NewParser(Auto, ended), `{"ts":1700000000.5,"rt":"0.250","m":"GET"}`, want{at: "2023-11-14T22:13:20.25Z", duration: 250 * time.Millisecond})
	began := testenv.Must(ParseMapping([]string{"time=ts", "duration_seconds=rt"}))(t)
	check(t, NewParser(Auto, began), `{"ts":1.7e9,"rt":2,"status":200}`, want{at: "2023-11-14T22:13:20Z", duration: 2 * time.Second})
	check(t, NewParser(Auto, began), `{"ts":1700000000,"rt":"-","user_agent":null}`, want{at: "2023-11-14T22:13:20Z", duration: -1000})
	for _, pairs := range [][]string{{"time=a", "path=x", "time=b"}, {"time=a", "end_time=a"}, {"duration=a", "duration_seconds=b"}, {"header:x-user=a", "header:X-User=b"}} {
		last := pairs[len(pairs)-1]
		_, err := ParseMapping(pairs)
		testenv.Equal(t, fmt.Sprint(err), fmt.Sprintf("%q repeats what %q says", last, pairs[0]), "%q", pairs)
	}
	for pair, message := range map[string]string{
		"time":       `"time" is not NAME=FIELD, such as time=ts`,
		"=x":         `"=x" is not NAME=FIELD, such as time=ts`,
		"metod=verb": `unknown name "metod" in "metod=verb", did you mean "method"?; use one of time, end_time, duration, duration_seconds, method, path, authority, remote_address, forwarded_for, user_agent, request_id, scheme, route_name, direct_remote_address, request, status, or header:NAME`,
	} {
		_, err := ParseMapping([]string{pair})
		testenv.Equal(t, fmt.Sprint(err), message, "%s", pair)
	}
}

// A text that is not a line is the start_time of a JSON line. The time in nginx's lines is the end of a request.
func TestTimes(t *testing.T) {
	for line, at := range map[string]string{
		`{"time_iso8601":"2026-11-23T03:20:05+00:00","request_time":"1.250"}`:           "2026-11-23T03:20:03.75Z",
		`{"time":"2026-11-23T03:20:05Z","request_time":1}`:                              "2026-11-23T03:20:04Z",
		`{"msec":1700000000.5,"duration":500}`:                                          "2023-11-14T22:13:20Z",
		`{"time_local":"23/Nov/2026:03:20:05 +0000"}`:                                   "2026-11-23T03:20:05Z",
		`{"start_time":"2026-11-23T03:20:05Z","request_time":1}`:                        "2026-11-23T03:20:05Z",
		`{"time":"2026-11-23T03:20:05Z","duration":1000}`:                               "2026-11-23T03:20:05Z",
		`[2026-11-23T03:20:05Z] "GET / HTTP/2" 204 - 154 0 226 100 "-" "-" "-" "a" "-"`: "2026-11-23T03:20:05Z",
		"2026-11-23T03:20:05.123456Z":                                                   "2026-11-23T03:20:05.123456Z",
		"2026-11-23T03:20:05.123456789Z":                                                "2026-11-23T03:20:05.123456Z",
		"2026-11-23T03:20:05.5+05:30":                                                   "2026-11-22T21:50:05.5Z",
		"2026-11-23T03:20:05-0800":                                                      "2026-11-23T11:20:05Z",
		"2026-11-23 03:20:05":                                                           "2026-11-23T03:20:05Z",
		"2026-11-23 03:20:05.25 +0100":                                                  "2026-11-23T02:20:05.25Z",
		"23/Nov/2026:03:20:05.250 +0000":                                                "2026-11-23T03:20:05.25Z",
		"Mon, 23 Nov 2026 03:20:05 GMT":                                                 "2026-11-23T03:20:05Z",
		"1.7e9":                                                                         "2023-11-14T22:13:20Z",
		"1.7E+9":                                                                        "2023-11-14T22:13:20Z",
		"1e999":                                                                         "",
		"1e":                                                                            "",
		"1700000000":                                                                    "2023-11-14T22:13:20Z",
		"1700000000000":                                                                 "2023-11-14T22:13:20Z",
		"1700000000000000":                                                              "2023-11-14T22:13:20Z",
		"1700000000000000000":                                                           "2023-11-14T22:13:20Z",
		"0":                                                                             "1970-01-01T00:00:00Z",
		"":                                                                              "",
		"yesterday":                                                                     "",
		"2026-13-01T00:00:00Z":                                                          "",
		"2026-11-23T03:20:05.Z":                                                         "",
		"2026-11-23T03:20:05.12x4Z":                                                     "",
		"9999999999999999999999999":                                                     "",
		"1960-01-01T00:00:00Z":                                                          "",
		"2026-11-23T03:20:60Z":                                                          "",
		"2026-11-23T03:20:5xZ":                                                          "",
		"....":                                                                          "",
		strings.Repeat("1", 70):                                                         "",
		"\x1b]0;2026-11-23T03:20:05Z\x07Z":                                              "",
	} {
		if !strings.ContainsAny(line[:min(len(line), 1)], "[{") {
			line = fmt.Sprintf(`{"start_time":%s}`, testenv.Must(json.Marshal(line))(t))
		}
		var r Record
		err := NewParser(Auto, Mapping{}).Parse([]byte(strings.Replace(line, "}", `,"status":200}`, 1)), &r)
		if got := time.UnixMicro(r.At).UTC().Format(time.RFC3339Nano); (err == nil) != (at != "") || err == nil && got != at {
			t.Errorf("%s is at %s, %v, want %q", line, got, err, at)
		}
	}
}

// FuzzParse parses any bytes as a line.
func FuzzParse(f *testing.F) {
	for _, test := range lines {
		f.Add([]byte(test.line))
	}
	f.Add([]byte(`{"start_time":{},"method":[[[[`))
	f.Add([]byte("[\" [ \" \""))
	p := NewParser(Auto, Mapping{})
	f.Fuzz(func(t *testing.T, line []byte) {
		var r Record
		if p.Parse(line, &r) != nil {
			return
		}
		if r.At < 0 || r.Duration < -1 {
			t.Errorf("%q: at %d for %d", line, r.At, r.Duration)
		}
		for _, name := range []string{":path", RemoteAddress, "x-user"} {
			_ = strings.Clone(r.Get(name))
		}
	})
}
