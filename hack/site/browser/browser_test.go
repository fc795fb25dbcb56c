package browser

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	site = "../../../bin/site"
	// shots is where pictures are kept. What was there before is replaced.
	shots = "../../../bin/screenshots"
	// patience is how long a test may take on a machine that does other things as well.
	patience = 10 * time.Minute
)

// chromium returns the browser: $CHROMIUM, or one of those that are usually installed.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if file, err := exec.LookPath(name); name != "" && err == nil {
			return file
		}
	}
	t.Fatal("no Chromium is installed: run `apt-get install -y chromium` (Debian), or name the program in CHROMIUM")
	return ""
}

// tab is a page of a browser that has not been anywhere yet.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // It is the tab, for chromedp.
	url string

	mu     sync.Mutex
	events []string // requests to others, and errors of scripts
}

func open(t *testing.T) *tab {
	t.Helper()
	if _, err := os.Stat(filepath.Join(site, "index.html")); err != nil {
		t.Fatal("there is no site to look at: run make docs")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(site)))
	t.Cleanup(server.Close)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)))
	if os.Geteuid() == 0 { // Chromium refuses to sandbox for root, who builds containers.
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, url: server.URL}
	b.do() // It starts the browser.
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.check)
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, runtime.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// part is a subtest in the same tab.
func (b *tab) part(name string, do func()) {
	b.t.Helper()
	whole := b.t
	defer func() { b.t = whole }()
	whole.Run(name, func(t *testing.T) {
		b.t = t
		do()
	})
}

func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		if url := event.Request.URL; !strings.HasPrefix(url, b.url+"/") && !strings.HasPrefix(url, "file://") {
			b.events = append(b.events, "asked for "+url)
		}
	case *network.EventResponseReceived:
		if event.Response.Status >= http.StatusBadRequest && !strings.HasSuffix(event.Response.URL, "/favicon.ico") {
			b.events = append(b.events, "did not get "+event.Response.URL)
		}
	case *runtime.EventExceptionThrown:
		b.events = append(b.events, "script failed: "+event.ExceptionDetails.Text)
	}
}

// check fails the test if a page has asked anybody else for something, or a script has failed.
func (b *tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, event := range b.events {
		b.t.Error(event)
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func run[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// follow does what leads to another page, and waits for that.
func (b *tab) follow(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if _, err := chromedp.RunResponse(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) visit(page string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + "/" + page))
}

// is returns what a script on the page says.
func is[T any](b *tab, script string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](script))
}

// until waits for what a script says to be true.
func (b *tab) until(script string) {
	b.t.Helper()
	b.do(chromedp.Poll[chromedp.Void](script, chromedp.WithPollingTimeout(patience/5)))
}

func (b *tab) prefer(scheme string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}); err != nil {
		b.t.Fatal(err)
	}
}

// shoot keeps a picture of what the window shows, or of the whole page.
func (b *tab) shoot(name string, whole bool) {
	b.t.Helper()
	take := chromedp.CaptureScreenshot()
	if whole {
		take = chromedp.FullScreenshot(100)
	}
	picture := run(b, take)
	if err := os.MkdirAll(shots, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shots, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// contrast returns how well the text of an element can be read on the ground of the page, as WCAG counts it.
func (b *tab) contrast(selector string) (ratio float64, dark bool) {
	b.t.Helper()
	colours := is[[][]float64](b, `[getComputedStyle(document.querySelector("`+selector+`")).color, getComputedStyle(document.body).backgroundColor]
		.map((colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number))`)
	light := func(rgb []float64) float64 {
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			c := rgb[i] / 255
			if c <= 0.04045 {
				sum += weight * c / 12.92
			} else {
				sum += weight * math.Pow((c+0.055)/1.055, 2.4)
			}
		}
		return sum
	}
	text, ground := light(colours[0]), light(colours[1])
	return (max(text, ground) + 0.05) / (min(text, ground) + 0.05), ground < text
}
