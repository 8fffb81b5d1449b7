package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"weir/internal/testenv"
)

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
	testenv.Lacks(p.t, p.get(fmt.Sprintf(`document.querySelector(%q).innerText`, selector)), texts...)
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
