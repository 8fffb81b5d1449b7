package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"weir/internal/testenv"
)

// askFor sends n requests with an entry whose value may contain any bytes.
func askFor(t *testing.T, w *weir, n int, key, value string) {
	t.Helper()
	conn := connection(t, w.grpc)
	stand := strings.Repeat("z", len(value)) // Marshal accepts valid UTF-8 only
	message := testenv.Must(proto.Marshal(request(descriptor(key, stand))))(t)
	raw := new(emptypb.Empty) // is sent as its unknown fields, which are arbitrary bytes
	raw.ProtoReflect().SetUnknown([]byte(strings.Replace(string(message), stand, value, 1)))
	for range n {
		testenv.OK(t, conn.Invoke(t.Context(), service.RateLimitService_ShouldRateLimit_FullMethodName, raw, new(emptypb.Empty)))
	}
}

const consoleRules = `domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: tenant
    value: acme
    rate_limit:
      - {unit: minute, requests_per_unit: 1000}
      - {unit: day, requests_per_unit: 50000, name: daily}
    descriptors:
      - key: path
        value: /export/*
        rate_limit: {unit: hour, requests_per_unit: 10}
  - key: trial
    rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}
`

// startConsole starts a server under traffic. run runs a test in a tab of its own on the console.
func startConsole(browser context.Context, t *testing.T, rules string) (w *weir, run func(name string, test func(p *tab))) {
	t.Helper()
	w = startWeir(t, rules, onRedis(testenv.RedisServer(t))...)
	askFor(t, w, 23, "user", "mallory")
	askFor(t, w, 4, "user", "bob")
	askFor(t, w, 40, "tenant", "acme")
	askFor(t, w, 8, "trial", "bob")
	return w, func(name string, test func(p *tab)) {
		t.Run(name, func(t *testing.T) { test(newTab(browser, t, w.debug)) })
	}
}

// TestConsole opens the console of a server under traffic in a browser.
func TestConsole(t *testing.T) {
	t.Parallel()
	browser, rules := testenv.Browser(t), writeRules(t, consoleRules)
	w, run := startConsole(browser, t, rules)
	run("now", func(p *tab) { showsNow(p, w, rules) })
	run("servers", func(p *tab) {
		p.open("/console/servers")
		p.wants("panel-servers", "1 server on this Redis", "(this one)", "healthy")
	})
	run("rules", func(p *tab) { showsRules(p, w) })
	run("budgets", showsBudgets)
	run("search", looksUp)
	run("exception by keyboard", func(p *tab) { letsPass(p, w) })
	t.Run("without scripts", func(t *testing.T) { worksWithoutScripts(t, w) })
}

// TestConsoleLooks is the part of TestConsole that needs no certain counts.
func TestConsoleLooks(t *testing.T) {
	t.Parallel()
	browser := testenv.Browser(t)
	w, run := startConsole(browser, t, writeRules(t, consoleRules))
	t.Run("pictures", func(t *testing.T) { takePictures(browser, t) })
	run("typed text stays", func(p *tab) { keepsText(p, w) })
	run("hostile values", func(p *tab) { showsAsText(p, w) })
	run("widths and colours", fits)
	t.Run("signing in", func(t *testing.T) { signsIn(browser, t) })
}

