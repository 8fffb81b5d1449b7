package e2e

import (
	"fmt"
	"strconv"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"weir/internal/testenv"
)

// inEachLook calls visit in each width and colour scheme, in turns with and without scripts, so
// that any two of these occur together.
func (p *tab) inEachLook(widths []int64, visit func(width int64, scheme, look string)) {
	p.t.Helper()
	scripts := func(disabled bool) {
		testenv.Must(chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: disabled}))(p.t)
	}
	for i, width := range widths {
		for j, scheme := range []string{"light", "dark"} {
			without := (i+j)%2 > 0
			scripts(without)
			testenv.Must(chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))(p.t)
			p.do(chromedp.EmulateViewport(width, 800))
			visit(width, scheme, fmt.Sprintf("at %d, %s, without scripts: %t", width, scheme, without))
		}
	}
	scripts(false)
}

// fits checks the width, contrasts and names of each page.
func fits(p *tab) {
	pages := []string{"", "?window=hour&servers=all", "rules", "budgets", "exceptions", "descriptor?domain=api&descriptor=user%3Dmallory", "servers", "at-3am", "signin"}
	p.open("/console/")
	p.wants("panel-rates", "15 min ago") // the chart is among what is checked
	p.inEachLook([]int64{360, 390, 1280}, func(width int64, scheme, look string) {
		for _, page := range pages {
			p.open("/console/" + page)
			testenv.Equal(p.t, p.get("document.scrollingElement.scrollWidth"), strconv.FormatInt(width, 10), "width of %q %s", page, look)
			testenv.Equal(p.t, p.get(contrasts), "", "faint text of %q %s", page, look)
			testenv.Equal(p.t, p.get(unusable), "", "what is unusable on %q %s", page, look)
			testenv.Equal(p.t, p.get(unnamed), "", "what has no name on %q %s", page, look)
		}
		testenv.Equal(p.t, p.get(`getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0] < 128`) == "true", scheme == "dark", "the page is dark %s", look)
	})
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
		if (e.querySelector(".cards") && innerWidth <= 640) return e.scrollWidth > e.clientWidth; // rows are cards
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
