package check

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
)

// The classes of field names in robots.txt.
const (
	fieldKnown    = 1 + iota
	fieldRule     // a rule
	fieldMisspelt // some crawlers accept it for the correct name
	fieldLittle   // few crawlers know it
)

var robotsFields = map[string]int{
	"user-agent": fieldKnown, "sitemap": fieldKnown, "crawl-delay": fieldKnown, "manifest": fieldKnown,
	"allow": fieldRule, "disallow": fieldRule,
	"host": fieldLittle, "clean-param": fieldLittle, "request-rate": fieldLittle, "visit-time": fieldLittle, "noindex": fieldLittle,
	"nofollow": fieldLittle, "content-usage": fieldLittle, "content-signal": fieldLittle, "license": fieldLittle,
}

var spelt = map[string]string{
	"useragent": "User-agent", "user agent": "User-agent", "user-agents": "User-agent",
	"dissallow": "Disallow", "dissalow": "Disallow", "disalow": "Disallow", "diasllow": "Disallow", "disallaw": "Disallow", "dissalllow": "Disallow", "disallows": "Disallow",
	"allows": "Allow", "site-map": "Sitemap", "sitemaps": "Sitemap", "crawldelay": "Crawl-delay",
}

// classOf returns the class of a field name in lower case; 0 if it is unknown.
func classOf(name string) int {
	if spelt[name] != "" {
		return fieldMisspelt
	}
	return robotsFields[name]
}

// A textLine is a line of a robots.txt.
type textLine struct {
	n    int // from 1
	text string
}

// lines yields the lines of a text, with any kind of line end.
func lines(text []byte) iter.Seq[textLine] {
	return func(yield func(textLine) bool) {
		for n := 1; len(text) > 0; n++ {
			line, next := text, len(text)
			if i := bytes.IndexAny(text, "\r\n"); i >= 0 {
				line, next = text[:i], i+1
				if bytes.HasPrefix(text[i:], []byte("\r\n")) {
					next++
				}
			}
			if !yield(textLine{n, string(line)}) {
				return
			}
			text = text[next:]
		}
	}
}

// field splits a line into name and value; ok is false if it has no colon outside a comment.
func (l textLine) field() (name, value string, ok bool) {
	s, _, _ := strings.Cut(l.text, "#")
	name, value, ok = strings.Cut(s, ":")
	return strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value), ok
}

func (l textLine) where() string { return fmt.Sprintf("line %d", l.n) }

// eg shows the line.
func (l textLine) eg() string { return fmt.Sprintf("%q in line %d", short(l.text), l.n) }

func (x *run) robotsText(ctx context.Context, d *document, r io.Reader) error {
	x.report.Kind = kindRobots
	text, err := io.ReadAll(io.LimitReader(r, robots.MaxBytes+1))
	if err != nil {
		return err
	}
	rest, err := io.Copy(io.Discard, r)
	if err != nil {
		return err
	}
	if d.bytes = int64(len(text)) + rest; d.bytes > robots.MaxBytes {
		x.violate("robots-too-long", d.place, "").bytes[0] = d.bytes
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	if bytes.IndexByte(text, 0) >= 0 || bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) {
		x.violate("robots-not-text", d.place, "it contains NUL bytes or a UTF-16 byte order mark")
		return nil
	}
	file := robots.Parse(text)
	x.robotsLines(text)
	if len(text) > 0 && !file.Allowed("*", "/") && !file.Allowed("*", "/index.html") && !file.Allowed("*", "/a/b?c") {
		x.violate("robots-forbids-all", d.place, "")
	}
	if delay := file.CrawlDelay("*"); delay > 10*time.Second {
		h := x.violate("robots-delay", d.place, delay.String())
		h.count = int(24 * time.Hour / delay)
	}
	return x.sitemapLines(ctx, d, file)
}

func (x *run) robotsLines(text []byte) {
	grouped := false
	for l := range lines(text[:min(len(text), robots.MaxBytes)]) {
		if s, _, _ := strings.Cut(l.text, "#"); strings.TrimSpace(s) == "" {
			continue
		}
		name, value, ok := l.field()
		if !ok {
			if words := strings.Fields(l.text); len(words) == 2 && classOf(strings.ToLower(words[0])) != 0 {
				h := x.violate("robots-misspelt", l.where(), l.eg())
				h.fixed = words[0] + ": " + short(words[1])
			} else {
				x.violate("robots-no-line", l.where(), l.eg())
			}
			continue
		}
		kind := classOf(name)
		switch {
		case kind == fieldMisspelt:
			x.violate("robots-misspelt", l.where(), l.eg()).fixed = spelt[name]
			name = strings.ToLower(spelt[name])
		case kind == 0 || kind == fieldLittle:
			x.violate("robots-unknown-line", l.where(), l.eg())
		}
		switch {
		case name == "user-agent":
			grouped = true
		case name == "crawl-delay":
			if _, err := strconv.ParseFloat(value, 64); err != nil || strings.Trim(value, "0123456789.") != "" {
				x.violate("bad-delay", l.where(), l.eg())
			}
		case robotsFields[name] == fieldRule && !grouped:
			x.violate("robots-no-group", l.where(), l.eg())
		case robotsFields[name] == fieldRule && strings.Contains(value, "://"):
			x.violate("robots-url-rule", l.where(), l.eg())
		case robotsFields[name] == fieldRule && value != "" && strings.IndexByte("/*$", value[0]) < 0:
			x.violate("robots-relative-rule", l.where(), l.eg())
		}
	}
}

// maxSitemapLines bounds the sitemaps of a robots.txt that are fetched.
const maxSitemapLines = 5

// sitemapLines checks the URLs of the Sitemap lines.
func (x *run) sitemapLines(ctx context.Context, d *document, file *robots.File) error {
	values := file.Lines("sitemap")
	if len(values) == 0 {
		x.violate("no-sitemap-line", d.place, "").fixed = "Sitemap: " + d.originOr("https://www.example.org") + "/sitemap.xml"
	}
	asked := 0
	for _, v := range values {
		url, err := protocol.CanonicalURL("", v)
		switch {
		case err != nil:
			x.violate("sitemap-relative", d.place, short(v))
			continue
		case d.url != "" && protocol.Origin(url) != d.origin():
			x.violate("sitemap-foreign", d.place, short(v))
			continue
		case !file.Allowed("*", url[len(protocol.Origin(url)):]):
			x.violate("sitemap-forbidden", d.place, short(v))
			continue
		}
		if x.fetcher == nil || d.url == "" || asked == maxSitemapLines || !file.Allowed(x.fetcher.client.Agent, url[len(protocol.Origin(url)):]) {
			continue
		}
		asked++
		ans, body, err := x.fetcher.get(ctx, askWait, url, nil)
		if err != nil {
			x.violate("sitemap-missing", d.place, short(v)+" ("+short(err.Error())+")")
			continue
		}
		body.Close()
		if ans.Status >= 400 {
			x.violate("sitemap-missing", d.place, short(v)+" ("+ans.Says()+")")
		}
	}
	return ctx.Err()
}