// showsNow checks that the first page shows the abusive user and the rule, updates its panels
// by itself, and shows a failed load of rules.
func showsNow(p *tab, w *weir, rules string) {
	p.open("/") // leads browsers to the console
	p.wants("panel-keys", "user=mallory", "20", "3 per day", "rules.yaml:3:5", "user=bob", "1")
	p.wants("panel-last", "user=mallory", "rules.yaml:3:5")
	p.wants("panel-store", "works", "in Redis at", "Breaker", "closed")
	p.wants("panel-server", "healthy", "4 rules in 1 domain")
	p.wants("panel-loads", "loaded", "4 rules in use.")
	p.wants("panel-exceptions", "There are no exceptions.")

	// From here on the panels change by themselves.
	askFor(p.t, w, 5, "user", "mallory")
	p.wants("panel-keys", "25")
	replaceRules(p.t, rules, consoleRules+"  - key: broken\n    rate_limit: []\n")
	p.wants("panel-loads", "failed", "rules.yaml:17:17", "the list is empty", "The previous rules stay in use.")
	replaceRules(p.t, rules, consoleRules)
	askFor(p.t, w, 10, "tenant", "acme")
	p.wants("panel-store", " a second", "ms on average")
	testenv.Until(p.t, "the curve has points", func() bool {
		return p.get(`document.querySelector(".line-decided")?.getAttribute("points").trim().split(" ").length > 1`) == "true"
	})
	p.wants("panel-rates", "Decisions", "Denials", "15 min ago")
	p.do(chromedp.Click(chromedp.CSS("#minutes summary")))
	p.wants("panel-rates", "Minute until")
}

// showsRules checks that the page of rules shows rates during traffic, and filters rules.
func showsRules(p *tab, w *weir) {
	p.open("/console/rules")
	p.wants("panel-rules", "4 rules.", "api", "tenant=acme", "50000 per day daily", "path=/export/*", "rules.yaml:11:9")
	askFor(p.t, w, 50, "user", "mallory") // after the page has read the counts once
	p.wants("panel-rules", "/s asked", "/s over")
	p.do(chromedp.SendKeys(chromedp.ID("filter"), "EXPORT"+kb.Enter))
	p.wants("panel-rules", "1 of 4 rules.", "path=/export/*")
	p.lacks("#panel-rules", "user")
}

// showsBudgets checks that the page of budgets shows what is used, and leads to a descriptor.
func showsBudgets(p *tab) {
	p.open("/console/budgets")
	p.wants("panel-budgets", "user=mallory", "100 %", "of 3", "used up", "00:00 UTC", "3 per day", "as 1 server counted them")
	p.lacks("#panel-budgets", "1000 per minute")
	if p.get(`(m => m.optimum < m.low && m.value > m.high)(document.querySelector("#panel-budgets meter"))`) != "true" {
		p.t.Error("the bar of a budget that is used up is not red")
	}
	testenv.Equal(p.t, p.get(`document.querySelector(".day polyline").getAttribute("points")`), "460.0,0.0 480.0,0.0 ", "points of the line")
	p.do(chromedp.Click(chromedp.CSS(`#panel-budgets a[href*="mallory"]`)))
	p.wants("panel-descriptor", "user=mallory", "3 of 3")
}

// looksUp searches descriptors from several pages, and checks the page of a descriptor.
func looksUp(p *tab) {
	for _, from := range []string{"", "rules", "exceptions", "descriptor"} {
		p.open("/console/" + from)
		p.do(chromedp.SendKeys(chromedp.ID("search-descriptor"), "user=mallory"+kb.Enter))
		p.wants("panel-descriptor", "Denials of the last hour", " denied, the last at ", "Counted on 1 server.", "Used\n3 of 3", "One more\nin ", "Full again\nin ")
	}
	testenv.Equal(p.t, p.get(`document.getElementById("search-domain").tagName + " " + [...document.querySelectorAll("#recent option")].map(o => o.label + " " + o.value).sort()`), "SELECT api trial=bob,api user=bob,api user=mallory", "what the search completes")
	// A bar for each minute with denials, and a table of the same numbers.
	bars := p.get(`[...document.querySelectorAll(".bars title")].map(t => t.textContent)`)
	p.do(chromedp.Click(chromedp.CSS(".denials summary")))
	rows := p.get(`[...document.querySelectorAll(".denials tbody tr")].map(r => r.cells[0].innerText + ": " + r.cells[1].innerText + " denied")`)
	if bars != rows || !regexp.MustCompile(`^\d\d:\d\d: \d+ denied`).MatchString(bars) {
		p.t.Errorf("the bars show %q, the table %q", bars, rows)
	}
	if axis := p.get(`document.querySelector(".denials .x").textContent`); !regexp.MustCompile(`^(\d\d:\d\d){3} UTC$`).MatchString(axis) {
		p.t.Errorf("the bars have the axis %q", axis)
	}
	p.open("/console/descriptor?domain=api&descriptor=trial%3Dbob")
	p.wants("panel-descriptor", "shadow_mode", "7 would be denied, the last at")
	p.lacks("#panel-descriptor", "7 denied")
	p.open("/console/descriptor?domain=api&descriptor=usr%3Dalice")
	p.wants("panel-descriptor", "No rule applies.", "below the domain nothing matches usr=alice (did you mean user=alice?)", "Its limits denied nothing in the last hour on 1 server.")
}

