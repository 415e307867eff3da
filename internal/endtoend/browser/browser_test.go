// Package browser tests the pages of the programs in a real browser. It is a module of its own, so that nobody else needs the
// library that drives the browser.
package browser

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// missing skips a test for want of a tool, or fails it if all tools are required.
func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("PARLEY_REQUIRE") == "all" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// A browser shows one page.
type browser struct {
	*testing.T
	ctx context.Context
	axe string // the checker of accessibility, as source

	mu     sync.Mutex // guards the rest
	asked  []string   // URLs that it requested
	errors []string   // that it reported
}

// openBrowser starts Chromium, or skips the test if that, or the file of axe-core that PARLEY_AXE names, is missing.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		missing(t, "there is no chromium: apt-get install chromium")
	}
	axe, err := os.ReadFile(os.Getenv("PARLEY_AXE"))
	if err != nil {
		missing(t, "PARLEY_AXE does not name axe.min.js of the npm package axe-core: "+err.Error())
	}
	profile, err := os.MkdirTemp("", "parley-browser")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(profile),
		chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(time.Minute))
	limited, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	process, end := chromedp.NewExecAllocator(limited, options...)
	ctx, closeTab := chromedp.NewContext(process)
	b := &browser{T: t, ctx: ctx, axe: string(axe)}
	t.Cleanup(func() {
		closeTab()
		end()
		cancel()
		os.RemoveAll(profile)
	})
	err = chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			b.asked = append(b.asked, e.Request.URL)
		case *runtime.EventExceptionThrown:
			b.errors = append(b.errors, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError {
				b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	return b
}

// do acts as a person does.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// call sends a command to the browser.
func call[P, R any](b *browser, command cdp.Command[P, R], parameters P) {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, command, parameters); err != nil {
		b.Fatal(err)
	}
}

// value returns the value of an expression in the page.
func value[T any](b *browser, expression string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// until waits until an expression in the page is true.
func (b *browser) until(what, expression string) {
	b.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression)); err == nil && is { // it fails while another page is loaded
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%s: not within 20 s; the page shows %s", what, value[string](b, "document.body.innerText"))
		}
	}
}

// looks checks a page on three screens, light and dark: nothing reaches beyond the screen, and axe-core finds nothing wrong. Screenshots
// are written to the directory PARLEY_SCREENSHOTS.
func (b *browser) looks(name string) {
	b.Helper()
	for _, scheme := range []string{"light", "dark"} {
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		for _, width := range []int64{320, 360, 768, 1280} {
			b.do(chromedp.EmulateViewport(width, 800))
			at := fmt.Sprintf("%s-%d-%s", name, width, scheme)
			if got := value[int64](b, "innerWidth"); got != width {
				b.Errorf("%s: the window is %d wide", at, got)
			}
			if wide := value[int64](b, "document.documentElement.scrollWidth"); wide > width {
				b.Errorf("%s: the page is %d wide: %s", at, wide, value[string](b, fmt.Sprintf(
					"[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > %d && !e.closest('.wide, .skip')).map(e => e.outerHTML.slice(0, 200)).join('\\n')", width)))
			}
			if width == 320 {
				continue
			}
			for _, wrong := range value[[]string](b, b.axe+`; axe.run(document).then(r => r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html.slice(0, 300) + " " + n.failureSummary).join("; ")))`) {
				b.Errorf("%s: %s", at, wrong)
			}
			if dir := os.Getenv("PARLEY_SCREENSHOTS"); dir != "" {
				image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				if err != nil {
					b.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, at+".png"), image, 0o644); err != nil {
					b.Error(err)
				}
			}
		}
	}
}

// painted loads the page and a page of one word in turn, five times, and logs how soon the browser painted something of each: the second is
// what this machine and browser need for anything. That depends on the machine, so it fails no test.
func (b *browser) painted(name, url string) {
	b.Helper()
	word := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<!DOCTYPE html><title>word</title><p>word")
	}))
	defer word.Close()
	var page, least []float64
	for range 5 {
		for _, of := range []struct {
			url  string
			list *[]float64
		}{{word.URL, &least}, {url, &page}} {
			b.do(chromedp.Navigate(of.url))
			b.until("something is painted", `performance.getEntriesByName("first-contentful-paint").length > 0`)
			*of.list = append(*of.list, value[float64](b, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))
		}
	}
	b.Logf("%s: first paint after %.0f ms, of a page of one word after %.0f ms", name, page, least)
	b.mu.Lock()
	b.asked = slices.DeleteFunc(b.asked, func(u string) bool { return strings.HasPrefix(u, word.URL) })
	b.mu.Unlock()
	b.until("the page is live", `document.getElementById("state").textContent === "Live"`)
}

// tabs goes through the page with the tabulator key, and checks that each stop is seen. It returns the stops.
func (b *browser) tabs() (stops []string) {
	b.Helper()
	value[bool](b, "document.activeElement.blur(); scrollTo(0, 0); true")
	for range 100 {
		b.do(chromedp.KeyEvent("\t"))
		stop := value[string](b, "document.activeElement === document.body ? '' : (document.activeElement.innerText || document.activeElement.name || document.activeElement.tagName).trim()")
		if stop == "" || len(stops) > 1 && stop == stops[0] {
			return stops
		}
		if !value[bool](b, "(() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect(); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 && r.right > 0 && r.bottom > 0 && r.top < innerHeight; })()") {
			b.Errorf("the focus on %q is not seen", stop)
		}
		stops = append(stops, stop)
	}
	b.Errorf("more than 100 stops: %q", stops)
	return stops
}

// clean checks that the browser reported no error, and requested nothing from elsewhere.
func (b *browser) clean(origin string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.errors {
		b.Errorf("the browser reports: %s", e)
	}
	for _, u := range b.asked {
		if !strings.HasPrefix(u, origin+"/") {
			b.Errorf("the page requested %s", u)
		}
	}
}

// built builds a program, and returns its path.
func built(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), program)
	build := exec.Command("go", "build", "-o", path, "./cmd/"+program)
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", program, err, out)
	}
	return path
}

// start builds a program and runs it until the test ends or stop is called.
func start(t *testing.T, program string, args ...string) (stop func()) {
	t.Helper()
	path := built(t, program)
	var said bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%s: %v: %s", program, err, said.String())
		}
	})
	t.Cleanup(stop)
	return stop
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// answers waits until a URL is answered with a status.
func answers(t *testing.T, url string, want int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == want {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v, %v", url, resp, err)
		}
	}
}
