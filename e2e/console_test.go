package e2e

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
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

var updatePictures = flag.Bool("update-pictures", false, "write docs/console/*.png again")

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

// TestConsole opens the console of a server under traffic in a browser.
func TestConsole(t *testing.T) {
	t.Parallel()
	browser, redis := testenv.Browser(t), testenv.RedisServer(t)
	rules := writeRules(t, consoleRules)
	w := startWeir(t, rules, onRedis(redis)...)
	askFor(t, w, 23, "user", "mallory")
	askFor(t, w, 4, "user", "bob")
	askFor(t, w, 40, "tenant", "acme")
	askFor(t, w, 8, "trial", "bob")
	run := func(name string, test func(t *testing.T, p *tab)) {
		t.Run(name, func(t *testing.T) { test(t, newTab(browser, t, w.debug)) })
	}
	run("now", func(t *testing.T, p *tab) { showsNow(p, w, rules) })
	run("servers", func(t *testing.T, p *tab) {
		p.open("/console/servers")
		p.wants("panel-servers", "1 server on this Redis", "(this one)", "healthy")
	})
	run("rules", func(t *testing.T, p *tab) { showsRules(p, w) })
	run("budgets", func(t *testing.T, p *tab) { showsBudgets(p) })
	t.Run("pictures", func(t *testing.T) { takePictures(browser, t) })
	run("search", func(t *testing.T, p *tab) { looksUp(p) })
	run("exception by keyboard", func(t *testing.T, p *tab) { letsPass(p, w) })
	run("typed text stays", func(t *testing.T, p *tab) { keepsText(p, w) })
	run("hostile values", func(t *testing.T, p *tab) { showsAsText(p, w) })
	run("widths and colours", func(t *testing.T, p *tab) { fits(p) })
	t.Run("without scripts", func(t *testing.T) { worksWithoutScripts(t, w) })
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
	if points := p.get(`document.querySelector(".day polyline").getAttribute("points")`); points != "460.0,0.0 480.0,0.0 " {
		p.t.Errorf("the line has the points %q", points)
	}
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
	if got := p.get(`document.getElementById("search-domain").tagName + " " + [...document.querySelectorAll("#recent option")].map(o => o.label + " " + o.value).sort()`); got != "SELECT api trial=bob,api user=bob,api user=mallory" {
		p.t.Errorf("the search completes %q", got)
	}
	// A bar for each minute with denials, and a table of the same numbers.
	bars := p.get(`[...document.querySelectorAll(".bars title")].map(t => t.textContent)`)
	p.do(chromedp.Click(chromedp.CSS(".denials summary")))
	rows := p.get(`[...document.querySelectorAll(".denials tbody tr")].map(r => r.cells[0].innerText + ": " + r.cells[1].innerText + " denied")`)
	if bars != rows || !regexp.MustCompile(`^\d\d:\d\d: \d+ denied`).MatchString(bars) {
		p.t.Errorf("the bars show %q, the table %q", bars, rows)
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
	if got := p.get("document.activeElement.innerText"); got != "Skip to the content" {
		p.t.Errorf("the first stop is %q", got)
	}
	p.tabTo(`#panel-keys td a[href*="mallory"]`)
	p.presses(kb.Enter)
	p.wants("panel-descriptor", "user=mallory", "key", "rules.yaml:3:5", "3 per day", "3 of 3")
	p.tabTo("#reason")
	p.presses("on call, until morning", kb.Enter)
	p.wants("main", "The exception is added.")
	p.wants("panel-descriptor", "An exception applies: allow", "on call, until morning")
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
	if got := p.get(shown + `+ (document.getElementById("effect").value = "amount", ` + shown + `)`); got != "none block " {
		p.t.Errorf("the display of the factor is %q, want none, and block for amount", got)
	}

	// An invalid exception stays in the form, with an error message.
	p.open("/console/exceptions")
	for _, field := range [][]string{{"#domain", "api"}, {"#descriptor", "user=bob"}, {"#for", "soon"}, {"#reason", "why not", kb.Enter}} {
		p.tabTo(field[0])
		p.presses(field[1:]...)
	}
	p.wants("main", `"soon" is not a duration such as 30m`)
	if got := p.get(`document.getElementById("descriptor").value + document.getElementById("reason").value`); got != "user=bobwhy not" {
		p.t.Errorf("the form has %q", got)
	}
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
	if got := p.get(fmt.Sprintf(`document.getElementById("filter").value + " " + document.activeElement.id + " " + document.getElementById(%q).open`, first)); got != want {
		p.t.Errorf("got %q, want %q", got, want)
	}

	askFor(p.t, w, 3, "user", "mallory")
	p.open("/console/")
	p.get(`(document.getSelection().selectAllChildren(document.getElementById("h-keys")), window.before = document.querySelector("#panel-keys table"), window.other = document.querySelector("#panel-last table"), "")`)
	askFor(p.t, w, 3, "user", "mallory")
	testenv.Until(p.t, "another panel is a new one", func() bool { return p.get(`window.other.isConnected`) == "false" })
	if got := p.get(`document.getSelection().toString() + " " + window.before.isConnected`); got != "Most limited keys true" {
		p.t.Errorf("the selection is %q", got)
	}
	p.do(chromedp.Click(chromedp.ID("pause")))
	p.get(`(document.getSelection().removeAllRanges(), "")`)
	if got := p.get(`document.getElementById("pause").ariaPressed`); got != "true" {
		p.t.Errorf("pressed is %s", got)
	}
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

// fits checks the width, contrasts and names of each page in several widths and colour schemes, with
// and without scripts.
func fits(p *tab) {
	pages := []string{"", "?window=hour&servers=all", "rules", "budgets", "exceptions", "descriptor?domain=api&descriptor=user%3Dmallory", "servers", "at-3am", "signin"}
	for i, scheme := range []string{"light", "dark", "light", "dark"} {
		testenv.Must(chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: i > 1}))(p.t)
		testenv.Must(chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))(p.t)
		for _, width := range []int64{360, 390, 1280} {
			p.do(chromedp.EmulateViewport(width, 800))
			for _, page := range pages {
				p.open("/console/" + page)
				if got := p.get("document.scrollingElement.scrollWidth"); got != strconv.FormatInt(width, 10) {
					p.t.Errorf("%q in %d: is %s wide", page, width, got)
				}
				if bad := p.get(contrasts); bad != "" {
					p.t.Errorf("%q in %s: %s", page, scheme, bad)
				}
				if bad := p.get(unusable); bad != "" {
					p.t.Errorf("%q in %d: %s", page, width, bad)
				}
				if bad := p.get(unnamed); bad != "" {
					p.t.Errorf("%q: without a name: %s", page, bad)
				}
			}
		}
		if dark := p.get(`getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0] < 128`) == "true"; dark != (scheme == "dark") {
			p.t.Errorf("the page is dark: %v, the scheme is %s", dark, scheme)
		}
	}
}