// letsPass adds an exception for a key with the keyboard alone, and removes it again.
func letsPass(p *tab, w *weir) {
	p.open("/console/")
	p.presses(kb.Tab)
	testenv.Equal(p.t, p.get("document.activeElement.innerText"), "Skip to the content", "the first stop")
	p.tabTo(`#panel-keys td a[href*="mallory"]`)
	p.presses(kb.Enter)
	p.wants("panel-descriptor", "user=mallory", "key", "rules.yaml:3:5", "3 per day", "3 of 3")
	p.tabTo("#reason")
	p.presses("on call, until morning", kb.Enter)
	p.wants("main", "The exception is added.")
	p.wants("panel-descriptor", "An exception applies: allow", "on call, until morning")
	if got := p.get(`document.querySelector("#panel-descriptor .done")?.innerText + document.querySelector("#panel-descriptor .bad")`); !regexp.MustCompile(`(?s)until [-0-9: ]+ UTC: on call.*null$`).MatchString(got) {
		p.t.Errorf("the exception is shown as %q", got)
	}
	p.open("/console/exceptions")
	p.wants("panel-exceptions", "user=mallory", "allow", "on call, until morning")
	until, err := time.Parse(time.RFC3339, p.get(`document.querySelector("#panel-exceptions time").dateTime`))
	if left := time.Until(until); err != nil || left < time.Hour || left > 2*time.Hour {
		p.t.Errorf("it lasts %v (error: %v), want 2 h", left, err)
	}
	w.waitFor("mallory", service.RateLimitResponse_OK)
	p.tabTo(`button[aria-label*="mallory"]`)
	p.presses(kb.Enter)
	p.wants("main", "The exception is removed.", "There are no exceptions.")

	// Only the effect that multiplies limits shows the factor.
	p.open("/console/exceptions")
	shown := `getComputedStyle(document.querySelector(".times")).display + " "`
	testenv.Equal(p.t, p.get(shown+`+ (document.getElementById("effect").value = "amount", `+shown+`)`), "none block ", "display of the factor, without and with amount")

	// An invalid exception stays in the form, with an error message.
	p.open("/console/exceptions")
	for _, field := range [][]string{{"#domain", "api"}, {"#descriptor", "user=bob"}, {"#for", "soon"}, {"#reason", "why not", kb.Enter}} {
		p.tabTo(field[0])
		p.presses(field[1:]...)
	}
	p.wants("main", `"soon" is not a duration such as 30m`)
	testenv.Equal(p.t, p.get(`document.getElementById("descriptor").value + document.getElementById("reason").value`), "user=bobwhy not", "the form")
}

