//go:build linux

package anysite

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// A giver reads what leaves a site by its doors, using only the specification in package protocol.
type giver struct {
	w        *world
	at       time.Time
	site, to string
}

// give records a page that left; a nil body means that only its URL did.
func (g *giver) give(door, ref string, body []byte) {
	u, err := url.Parse(g.site)
	if err != nil {
		return
	}
	if r, err := u.Parse(ref); err == nil {
		ref = r.String()
	}
	x := record.Given{At: g.at, Site: g.site, To: g.to, Door: door, URL: ref}
	if body != nil {
		x.Sum = g.w.keep(body)
	}
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.w.rec.Given = append(g.w.rec.Given, x)
}

// manifest records the URLs of a manifest.
func (g *giver) manifest(text []byte) {
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		t, err := d.Token()
		if err != nil {
			return
		}
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == "item" {
			for _, a := range e.Attr {
				if a.Name.Local == "about" {
					g.give("manifest", a.Value, nil)
				}
			}
		}
	}
}

// A change is one change of a message, with its body.
type change struct {
	Op, URL string
	Body    *struct {
		Enc, Text, B64, Base, Href string
	}
}

// message reads a message of the change list or of the stream.
func (g *giver) message(text []byte) {
	var m struct {
		T  string
		Ev []change
		change
	}
	if json.Unmarshal(text, &m) != nil {
		return
	}
	if m.T == "bundle" && m.Body != nil {
		if b, err := base64.StdEncoding.DecodeString(m.Body.B64); err == nil {
			g.warc("bundle", b)
		}
		return
	}
	if m.URL != "" {
		m.Ev = append(m.Ev, m.change)
	}
	last := map[string]string{} // the last operation on each page
	for _, c := range m.Ev {
		last[c.URL] = c.Op
	}
	for _, c := range m.Ev {
		switch {
		case c.Op == "delete":
		case (c.Body == nil || c.Body.Href != "") && last[c.URL] == "delete": // the page existed once
		case c.Body == nil, c.Body.Href != "":
			g.give("changes", c.URL, nil)
		case c.Body.Enc == "dcz":
			b, _ := base64.StdEncoding.DecodeString(c.Body.B64)
			g.delta("delta", c.URL, b)
		case c.Body.B64 != "":
			if b, err := base64.StdEncoding.DecodeString(c.Body.B64); err == nil {
				g.give("page", c.URL, b)
			}
		default:
			g.give("page", c.URL, []byte(c.Body.Text))
		}
	}
}

// delta decodes a delta (RFC 9842): 40 bytes that name the base, and a Zstandard frame. An unknown base was
// never shown.
func (g *giver) delta(door, ref string, b []byte) {
	if len(b) < 40 {
		return
	}
	g.w.mu.Lock()
	base, ok := g.w.rec.Bodies[hex.EncodeToString(b[8:40])]
	g.w.mu.Unlock()
	if !ok {
		return
	}
	d, err := zstd.NewReader(bytes.NewReader(b[40:]), zstd.WithDecoderDictRaw(0, base), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return
	}
	defer d.Close()
	if out, err := io.ReadAll(d); err == nil {
		g.give(door, ref, out)
	}
}

// warc records the pages of a WARC file.
func (g *giver) warc(door string, b []byte) {
	for _, r := range readWARC("", b) {
		if r.Type == "response" && r.Err == "" {
			g.give(door, r.URL, r.body)
		}
	}
}

// wacz records the pages of an archive of the whole site.
func (g *giver) wacz(b []byte) {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return
	}
	for _, f := range z.File {
		if !strings.HasPrefix(f.Name, "archive/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			continue
		}
		content, _ := io.ReadAll(r)
		r.Close()
		g.warc("archive", content)
	}
}