// contrasts lists texts with less contrast than WCAG AA requires.
const contrasts = `(() => {
	const parse = c => c.match(/[0-9.]+/g).map(Number);
	const light = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
	const bad = [];
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || e.closest("svg, .hidden, .skip")) continue;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
		if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(e.tagName + " " + e.className + " " + e.textContent.slice(0, 40) + " " + ((a + 0.05) / (b + 0.05)).toFixed(2));
	}
	return bad.join("\n");
})()`

// unusable lists tables whose first column leaves when they are scrolled, or hides the last one, and
// file names that break elsewhere than after a slash.
const unusable = `[
	...[...document.querySelectorAll(".scroll")].filter(e => {
		e.scrollLeft = 10000;
		const box = e.getBoundingClientRect(), cells = e.querySelector("tbody tr").cells;
		const first = cells[0].getBoundingClientRect(), last = cells[cells.length - 1].getBoundingClientRect();
		return first.left < box.left - 1 || first.width > 0.7 * box.width || last.right > box.right + 1;
	}).map(e => e.ariaLabel),
	...[...document.querySelectorAll(".place")].flatMap(e => [...e.childNodes]).filter(n => {
		const range = document.createRange();
		range.selectNodeContents(n);
		return n.nodeType === 3 && range.getClientRects().length > 1;
	}).map(n => n.data),
].join("\n")`

// unnamed lists elements without a name for screen readers, and table headers without scope.
const unnamed = `[
	...[...document.querySelectorAll("input:not([type=hidden]), select")].filter(e => !e.labels.length),
	...[...document.querySelectorAll("th")].filter(e => !e.scope),
	...[...document.querySelectorAll("a, button, summary")].filter(e => !(e.textContent.trim() || e.ariaLabel)),
	...[...document.querySelectorAll("section")].filter(e => !document.getElementById(e.getAttribute("aria-labelledby"))),
].map(e => e.outerHTML.slice(0, 80)).join("\n")`

