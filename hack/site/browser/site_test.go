package browser

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	wide, high           = 1360, 900
	phoneWide, phoneHigh = 360, 780
)

// Those that readers see first, and those with what is hard to show.
var shown = []string{"index", "pictures", "operations/install", "operations/conditions", "operations/alerts", "adr/index"}

func TestSearch(t *testing.T) {
	b := open(t)
	b.prefer("light")
	b.do(chromedp.EmulateViewport(wide, high))
	b.visit("index.html")
	b.part("finds what a cluster shows", func() {
		b.do(chromedp.KeyEvent("/"))
		b.until(`document.activeElement.id === "search"`)
		is[string](b, `document.activeElement.value = ""`) // The key is sent as a letter as well, whatever the page says of it.
		b.do(chromedp.SendKeys("#search", "agent not connect"))
		b.until(`document.querySelector("#results a")`)
		b.shoot("search", false)
		if url := is[string](b, `document.querySelector("#results a").getAttribute("href")`); !strings.HasPrefix(url, "operations/") {
			b.t.Errorf("the first result is %s", url)
		}
	})
	b.part("leads to the place by keys", func() {
		is[string](b, `document.querySelector("#search").value = ""`)
		b.do(chromedp.SendKeys("#search", "ArchelonClusterDisconnected"))
		b.until(`document.querySelector("#results b")?.textContent === "ArchelonClusterDisconnected"`)
		b.follow(chromedp.SendKeys("#search", kb.Enter))
		b.until(`location.pathname === "/operations/alerts.html" && location.hash === "#archelonclusterdisconnected"`)
	})
	b.part("says that there is nothing", func() {
		b.do(chromedp.SendKeys("#search", "zzyzx"))
		b.until(`document.querySelector("#results").textContent.includes("Nothing has all of: zzyzx")`)
	})
	b.part("needs no server", func() {
		file, err := filepath.Abs(filepath.Join(site, "operations", "install.html"))
		if err != nil {
			b.t.Fatal(err)
		}
		b.do(chromedp.Navigate("file://"+file), chromedp.SendKeys("#search", "air gap"))
		b.until(`document.querySelector("#results a")?.href.startsWith("file:///")`)
	})
}

func TestDarkAndLight(t *testing.T) {
	b := open(t)
	b.do(chromedp.EmulateViewport(wide, high))
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		for _, page := range shown {
			b.visit(page + ".html")
			for _, selector := range []string{"body", "article a", "nav a", "footer a", "h1"} {
				ratio, dark := b.contrast(selector)
				if dark != (scheme == "dark") {
					t.Errorf("%s is not %s", page, scheme)
				}
				if ratio < 4.5 {
					t.Errorf("%s, %s: %s has contrast %.1f", page, scheme, selector, ratio)
				}
			}
			b.shoot(strings.ReplaceAll(page, "/", "-")+"-"+scheme, page == "index" || page == "pictures")
		}
	}
	b.part("by the button, for all pages", func() {
		b.do(chromedp.Click("#theme"))
		b.visit("index.html")
		if _, dark := b.contrast("body"); dark {
			b.t.Error("light was chosen, and the next page is dark")
		}
		b.do(chromedp.Click("#theme"))
		if _, dark := b.contrast("body"); !dark {
			b.t.Error("dark was chosen, and the page is light")
		}
	})
}

func TestPhone(t *testing.T) {
	b := open(t)
	b.prefer("light")
	b.do(chromedp.EmulateViewport(phoneWide, phoneHigh, chromedp.EmulateMobile))
	pages := 0
	err := filepath.WalkDir(site, func(file string, _ fs.DirEntry, err error) error {
		name, _ := filepath.Rel(site, file)
		if filepath.Ext(name) != ".html" {
			return err
		}
		pages++
		b.visit(filepath.ToSlash(name))
		if width := is[int](b, `Math.max(document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth)`); width > phoneWide {
			t.Errorf("%s is %d pixels wide on a phone", name, width)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 60 {
		t.Errorf("there are %d pages only", pages)
	}
	for _, page := range shown {
		b.visit(page + ".html")
		b.shoot("phone-"+strings.ReplaceAll(page, "/", "-"), page == "index")
	}
	b.part("has a menu", func() {
		b.visit("index.html")
		if is[bool](b, `document.querySelector("#pages").checkVisibility()`) {
			b.t.Error("the menu is open without having been asked for")
		}
		b.do(chromedp.Click("#menu"), chromedp.WaitVisible(`#pages a[href="operations/turtles.html"]`))
		b.shoot("phone-menu", false)
		b.follow(chromedp.Click(`#pages a[href="operations/turtles.html"]`))
		b.until(`location.pathname === "/operations/turtles.html" && !document.querySelector("#pages").checkVisibility()`)
	})
}

func TestMain(m *testing.M) {
	_ = os.RemoveAll(shots)
	os.Exit(m.Run())
}