// keepsText checks that panels keep typed text, closed details and selections when they change.
func keepsText(p *tab, w *weir) {
	p.open("/console/rules")
	first := p.get(`document.querySelector(".tree details").id`)
	p.do(chromedp.Click(chromedp.CSS(".tree summary")), chromedp.SendKeys(chromedp.ID("filter"), "half a wo"))
	p.get(`(window.before = document.querySelector(".tree"), "")`)
	askFor(p.t, w, 3, "tenant", "acme")
	testenv.Until(p.t, "the panel is a new one", func() bool { return p.get(`window.before.isConnected`) == "false" })
	want := "half a wo filter false"
	testenv.Equal(p.t, p.get(fmt.Sprintf(`document.getElementById("filter").value + " " + document.activeElement.id + " " + document.getElementById(%q).open`, first)), want, "filter, focus and the open rule")

	askFor(p.t, w, 3, "user", "mallory")
	p.open("/console/")
	p.get(`(document.getSelection().selectAllChildren(document.getElementById("h-keys")), window.before = document.querySelector("#panel-keys table"), window.other = document.querySelector("#panel-last table"), "")`)
	askFor(p.t, w, 3, "user", "mallory")
	testenv.Until(p.t, "another panel is a new one", func() bool { return p.get(`window.other.isConnected`) == "false" })
	testenv.Equal(p.t, p.get(`document.getSelection().toString() + " " + window.before.isConnected`), "Most limited keys true", "the selection")
	p.do(chromedp.Click(chromedp.ID("pause")))
	p.get(`(document.getSelection().removeAllRanges(), "")`)
	testenv.Equal(p.t, p.get(`document.getElementById("pause").ariaPressed`), "true", "pressed")
}

// showsAsText checks that values that would be harmful as markup are shown as text.
func showsAsText(p *tab, w *weir) {
	long := strings.Repeat("y", 10_000)
	values := []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(2)>`, "\x1b[31mred\x1b[0m\u202etxt", "\xff\xfe\x00a", `{{.}} javascript:alert(3)`, long}
	for _, value := range values {
		askFor(p.t, w, 6, "user", value)
	}
	p.open("/console/")
	shown := []string{"user=" + values[0], "user=" + values[1], `user=\x1b[31mred\x1b[0m\xe2\x80\xaetxt`, `user=\xff\xfe\x00a`, "user=" + values[4], "user=yyyy", "(cut, digest "}
	p.wants("panel-keys", shown...)
	p.wants("panel-last", shown[1:]...)
	for _, value := range values[:5] {
		// The link of a key leads to the form with exactly this value.
		p.open("/console/")
		links := p.get(`[...document.querySelectorAll("#panel-keys td:first-child a")].map(a => a.href).join("\n")`)
		found := slices.IndexFunc(strings.Split(links, "\n"), func(link string) bool {
			u, err := url.Parse(link)
			return err == nil && strings.Contains(u.Query().Get("descriptor"), strings.NewReplacer("\x1b", `\x1b`, "\u202e", `\xe2\x80\xae`, "\xff\xfe\x00", `\xff\xfe\x00`).Replace(value))
		})
		if found < 0 {
			p.t.Errorf("no link leads to %q:\n%s", value, links)
			continue
		}
		p.open(strings.TrimPrefix(strings.Split(links, "\n")[found], p.base))
		p.wants("panel-descriptor", "3 per day", "3 of 3")
	}
	p.open("/console/descriptor?" + url.Values{"domain": {"<b>"}, "descriptor": {"<i>x</i>=" + long}}.Encode())
	p.wants("main", `there are no rules for the domain "<b>"`)
}

// worksWithoutScripts adds and removes an exception and resets counters by plain forms.
func worksWithoutScripts(t *testing.T, w *weir) {
	base := "http://" + w.debug + "/console/"
	post := func(path string, form url.Values, want string) string {
		t.Helper()
		a := testenv.Must(exchange(client, http.MethodPost, base+path, form.Encode(), "content-type: application/x-www-form-urlencoded"))(t)
		testenv.Contains(t, a.body, want)
		return a.body
	}
	bob := url.Values{"domain": {"api"}, "descriptor": {"user=bob"}}
	post("reset", bob, "The counters are set to zero.")
	for effect, said := range map[string]string{"allow": "allow", "deny": "deny", "amount": "amount × 7"} { // the buttons
		shown := post("descriptor", url.Values{"domain": bob["domain"], "descriptor": bob["descriptor"], "effect": {effect}, "factor": {"7"}, "for": {"1h"}, "reason": {"why"}}, "An exception applies: "+said+", until ")
		id := regexp.MustCompile(`name="id" value="([^"]+)"`).FindStringSubmatch(shown)
		if id == nil || !strings.Contains(shown, "The exception is added.") {
			t.Fatalf("got %s", shown)
		}
		post("exceptions/remove", url.Values{"id": {id[1]}}, "The exception is removed.")
	}
	page, err := fetch(base + "descriptor?" + bob.Encode())
	if err != nil || !strings.Contains(page.body, "0 of 3") {
		t.Errorf("got %s (error: %v)", page.body, err)
	}
	for header, want := range map[string]string{"Content-Security-Policy": "default-src 'none'; script-src 'self'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store"} {
		if got := page.header.Get(header); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", header, got)
		}
	}
	form := url.Values{"effect": {"amount"}, "factor": {"10x"}, "for": {"1h"}, "reason": {"sale"}, "by": {"carol"}, "domain": {"api"}, "descriptor": {"user=bob"}}
	for domain, said := range map[string]string{"api": "The exception is added.", "apii": "The exception is added, but no rule has its domain or its keys."} {
		form.Set("domain", domain)
		list := post("exceptions", form, said)
		id := regexp.MustCompile(`name="id" value="([^"]+)"`).FindStringSubmatch(list)
		if id == nil || !strings.Contains(list, "carol") || !strings.Contains(list, "× 10") {
			t.Fatalf("got %s", list)
		}
		post("exceptions/remove", url.Values{"id": {id[1]}}, "There are no exceptions.")
	}
	form.Set("factor", "many")
	post("exceptions", form, "is not a number")
	post("exceptions/remove", url.Values{"id": {"none"}}, `role="alert"`)
}