// worksWithoutScripts adds and removes an exception and resets counters by plain forms.
func worksWithoutScripts(t *testing.T, w *weir) {
	base := "http://" + w.debug + "/console/"
	post := func(path string, form url.Values, want string) string {
		t.Helper()
		a := testenv.Must(exchange(client, http.MethodPost, base+path, form.Encode(), "content-type: application/x-www-form-urlencoded"))(t)
		if !strings.Contains(a.body, want) {
			t.Errorf("%s: no %q in\n%s", path, want, a.body)
		}
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
	token := filepath.Join(t.TempDir(), "token")
	testenv.OK(t, os.WriteFile(token, []byte("the-token-of-this-test-0123456789\n"), 0o600))
	w := startWeir(t, writeRules(t, consoleRules), "DEBUG_HOST=0.0.0.0", "ADMIN_TOKEN_FILE="+token)
	_, port, err := net.SplitHostPort(w.debug)
	if err != nil {
		t.Fatal(err)
	}
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
	p.do(chromedp.Click(chromedp.CSS("form[action='/console/signout'] button")))
	p.wants("main", "Sign in", "Token")

	// On the machine itself, users see everything, but must sign in to change anything.
	p = newTab(browser, t, net.JoinHostPort("127.0.0.1", port))
	p.open("/console/exceptions")
	p.wants("main", "To change anything, sign in.")
	if p.get(`document.querySelectorAll("form[method=post]").length`) != "0" {
		t.Error("there are forms that would be refused")
	}
}

// takePictures checks that the screenshots of docs/console.md exist. With -update-pictures it
// first takes them from a server under load.
func takePictures(browser context.Context, t *testing.T) {
	var p *tab
	var rules string
	if *updatePictures {
		p, rules = underLoad(browser, t)
	}
	document := readDocument(t, "docs/console.md")
	for name, path := range map[string]string{"now": "", "rules": "rules", "budgets": "budgets", "exceptions": "exceptions?domain=api&descriptor=user%3Dmallory", "descriptor": "descriptor?domain=api&descriptor=user%3Dmallory", "signin": "signin"} {
		if !strings.Contains(document, "console/"+name+".png") {
			t.Errorf("docs/console.md does not show %s", name)
		}
		picture := filepath.Join(testenv.Repository(t), "docs/console", name+".png")
		if p != nil {
			p.open("/console/" + path)
			if name == "rules" {
				testenv.Until(t, "rates are measured", func() bool { return strings.Contains(p.get("document.body.innerText"), "/s asked") })
			}
			p.picture(picture, rules, "config")
		}
		if info, err := os.Stat(picture); err != nil || info.Size() >= 150_000 {
			t.Errorf("%s is missing or has 150000 bytes or more (error: %v); -update-pictures takes it again", name, err)
		}
	}
}

// picture takes a screenshot of the page, on which say replaces the path rules.
func (p *tab) picture(file, rules, say string) {
	p.t.Helper()
	p.get(fmt.Sprintf(`(() => { document.querySelectorAll("wbr").forEach(e => e.remove()); document.body.normalize(); const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); while (all.nextNode()) all.currentNode.data = all.currentNode.data.replaceAll(%q, %q); return ""; })()`, rules, say))
	testenv.OK(p.t, os.WriteFile(file, testenv.Must(chromedp.Run(p.ctx, chromedp.CaptureScreenshot()))(p.t), 0o644))
}

// underLoad opens a tab on a server that has been under load for five minutes. The load
// continues until the test ends. rules is the directory of the rules.
func underLoad(browser context.Context, t *testing.T) (p *tab, rules string) {
	rules = writeRules(t, strings.Replace(consoleRules, "{unit: day, requests_per_unit: 3}", "{unit: minute, requests_per_unit: 60}", 1)+
		"  - key: calls_of_team\n    rate_limit: {unit: month, requests_per_unit: 1000, algorithm: calendar, notify: [80, 100]}\n")
	w := startWeir(t, rules, onRedis(testenv.RedisServer(t))...)
	o := operator{t, t.TempDir(), w.debug}
	o.shell(`weir except add api user=nightly --amount 10x --for 6h --reason "import of Monday"`)
	o.shell(`weir except add api user=eve --deny --for 2h --reason "stolen key"`)
	for descriptor, rate := range map[string]int{"user=mallory": 8, "user=nightly": 4, "user=eve": 1, "tenant=acme": 18, "user=user{}": 20, "calls_of_team=red": 4, "calls_of_team=blue": 3, "calls_of_team=green": 1} {
		run(t, "", nil, program(t), "bench", w.grpc, "--descriptor="+descriptor, fmt.Sprint("--rate=", rate), "--keys=30", "--duration=1h")
	}
	testenv.Pass(5 * time.Minute)
	p = newTab(browser, t, w.debug)
	p.do(chromedp.EmulateViewport(1000, 1100))
	return p, rules
}

// tab is a tab of a browser that shows the console of a server.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // address of the server

	mu    sync.Mutex
	wrong []string // forbidden events, such as a script error
}

