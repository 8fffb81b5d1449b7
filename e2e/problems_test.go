package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"weir/internal/testenv"
)

// faults break a server whose console is open.
var faults = map[string]struct {
	fail, repair   func(r *testenv.Redis, rules string, t *testing.T)
	level, section string
	want           []string // in the line above the page
	undecided      bool     // requests get an error
}{
	"frozen": {
		func(r *testenv.Redis, _ string, _ *testing.T) { r.Pause() }, func(r *testenv.Redis, _ string, _ *testing.T) { r.Resume() }, "red", "redis-fails",
		[]string{"Redis does not answer, and is not asked until it does: the breaker is open (timeout: ", "since ", "With failure_mode error, limits are not decided; Envoy lets these requests pass unless failure_mode_deny is set. ", " in the last minute."}, true,
	},
	"killed": {
		func(r *testenv.Redis, _ string, _ *testing.T) { r.Stop() }, func(r *testenv.Redis, _ string, _ *testing.T) { r.Start() }, "red", "redis-fails",
		[]string{"Redis does not answer", "(connection: ", "limits are not decided"}, true,
	},
	"full": {
		func(r *testenv.Redis, _ string, _ *testing.T) { r.Command("CONFIG SET maxmemory 1") }, func(r *testenv.Redis, _ string, _ *testing.T) { r.Command("CONFIG SET maxmemory 0") }, "red", "redis-fails",
		[]string{"Redis refuses calls (oom: OOM", "limits are not decided"}, true,
	},
	"refused": {
		func(_ *testenv.Redis, rules string, t *testing.T) {
			replaceRules(t, rules, consoleRules+"  - key: broken\n    rate_limit: []\n")
		}, func(_ *testenv.Redis, rules string, t *testing.T) { replaceRules(t, rules, consoleRules) }, "amber", "new-rules-have-no-effect",
		[]string{"New rules are refused: ", "rules.yaml:17:17", "the list is empty", "The rules of ", " UTC are in use. A restart would fail."}, false,
	},
}

// These tests break a server under traffic while its console is open. Parallel subtests would begin
// after all other tests, and end alone.
func TestConsoleShowsFrozenRedis(t *testing.T)  { showsFault(t, "frozen") }
func TestConsoleShowsKilledRedis(t *testing.T)  { showsFault(t, "killed") }
func TestConsoleShowsFullRedis(t *testing.T)    { showsFault(t, "full") }
func TestConsoleShowsRefusedRules(t *testing.T) { showsFault(t, "refused") }

// showsFault checks that the line of a fault appears above an open page without a reload, in each
// look, leads to its section, and goes after the repair. With
// -update-pictures it takes a screenshot.
func showsFault(t *testing.T, name string) {
	t.Parallel()
	fault, browser, redis := faults[name], testenv.Browser(t), testenv.RedisServer(t)
	rules := writeRules(t, consoleRules)
	w := startWeir(t, rules, "REDIS_URL="+redis.Addr(), "REDIS_TIMEOUT=2s") // less than the patience of the test
	p := newTab(browser, t, w.debug)
	p.do(chromedp.EmulateViewport(1280, 800))
	p.open("/console/")
	p.wants("panel-rates", "This server is fresh: it started ", "no request has arrived yet.", "Undecided\n0")
	if p.get(`document.querySelector(".problems") === null && document.querySelector(".chart") === null`) != "true" {
		t.Error("a fresh server has a problem or a chart")
	}
	for _, descriptor := range []string{"user=user{}", "tenant=acme"} { // the first is soon denied, the second is not
		run(t, "", nil, program(t), "bench", w.grpc, "--descriptor="+descriptor, "--rate=15", "--keys=30", "--duration=1h")
	}
	p.wants("panel-rates", "15 min ago")
	if *updatePictures {
		testenv.Pass(90 * time.Second) // longer than a tab lives
		p = newTab(browser, t, w.debug)
		p.do(chromedp.EmulateViewport(1280, 800))
		p.open("/console/")
	}
	fault.fail(redis, rules, t)
	p.wants("panel-problems", fault.want...)
	if fault.undecided {
		testenv.Until(t, "requests are undecided", func() bool {
			return p.get(`document.querySelector("#panel-rates").innerText.includes("Undecided\n0") || !document.querySelector(".line-undecided")`) == "false"
		})
	}
	out, err := shell(t, t.TempDir(), "weir status", "WEIR_SERVER=http://"+w.debug)
	if red := fault.level == "red"; (err != nil) != red || red && !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(out, map[bool]string{true: "RED         ", false: "amber       "}[red]+fault.want[0]) {
		t.Errorf("weir status: %v\n%s", err, out)
	}
	picture := filepath.Join(testenv.Repository(t), "docs/console", name+".png")
	if *updatePictures {
		testenv.Pass(20 * time.Second)
		p.picture(picture, rules, "config")
		p = newTab(browser, t, w.debug)
	}
	if info, err := os.Stat(picture); err != nil || info.Size() >= 150_000 {
		t.Errorf("%s is missing or has 150000 bytes or more (error: %v); -update-pictures takes it again", picture, err)
	}
	line := ".problems ." + fault.level
	p.inEachLook([]int64{390, 1280}, func(width int64, _, look string) {
		for _, page := range []string{"", "rules", "budgets", "exceptions", "descriptor", "servers", "at-3am"} {
			p.open("/console/" + page)
			p.wants("panel-problems", fault.want...)
			testenv.Equal(t, p.get(fmt.Sprintf(`document.querySelector("main").firstElementChild.contains(document.querySelector(%q)) && document.querySelector(%[1]q).getBoundingClientRect().bottom < 800`, line)), "true", "%q %s: the line is above everything", page, look)
			if page == "servers" && fault.level == "red" {
				p.wants("panel-servers", fault.want[0])
				p.lacks("#panel-servers", "healthy")
			}
			testenv.Equal(t, p.get("document.scrollingElement.scrollWidth"), strconv.FormatInt(width, 10), "%q %s: width", page, look)
			testenv.Equal(t, p.get(contrasts)+p.get(unnamed), "", "%q %s: faint text, and what has no name", page, look)
		}
	})
	p.open("/console/rules")
	p.do(chromedp.Click(chromedp.CSS(line + " a")))
	testenv.Until(t, "the link leads to the section", func() bool {
		return p.get(fmt.Sprintf(`location.hash === "#%s" && document.getElementById(%[1]q) !== null`, fault.section)) == "true"
	})
	fault.repair(redis, rules, t)
	testenv.Until(t, "the line goes", func() bool {
		return p.get(fmt.Sprintf(`document.querySelector(%q) === null || !document.querySelector(%[1]q).innerText.includes(%q)`, line, fault.want[0])) == "true"
	})
	if fault.undecided {
		p.wants("panel-problems", "Some requests were not decided as usual from ", " to ")
	}
}
