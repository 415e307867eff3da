package collection

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// A Selection selects what to export. The zero value means everything.
type Selection struct {
	Prefix string // prefix of the URLs; an origin for a site
	Since  time.Time
	Until  time.Time // fetched before this time; the zero time: no end

	// Newest omits content that is no longer current: older versions, and pages that are gone.
	Newest bool

	States []State // of pages, for URL lists; none means all
}

func (s *Selection) when(t time.Time) bool {
	return !t.Before(s.Since) && (s.Until.IsZero() || t.Before(s.Until))
}

// ExportURLs writes the URLs of pages, one per line, in the order in which they were found, and returns
// their number. Sites that are Withheld are left out. Since and Until apply to the times at which pages were found.
func (c *Collection) ExportURLs(ctx context.Context, w io.Writer, s Selection) (n int, err error) {
	logWithheld(c, s.Prefix)
	defer func() {
		if err != nil {
			err = fmt.Errorf("export urls: %w", err)
		}
	}()
	b := bufio.NewWriter(w)
	for p, err := range c.Pages(ctx) {
		if err != nil {
			return n, err
		}
		if !strings.HasPrefix(p.URL, s.Prefix) || c.withheld(p.Site) || !s.when(p.Found) || s.Newest && !p.has() || len(s.States) > 0 && !slices.Contains(s.States, p.State) {
			continue
		}
		n++
		b.WriteString(p.URL)
		if err := b.WriteByte('\n'); err != nil {
			return n, err
		}
	}
	return n, b.Flush()
}

// ExportWARC writes captures into new archives in a directory, compressed by a coding ("", "gzip" or
// "zstd"), and returns their number. For a collection without archives it makes them from the mirror. The
// directory must not have archives yet, and nothing else may write to it. It may run while the crawler does.
//
// Sites that are Withheld are left out, and logged. Damaged and lost records are skipped: all that can be
// read is exported, and the error at the end says how many could not.
func (c *Collection) ExportWARC(ctx context.Context, dir, coding string, s Selection) (n int, err error) {
	err = warc.Each(dir, warc.Place{}, func(name string, _ *warc.Reader) error {
		return fmt.Errorf("%s holds archives already, such as %s: choose another directory", dir, name)
	})
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	w, err := warc.OpenWriter(dir, &warc.Options{Coding: coding, MaxBytes: c.opts.MaxWARC, Now: c.opts.Now, Info: info(c.opts.Info)})
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	x := exporter{c: c, w: w, s: s}
	logWithheld(c, s.Prefix)
	end, archived := c.sinks.store.Synced(), c.opts.Contents&WARC != 0
	if c.opts.ReadOnly { // then the Contents of the crawl are not known
		end, archived = parseMark(c.sinks.committed)
	}
	if !archived || s.Newest {
		err = x.held(ctx)
	} else {
		err = x.all(ctx, end)
	}
	if err == nil {
		err = w.Rotate()
	}
	if err = errors.Join(err, w.Close()); err == nil && x.damaged > 0 {
		err = fmt.Errorf("%d records written, but %d could not be read, the first: %w", x.n, x.damaged, x.first)
	}
	if err != nil {
		return x.n, fmt.Errorf("export: %w", err)
	}
	return x.n, nil
}

// logWithheld logs which sites an export leaves out.
func logWithheld(c *Collection, prefix string) {
	for site := range c.Sites() {
		if site.Withheld && strings.HasPrefix(site.Origin, protocol.Origin(prefix)) {
			c.opts.Log.Warn("a site is not exported, since it was fetched with cookies or a client certificate", "site", site.Origin)
		}
	}
}

// An exporter copies records, and counts them.
type exporter struct {
	c *Collection
	w *warc.Writer
	s Selection

	n, damaged int
	first      error // of the first damaged record
}

// has reports whether pages with a URL are exported.
func (x *exporter) has(url string) bool {
	if !strings.HasPrefix(url, x.s.Prefix) {
		return false
	}
	site, _ := x.c.Site(protocol.Origin(url))
	return !site.Withheld
}

// pass counts a record that cannot be read.
func (x *exporter) pass(err error) {
	if x.damaged++; x.first == nil {
		x.first = err
	}
}

// held writes the present content of pages.
func (x *exporter) held(ctx context.Context) error {
	for p, err := range x.c.Pages(ctx) {
		if err != nil {
			return err
		}
		if !p.has() || p.Stored.File == "" || !x.has(p.URL) {
			continue
		}
		capture, err := x.captureOf(&p)
		if err != nil {
			x.pass(fmt.Errorf("%s: %w", p.URL, err))
			continue
		}
		if err := x.write(capture); err != nil {
			return err
		}
	}
	return nil
}

// write writes a capture, if it is not nil.
func (x *exporter) write(capture *warc.Capture) (err error) {
	switch {
	case capture == nil || capture.Authorized: // the mark of its site may be lost, with a state that was restored
		return nil
	case capture.Of == nil:
		_, err = x.w.Response(capture)
	default:
		_, err = x.w.Revisit(capture)
	}
	if err == nil {
		x.n++
	}
	return err
}

// at reads the record at a place.
func (x *exporter) at(place warc.Place) (capture *warc.Capture, err error) {
	r, err := x.c.sinks.store.Record(place)
	if err == nil {
		defer r.Close()
		capture, err = captureIn(r.Record)
	}
	if err != nil {
		return nil, x.c.sinks.store.Damage(place, err)
	}
	return capture, nil
}

