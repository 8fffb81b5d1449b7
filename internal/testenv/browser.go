package testenv

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
)

// Browser starts a headless Chromium, which stops when the test ends. It returns the
// chromedp context of its first tab. Without chromium, the test is skipped.
func Browser(t testing.TB) context.Context {
	t.Helper()
	starts, end := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(Program(t, "chromium")))...)
	t.Cleanup(end) // waits until Chromium has stopped
	browser, closes := chromedp.NewContext(starts)
	t.Cleanup(closes)
	OK(t, chromedp.Do(browser))
	return browser
}