// signsIn opens the console from an outer address, with no token, a wrong one and the right
// one, and from the machine itself without a token.
func signsIn(browser context.Context, t *testing.T) {
	token := testenv.File(t, "token", "the-token-of-this-test-0123456789\n")
	rules := writeRules(t, consoleRules)
	testenv.Write(t, rules+"/web.yaml", "domain: web\n")
	w := startWeir(t, rules, "DEBUG_HOST=0.0.0.0", "ADMIN_TOKEN_FILE="+token)
	_, port, err := net.SplitHostPort(w.debug)
	testenv.OK(t, err)
	askFor(t, w, 9, "user", "mallory")
	p := newTab(browser, t, net.JoinHostPort(testenv.OuterAddr(t), port))
	p.open("/console/rules")
	p.wants("main", "Sign in", "Token")
	p.lacks("body", "tenant", "Exceptions")
	p.do(chromedp.SendKeys(chromedp.ID("token"), "wrong"+kb.Enter))
	testenv.Until(t, "the token is refused", func() bool { return p.get(`document.querySelector("[role=alert]") !== null`) == "true" })
	p.do(chromedp.SendKeys(chromedp.ID("token"), "the-token-of-this-test-0123456789"+kb.Enter))
	p.wants("panel-keys", "user=mallory", "6")
	p.wants("panel-store", "in memory, at most", "Counters\n1")
	p.open("/console/descriptor?domain=web&descriptor=user%3Dalice")
	p.open("/console/rules")
	testenv.Equal(t, p.get(`document.getElementById("search-domain").value`), "web", "the search begins with the last domain")
	p.do(chromedp.Click(chromedp.CSS("form[action='/console/signout'] button")))
	p.wants("main", "Sign in", "Token")

	// On the machine itself, users see everything, but must sign in to change anything.
	p = newTab(browser, t, net.JoinHostPort("127.0.0.1", port))
	p.open("/console/exceptions")
	p.wants("main", "To change anything, sign in.")
	testenv.Equal(t, p.get(`document.querySelectorAll("form[method=post]").length`), "0", "forms that would be refused")
}
