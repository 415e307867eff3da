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
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/warc"
)

// A Selection says what is to be exported. The zero value means everything.
type Selection struct {
	Prefix string // URLs that begin with it; an origin for a site
	Since  time.Time
	Until  time.Time // what was asked for before it; the zero time: no end

	// Newest leaves out what is not held any more: older versions, and pages
	// that are gone.
	Newest bool

	States []State // of pages, for URL lists; none means all
}

func (s *Selection) when(t time.Time) bool {
	return !t.Before(s.Since) && (s.Until.IsZero() || t.Before(s.Until))
}

// ExportURLs writes the URLs of pages, one a line, in the order in which they
// were found, and returns how many. Times are those at which pages were found.
func (c *Collection) ExportURLs(ctx context.Context, w io.Writer, s Selection) (n int, err error) {
	b := bufio.NewWriter(w)
	for p, err := range c.Pages(ctx) {
		if err != nil {
			return n, fmt.Errorf("export urls: %w", err)
		}
		if !strings.HasPrefix(p.URL, s.Prefix) || !s.when(p.Found) || s.Newest && !p.has() || !wanted(s.States, p.State) {
			continue
		}
		n++
		b.WriteString(p.URL)
		if err := b.WriteByte('\n'); err != nil {
			return n, fmt.Errorf("export urls: %w", err)
		}
	}
	if err := b.Flush(); err != nil {
		return n, fmt.Errorf("export urls: %w", err)
	}
	return n, nil
}

func wanted(states []State, state State) bool {
	for _, s := range states {
		if s == state {
			return true
		}
	}
	return len(states) == 0
}

// ExportWARC writes captures into archives of their own in a directory, in a
// coding ("", "gzip" or "zstd"), and returns how many. Of a collection without
// archives it makes them of what the mirror holds. Nothing else may write to
// the directory. It may be used beside the crawler.
func (c *Collection) ExportWARC(ctx context.Context, dir, coding string, s Selection) (n int, err error) {
	w, err := warc.OpenWriter(dir, &warc.Options{Coding: coding, MaxBytes: c.opts.MaxWARC, Now: c.opts.Now, Info: info(c.opts.Info)})
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	if c.opts.Contents&WARC == 0 || s.Newest {
		n, err = c.exportHeld(ctx, w, s)
	} else {
		n, err = c.exportAll(ctx, w, s)
	}
	if err == nil {
		err = w.Rotate()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return n, fmt.Errorf("export: %w", err)
	}
	return n, nil
}

// exportHeld writes what pages hold now.
func (c *Collection) exportHeld(ctx context.Context, w *warc.Writer, s Selection) (n int, err error) {
	for p, err := range c.Pages(ctx) {
		if err != nil {
			return n, err
		}
		if !p.has() || p.Stored.File == "" || !strings.HasPrefix(p.URL, s.Prefix) {
			continue
		}
		if place, ok := archived(p.Stored); ok {
			var one int
			if one, err = c.exportRecord(w, place, s); err != nil {
				return n, fmt.Errorf("%s: %w", p.URL, err)
			}
			n += one
			continue
		}
		if !s.when(p.Last) {
			continue
		}
		if err := c.exportFile(w, &p); err != nil {
			return n, fmt.Errorf("%s: %w", p.URL, err)
		}
		n++
	}
	return n, nil
}

func (c *Collection) exportFile(w *warc.Writer, p *Page) error {
	content, err := c.Body(p.Stored)
	if err != nil {
		return err
	}
	defer content.Close()
	body, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	h := map[string][]string{}
	for name, value := range map[string]string{"Content-Type": p.Type, "Etag": p.ETag, "Last-Modified": p.LastModified} {
		if value != "" {
			h[name] = []string{value}
		}
	}
	_, err = w.Response(&warc.Capture{URL: p.URL, Date: p.Last, Status: 200, Header: h, Body: body, Digest: sha256.Sum256(body), Type: p.Type})
	return err
}

func (c *Collection) exportRecord(w *warc.Writer, place warc.Place, s Selection) (int, error) {
	r, err := warc.Open(filepath.Join(c.dir, warcDir), place)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return export(w, r.Record, s)
}

// exportAll writes every capture that the archives have. Damage is passed
// over: what is whole is exported, and the damage is the error.
func (c *Collection) exportAll(ctx context.Context, w *warc.Writer, s Selection) (n int, err error) {
	var damages []error
	var end warc.Place
	if c.contents.archive != nil {
		end = c.contents.archive.Synced()
	}
	err = warc.Each(filepath.Join(c.dir, warcDir), end, func(name string, r *warc.Reader) error {
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
				if len(damages) < 10 {
					damages = append(damages, fmt.Errorf("%s: %w", name, err))
				}
				continue
			case err != nil:
				return fmt.Errorf("%s: %w", name, err)
			}
			one, err := export(w, rec, s)
			if err != nil {
				return fmt.Errorf("%s: record at %d: %w", name, rec.Offset, err)
			}
			n += one
		}
	})
	return n, errors.Join(append(damages, err)...)
}

// maxExported bounds a body, in bytes: no crawler stores such.
const maxExported = 1 << 30

// export writes a record again if it is selected, and returns how many that is.
func export(w *warc.Writer, rec *warc.Record, s Selection) (int, error) {
	t, date := rec.Type(), rec.Date()
	if t != warc.Response && t != warc.Revisit || !strings.HasPrefix(rec.URL(), s.Prefix) || !s.when(date) {
		return 0, nil
	}
	m, err := warc.ReadMessage(rec.Body)
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(io.LimitReader(m.Body, maxExported))
	if err != nil {
		return 0, err
	}
	capture := &warc.Capture{URL: rec.URL(), Date: date, Proto: m.Proto, Status: m.Status, Header: m.Header, Body: body,
		Cut: t == warc.Response && rec.Fields.Get("WARC-Truncated") != ""}
	capture.Type, _, _ = strings.Cut(m.Header.Get("Content-Type"), ";")
	capture.IP, _ = netip.ParseAddr(rec.Fields.Get("WARC-IP-Address"))
	if rec.Fields.Get("WARC-Protocol") == "h2" {
		capture.Proto = "HTTP/2.0"
	}
	if t == warc.Response {
		capture.Digest = sha256.Sum256(body)
		_, err = w.Response(capture)
		return 1, err
	}
	digest, _ := warc.ParseDigest(rec.Fields.Get("WARC-Payload-Digest"))
	capture.Body, capture.Of = nil, &warc.Original{URL: rec.Fields.Get("WARC-Refers-To-Target-URI"), Digest: digest}
	capture.Of.Date, _ = time.Parse(time.RFC3339Nano, rec.Fields.Get("WARC-Refers-To-Date"))
	_, err = w.Revisit(capture)
	return 1, err
}
