package report_test

import (
	"bytes"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/report"
)

// node adds the tests' helpers to a parsed page.
type node struct{ *html.Node }

func (n node) attr(name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func (n node) text() string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// The page is self-contained, has no scripts, and is accessible.
func TestHTMLIsSelfContainedAndAccessible(t *testing.T) {
	for name, log := range map[string]string{
		"small": small(t), "hostile": small(t) + hostile, "families": newMaze(6).log.String() + hostile, "empty-handed": "a - - [05/Oct/2026:14:03:09 +0200] \"GET / HTTP/1.0\" 200 7\n",
	} {
		var page bytes.Buffer
		must.OK(t, build(t, log, report.Options{Ranges: map[string][]netip.Prefix{"googlebot": {netip.MustParsePrefix("66.249.64.0/19")}}}).WriteHTML(&page, 0))
		doc := must.Get(html.Parse(bytes.NewReader(page.Bytes())))
		ids, refs, charts, tables := map[string]int{}, []string{}, 0, 0
		for d := range doc.Descendants() {
			if d.Type != html.ElementNode {
				continue
			}
			n := node{d}
			switch d.Data {
			case "script", "link", "iframe", "img", "object", "embed", "base", "form", "a", "image", "use", "b2", "animate", "foreignobject":
				t.Errorf("%s: there is a %s", name, d.Data)
			case "style":
				if bad := regexp.MustCompile(`(?i)url\(|@import|expression|src`).FindString(n.text()); bad != "" {
					t.Errorf("%s: the style has %s", name, bad)
				}
			case "svg":
				if n.attr("role") == "img" {
					charts++
				} else if n.attr("aria-hidden") != "true" {
					t.Errorf("%s: a drawing is neither named nor hidden", name)
				}
			case "table":
				tables++
			case "th":
				if s := n.attr("scope"); s != "col" && s != "row" {
					t.Errorf("%s: a table heading without a scope: %s", name, n.text())
				}
			}
			for _, a := range d.Attr {
				switch {
				case strings.HasPrefix(a.Key, "on") || a.Key == "href" || a.Key == "src" || a.Key == "srcset" || a.Key == "style" || a.Key == "action":
					t.Errorf("%s: %s has %s", name, d.Data, a.Key)
				case a.Key == "id":
					ids[a.Val]++
				case a.Key == "aria-labelledby":
					refs = append(refs, strings.Fields(a.Val)...)
				}
			}
		}
		for id, n := range ids {
			if n > 1 {
				t.Errorf("%s: %d of id %s", name, n, id)
			}
		}
		for _, ref := range refs {
			if ids[ref] == 0 {
				t.Errorf("%s: there is no %s", name, ref)
			}
		}
		if charts != 2 || tables < 5 || len(refs) != 4 {
			t.Errorf("%s: %d charts, %d tables, %d names", name, charts, tables, len(refs))
		}
		if bad := regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{202a}-\x{202e}]`).FindString(page.String()); bad != "" {
			t.Errorf("%s: there is %q", name, bad)
		}
		if regexp.MustCompile(`https?://`).Match(page.Bytes()) {
			t.Errorf("%s: there is an address", name)
		}
	}
}

// The page has the same content as the text.
func TestHTMLMatchesText(t *testing.T) {
	r := build(t, small(t), report.Options{})
	var page, text bytes.Buffer
	must.OK(t, r.WriteHTML(&page, 3))
	must.OK(t, r.WriteText(&text, 3))
	doc := must.Get(html.Parse(&page))
	said := strings.Join(strings.Fields(node{doc}.text()), " ")
	for _, want := range []string{"GPTBot", "64.1 kB", "59.5 kB", "82.1 %", "/feed.xml", "5 Oct 2026 00:10 to 8 Oct 2026 10:00 (+0200)", "1 of 40 lines could not be read."} {
		if !strings.Contains(said, want) || !strings.Contains(text.String(), want) {
			t.Errorf("no %q in the page or the text", want)
		}
	}
	if !strings.Contains(said, "And 3 more") || !strings.Contains(text.String(), "\n3 others ") {
		t.Errorf("the crawlers that are left out: %s\n%s", said, text.String())
	}
	for _, m := range r.Method {
		if !strings.Contains(said, strings.Join(strings.Fields(m.Text), " ")) {
			t.Errorf("the page does not say: %s", m.Text)
		}
	}
}

// For any number of days, the columns of the chart are wide enough to be seen.
func TestDayChartOfManyDays(t *testing.T) {
	var log strings.Builder
	for _, at := range []string{"01/Jan/2001", "01/Mar/2001", "01/Jan/2002", "05/Oct/2026"} {
		log.WriteString("a - - [" + at + ":14:03:09 +0000] \"GET / HTTP/1.0\" 200 7\n")
	}
	r := build(t, log.String(), report.Options{})
	if n := len(r.Days); n != 367 { // without the days of years that have no log
		t.Errorf("%d days", n)
	}
	var page bytes.Buffer
	must.OK(t, r.WriteHTML(&page, 0))
	if !strings.Contains(page.String(), "Requests by 7 days") {
		t.Error("the chart does not group days into weeks")
	}
}
