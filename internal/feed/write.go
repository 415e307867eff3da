package feed

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// WriteRSS writes RSS 2.0. Deletions are left out.
func WriteRSS(w io.Writer, f Feed) error {
	f = f.filled()
	x := xmlWriter{w: bufio.NewWriter(w)}
	x.raw(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom">` + "\n<channel>\n")
	x.element("title", f.Title)
	x.element("link", f.Home)
	x.element("description", markup(f.Description))
	x.date("lastBuildDate", f.Updated, rfc822)
	if f.Self != "" {
		x.link("atom:link", "self", typeRSS, f.Self)
	}
	if f.Hub != "" {
		x.link("atom:link", "hub", "", f.Hub)
	}
	for _, e := range f.Entries {
		if e.Op == protocol.Delete {
			continue
		}
		x.raw("<item>\n")
		x.element("title", e.Title)
		x.element("link", e.URL)
		if e.Summary != "" {
			x.element("description", markup(e.Summary))
		}
		x.raw(`<guid isPermaLink="` + strconv.FormatBool(e.ID == e.URL) + `">`)
		x.text(e.ID)
		x.raw("</guid>\n")
		x.date("pubDate", e.Modified, rfc822)
		x.raw("</item>\n")
	}
	x.raw("</channel>\n</rss>\n")
	return x.w.Flush()
}

// WriteAtom writes Atom, with a tombstone for each deletion. Atom requires a time for every entry: one
// without is left out.
func WriteAtom(w io.Writer, f Feed) error {
	f = f.filled()
	x := xmlWriter{w: bufio.NewWriter(w)}
	x.raw(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<feed xmlns="http://www.w3.org/2005/Atom" xmlns:at="http://purl.org/atompub/tombstones/1.0">` + "\n")
	x.element("id", cmp.Or(f.Self, f.Home))
	x.element("title", f.Title)
	x.element("subtitle", f.Description)
	updated := f.Updated
	if updated.IsZero() { // required, but no change is known
		updated = time.Unix(0, 0)
	}
	x.date("updated", updated, rfc3339)
	x.raw("<author>")
	x.element("name", f.Title)
	x.raw("</author>\n")
	x.link("link", "alternate", "", f.Home)
	if f.Self != "" {
		x.link("link", "self", typeAtom, f.Self)
	}
	if f.Hub != "" {
		x.link("link", "hub", "", f.Hub)
	}
	for _, e := range f.Entries {
		switch {
		case e.Modified.IsZero():
		case e.Op == protocol.Delete:
			x.raw(`<at:deleted-entry ref="`)
			x.text(e.ID)
			x.raw(`" when="` + rfc3339(e.Modified) + `"/>` + "\n")
		default:
			x.raw("<entry>\n")
			x.element("id", e.ID)
			x.element("title", e.Title)
			x.date("updated", e.Modified, rfc3339)
			x.link("link", "alternate", "", e.URL)
			if e.Summary != "" {
				x.element("summary", e.Summary)
			}
			x.raw("</entry>\n")
		}
	}
	x.raw("</feed>\n")
	return x.w.Flush()
}

// The objects of JSON Feed 1.1.
type (
	jsonFeed struct {
		Version     string     `json:"version"`
		Title       string     `json:"title"`
		Home        string     `json:"home_page_url,omitempty"`
		Self        string     `json:"feed_url,omitempty"`
		Description string     `json:"description,omitempty"`
		Hubs        []jsonHub  `json:"hubs,omitempty"`
		Items       []jsonItem `json:"items"`
	}
	jsonHub struct {
		Type string `json:"type"`
		URL  string `json:"url"`
	}
	jsonItem struct {
		ID       string `json:"id"`
		URL      string `json:"url"`
		Title    string `json:"title"`
		Content  string `json:"content_text"`
		Modified string `json:"date_modified,omitempty"`
	}
)

// WriteJSON writes JSON Feed 1.1. Deletions are left out.
func WriteJSON(w io.Writer, f Feed) error {
	f = f.filled()
	j := jsonFeed{Version: "https://jsonfeed.org/version/1.1", Title: f.Title, Home: f.Home, Self: f.Self,
		Description: f.Description, Items: []jsonItem{}}
	if f.Hub != "" {
		j.Hubs = []jsonHub{{"WebSub", f.Hub}}
	}
	for _, e := range f.Entries {
		if e.Op == protocol.Delete {
			continue
		}
		it := jsonItem{ID: e.ID, URL: e.URL, Title: e.Title, Content: cmp.Or(e.Summary, e.Title)} // content is required
		if !e.Modified.IsZero() {
			it.Modified = rfc3339(e.Modified)
		}
		j.Items = append(j.Items, it)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(j)
}

// filled returns the feed with clean texts, and with defaults for missing values.
func (f Feed) filled() Feed {
	f.Title = cmp.Or(clean(f.Title, maxTitle), f.Home)
	f.Description = cmp.Or(clean(f.Description, maxSummary), "What has changed at "+f.Home)
	entries := make([]Entry, len(f.Entries))
	for i, e := range f.Entries {
		e.Title, e.Summary = clean(e.Title, maxTitle), clean(e.Summary, maxSummary)
		if e.Title == "" {
			e.Title = e.URL
			if u, err := url.Parse(e.URL); err == nil {
				e.Title = clean(u.Path, maxTitle)
			}
		}
		e.ID = cmp.Or(e.ID, e.URL)
		if f.Updated.Before(e.Modified) {
			f.Updated = e.Modified
		}
		entries[i] = e
	}
	f.Entries = entries
	return f
}

func rfc822(t time.Time) string { return t.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT") }

func rfc3339(t time.Time) string { return protocol.FormatDate(t) }

// An xmlWriter ignores errors: its buffer keeps the first one.
type xmlWriter struct{ w *bufio.Writer }

func (x xmlWriter) raw(s string) { x.w.WriteString(s) }

// text writes clean text, escaped for content or an attribute.
func (x xmlWriter) text(s string) { xmlEscaper.WriteString(x.w, s) }

// Readers of RSS have taken titles for HTML after decoding the named entities of XML; they leave numeric ones
// (RSS Advisory Board, best practices).
var xmlEscaper = strings.NewReplacer("&", "&#38;", "<", "&#60;", ">", "&#62;", `"`, "&#34;")

func (x xmlWriter) element(name, text string) {
	x.raw("<" + name + ">")
	x.text(text)
	x.raw("</" + name + ">\n")
}

// date writes a time to the second, and nothing for the zero time.
func (x xmlWriter) date(name string, t time.Time, format func(time.Time) string) {
	if !t.IsZero() {
		x.element(name, format(t))
	}
}

func (x xmlWriter) link(name, rel, mediaType, href string) {
	x.raw("<" + name + ` rel="` + rel + `"`)
	if mediaType != "" {
		x.raw(` type="` + mediaType + `"`)
	}
	x.raw(` href="`)
	x.text(href)
	x.raw(`"/>` + "\n")
}

// markup returns a text as HTML, which RSS takes a description for.
func markup(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
