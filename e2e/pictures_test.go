package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"weir/internal/testenv"
)

var updatePictures = flag.Bool("update-pictures", false, "write docs/console/*.png again")

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
		testenv.Contains(t, document, "console/"+name+".png")
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