// watch is a script that logs each violation of the page's content security policy.
const watch = `document.addEventListener("securitypolicyviolation", e => console.error("policy: " + e.violatedDirective + " " + e.blockedURI))`

// newTab opens a tab. The test fails if the tab opens a dialog, a script fails or is refused,
// or a page sends a request to another server.
func newTab(browser context.Context, t *testing.T, addr string) *tab {
	t.Helper()
	opened, closes := chromedp.NewContext(browser)
	testenv.OK(t, chromedp.Do(opened))
	ctx, cancel := context.WithTimeout(opened, patience)
	p := &tab{t: t, ctx: ctx, base: "http://" + addr}
	t.Cleanup(func() {
		if t.Failed() {
			shown, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText"))
			t.Logf("the tab shows %s", shown)
		}
		cancel()
		closes()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.wrong != nil {
			t.Errorf("the tab had %s", strings.Join(p.wrong, "\n"))
		}
	})
	testenv.OK(t, chromedp.Listen(ctx, p.look))
	testenv.Must(chromedp.Call(ctx, network.Enable, network.EnableParams{}))(t)
	testenv.Must(chromedp.Call(ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: watch}))(t)
	return p
}

// look records events that are not allowed on any page.
func (p *tab) look(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *cdppage.EventJavascriptDialogOpening:
		p.wrong = append(p.wrong, "a dialog: "+e.Message)
	case *runtime.EventExceptionThrown:
		p.wrong = append(p.wrong, "an exception: "+fmt.Sprint(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			p.wrong = append(p.wrong, "an error: "+e.Args[0].Value.String())
		}
	case *network.EventRequestWillBeSent:
		asked, scheme := e.Request.URL, strings.SplitAfter(e.Request.URL, ":")[0]
		if !strings.HasPrefix(asked, p.base+"/") && scheme != "about:" && scheme != "data:" { // browsers have icons as data
			p.wrong = append(p.wrong, "a request to "+asked)
		}
	}
}

// do runs actions, which must succeed.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	testenv.OK(p.t, chromedp.Do(p.ctx, actions...))
}

// open shows a page.
func (p *tab) open(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + path))
}

// get evaluates a JavaScript expression and returns its value as text.
func (p *tab) get(expression string) string {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// wants waits until the element with an id shows all texts.
func (p *tab) wants(id string, texts ...string) {
	p.t.Helper()
	testenv.Eventually(p.t, func() error {
		got, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf(`String(document.getElementById(%q)?.innerText)`, id)))
		if err != nil { // the tab is loading another page
			return err
		}
		for _, want := range texts {
			if !strings.Contains(got, want) {
				return fmt.Errorf("%s has no %q, it shows\n%s", id, want, got)
			}
		}
		return nil
	})
}

// lacks fails the test if the element at a selector shows any of the texts.
func (p *tab) lacks(selector string, texts ...string) {
	p.t.Helper()
	got := p.get(fmt.Sprintf(`document.querySelector(%q).innerText`, selector))
	for _, text := range texts {
		if strings.Contains(got, text) {
			p.t.Errorf("%s has %q, it shows\n%s", selector, text, got)
		}
	}
}

// presses sends key strokes in order.
func (p *tab) presses(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until the element at a selector has the focus. The focus must be visible.
func (p *tab) tabTo(selector string) {
	p.t.Helper()
	for range 100 {
		p.presses(kb.Tab)
		if p.get(fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) == "true" {
			if style := p.get(`getComputedStyle(document.activeElement).outlineStyle`); style == "none" {
				p.t.Errorf("the focus on %s cannot be seen", selector)
			}
			return
		}
	}
	p.t.Fatalf("no way leads to %s by Tab", selector)
}