// captureOf reads the present content of a page, nil if it is not selected.
func (x *exporter) captureOf(p *Page) (*warc.Capture, error) {
	if place, ok := contents.Archived(p.Stored); ok {
		capture, err := x.at(place)
		if err != nil {
			return nil, err
		}
		if capture.URL != p.URL {
			err = x.answerOf(p, capture)
		}
		if err != nil || !x.s.when(capture.Date) {
			return nil, err
		}
		return capture, nil
	}
	if !x.s.when(p.Last) {
		return nil, nil
	}
	content, err := x.c.sinks.store.Body(p.Stored)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	body, err := io.ReadAll(content)
	if err != nil {
		return nil, err
	}
	h := map[string][]string{}
	for name, value := range map[string]string{"Content-Type": p.Type, "Etag": p.ETag, "Last-Modified": p.LastModified} {
		if value != "" {
			h[name] = []string{value}
		}
	}
	return &warc.Capture{URL: p.URL, Date: p.Last, Status: 200, Header: h, Body: body, Digest: sha256.Sum256(body), Type: p.Type}, nil
}

// all writes every capture of the archives up to their end.
func (x *exporter) all(ctx context.Context, end warc.Place) error {
	return warc.Each(filepath.Join(x.c.dir, contents.WARCDir), end, func(name string, r *warc.Reader) error {
		last := int64(-1) // offset of a skipped record: the Reader may report its damage again
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			rec, err := r.Next()
			var d *warc.Damage
			switch {
			case err == io.EOF:
				return nil
			case errors.As(err, &d):
				if d.Offset != last {
					x.pass(x.c.sinks.store.Damage(warc.Place{File: name, Offset: d.Offset}, err))
				}
				continue
			case err != nil:
				return fmt.Errorf("%s: %w", name, err)
			}
			if t := rec.Type(); t != warc.Response && t != warc.Revisit || !x.has(rec.URL()) || !x.s.when(rec.Date()) {
				continue
			}
			capture, err := captureIn(rec)
			if err != nil {
				last = rec.Offset
				x.pass(x.c.sinks.store.Damage(warc.Place{File: name, Offset: rec.Offset}, err))
				continue
			}
			if err := x.complete(capture); err != nil {
				x.pass(fmt.Errorf("%s of %s: %w", capture.URL, capture.Date.Format(time.RFC3339), err))
				continue
			}
			if err := x.write(capture); err != nil {
				return err
			}
		}
	})
}

// maxExported bounds a body, in bytes: no crawler stores a larger one.
const maxExported = 1 << 30

// complete adds the body to a capture that repeats one of another URL, if that is not exported.
func (x *exporter) complete(capture *warc.Capture) error {
	of := capture.Of
	if of == nil || of.URL == "" || of.URL == capture.URL || x.has(of.URL) {
		return nil
	}
	e := warc.Entry{URL: capture.URL, Date: capture.Date, Digest: of.Digest}
	place, ok := contents.Archived(x.c.sinks.store.Original(&e, of.URL))
	if !ok {
		return fmt.Errorf("its body is stored in a record of %s, which was not found", of.URL)
	}
	original, err := x.at(place)
	if err != nil {
		return err
	}
	if original.Authorized {
		return errors.New("its body is stored in a record that is not to be given to others")
	}
	if original.Digest != of.Digest {
		return errors.New("its body does not match its digest")
	}
	capture.Body, capture.Digest, capture.Of = original.Body, original.Digest, nil
	return nil
}

// answerOf turns a capture from the record of another URL into that of a page whose own record refers to it.
func (x *exporter) answerOf(p *Page, capture *warc.Capture) error {
	capture.URL = p.URL
	r, err := x.c.sinks.store.Own(p.URL, p.Stored)
	if err != nil || r == nil {
		return err
	}
	defer r.Close()
	own, err := captureIn(r.Record)
	if err != nil {
		return err
	}
	capture.Date, capture.IP, capture.Proto, capture.Status, capture.Header, capture.Type = own.Date, own.IP, own.Proto, own.Status, own.Header, own.Type
	capture.Authorized = capture.Authorized || own.Authorized
	return nil
}

// captureIn reads a response or revisit record.
func captureIn(rec *warc.Record) (*warc.Capture, error) {
	t, date := rec.Type(), rec.Date()
	m, err := warc.ReadMessage(rec.Body)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(m.Body, maxExported))
	if err != nil {
		return nil, err
	}
	capture := &warc.Capture{URL: rec.URL(), Date: date, Proto: m.Proto, Status: m.Status, Header: m.Header, Body: body,
		Cut: t == warc.Response && rec.Fields.Get("WARC-Truncated") != "", Authorized: rec.Authorized()}
	capture.Type, _, _ = strings.Cut(m.Header.Get("Content-Type"), ";")
	capture.IP, _ = netip.ParseAddr(rec.Fields.Get("WARC-IP-Address"))
	if rec.Fields.Get("WARC-Protocol") == "h2" {
		capture.Proto = "HTTP/2.0"
	}
	digest, stated := warc.ParseDigest(rec.Fields.Get("WARC-Payload-Digest"))
	if t == warc.Response {
		// In uncompressed records nothing else shows damage.
		if capture.Digest = sha256.Sum256(body); stated && capture.Digest != digest {
			return nil, errors.New("the body does not match its digest")
		}
		return capture, nil
	}
	capture.Body, capture.Of = nil, &warc.Original{URL: rec.Fields.Get("WARC-Refers-To-Target-URI"), Digest: digest}
	capture.Of.Date, _ = time.Parse(time.RFC3339Nano, rec.Fields.Get("WARC-Refers-To-Date"))
	return capture, nil
}
