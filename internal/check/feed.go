package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/feed"
	"github.com/parleyweb/parley/internal/xmlpull"
	"github.com/parleyweb/parley/protocol"
)

func (x *run) feed(ctx context.Context, d *document, r io.Reader) error {
	x.report.Kind = kindFeed
	text, err := io.ReadAll(io.LimitReader(r, feed.MaxBytes+1))
	if err != nil {
		return err
	}
	d.bytes = int64(len(text))
	if kind := bytes.TrimSpace(text); len(kind) > 0 && kind[0] == '{' && !bytes.Contains(kind, []byte(`"items"`)) {
		return errUnknown{"JSON, but not a JSON Feed"}
	}
	f, err := feed.Read(bytes.NewReader(text), feed.Options{URL: d.url})
	strict := x.feedText(text)
	switch {
	case errors.Is(err, feed.ErrHTML):
		return errHTML
	case errors.Is(err, feed.ErrOther):
		return errUnknown{"not RSS, Atom or JSON Feed"}
	case errors.Is(err, feed.ErrLimit):
		return fmt.Errorf("%w: %w", errLimit, err)
	case strict != nil:
		err = strict // this error has the line
	}
	if f.Kind != "" && !d.part {
		x.report.Kind = kindFeed + ", " + f.Kind
	}
	for _, e := range f.Entries {
		if e.Op == protocol.Delete {
			x.gone.add(e.URL)
			continue
		}
		x.entry(ctx, d, entry{url: e.URL, modified: e.Modified, span: e.Span, length: -1})
	}
	if err != nil {
		return err
	}
	if len(f.Entries) == 0 {
		x.violate("no-entries", d.place, "")
	}
	if d.url != "" && f.Self != "" && f.Self != d.url {
		x.violate("feed-self", d.place, short(f.Self))
	}
	x.judge(d)
	return nil
}

// feedText checks a feed as XML: whether it is well-formed, how its dates are
// written, and whether it has the ids that Atom requires. It accepts a document type and other encodings than UTF-8: old feeds have
// them, and feed readers accept them.
func (x *run) feedText(text []byte) error {
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	switch encoding := encodingOf(text); {
	case !bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")), bytes.IndexByte(text, 0) >= 0,
		bytes.Contains(text[:min(len(text), 4096)], []byte("<!DOCTYPE")):
		return nil
	case strings.HasPrefix(encoding, "iso-8859-"), strings.HasPrefix(encoding, "windows-125"):
		text = asciiOnly(text)
	case encoding != "utf-8":
		return nil
	}
	p := xmlpull.NewReader(bytes.NewReader(text), xmlpull.Limits{Depth: 200})
	var ids []bool // of the feed, entry and source that are open: whether it has an id
	for {
		k, err := p.Next()
		if err == io.EOF || errors.Is(err, xmlpull.ErrLimit) {
			return nil
		} else if err != nil {
			return err
		}
		local, atom := string(p.Local()), string(p.Space()) == nsAtom
		if atom && k != xmlpull.Text && (local == "feed" || local == "entry" || local == "source") {
			if k == xmlpull.Start {
				ids = append(ids, false)
				continue
			}
			last := len(ids) - 1
			if !ids[last] && local != "source" {
				line := p.Line()
				x.violate("no-atom-id", fmt.Sprintf("line %d", line), fmt.Sprintf("the %s that ends in line %d", local, line))
			}
			ids = ids[:last]
		}
		if k != xmlpull.Start {
			continue
		}
		id := atom && local == "id" && len(ids) > 0
		read := feedDates[local]
		if local == "date" && string(p.Space()) == nsDC {
			read = isW3CDate
		}
		if read == nil && !id {
			continue
		}
		line := p.Line()
		value, err := p.Content(nil)
		if err != nil {
			if errors.Is(err, xmlpull.ErrLimit) {
				return nil
			}
			return err
		}
		switch s := strings.TrimSpace(string(value)); {
		case id:
			ids[len(ids)-1] = s != ""
		case s != "" && !read(s):
			x.violate("bad-date", fmt.Sprintf("line %d", line), fmt.Sprintf("%q in line %d", short(s), line))
		}
	}
}

// encodingOf returns the encoding that an XML declaration names, in lower case; "utf-8" if none.
func encodingOf(text []byte) string {
	decl, _, ok := bytes.Cut(text[:min(len(text), 1024)], []byte("?>"))
	if _, name, found := bytes.Cut(decl, []byte("encoding")); ok && found && bytes.HasPrefix(decl, []byte("<?xml")) {
		name = bytes.TrimLeft(name, " \t\r\n=\"'")
		if i := bytes.IndexAny(name, "\"'"); i >= 0 {
			return strings.ToLower(string(name[:i]))
		}
	}
	return "utf-8"
}

// asciiOnly returns a text without its declaration, and with each non-ASCII byte
// replaced, so that only its markup is checked.
func asciiOnly(text []byte) []byte {
	_, text, _ = bytes.Cut(text, []byte("?>"))
	text = bytes.Clone(text)
	for i, c := range text {
		if c >= 0x80 {
			text[i] = '?'
		}
	}
	return text
}

// feedDates maps the elements that hold a date to the check of its format.
var feedDates = map[string]func(string) bool{
	"pubDate": isMailDate, "lastBuildDate": isMailDate,
	"updated": isW3CDate, "published": isW3CDate, "modified": isW3CDate, "issued": isW3CDate,
}

func isMailDate(s string) bool {
	if i := strings.LastIndexByte(s, ' '); i >= 0 && i == len(s)-2 && 'A' <= s[i+1] && s[i+1] <= 'Z' {
		s = s[:i] + " +0000" // a military zone: read as UTC (RFC 5322, 4.3)
	}
	_, err := mail.ParseDate(s)
	return err == nil
}

func isW3CDate(s string) bool {
	_, err := protocol.ParseDate(s)
	if err != nil {
		_, err = time.Parse(time.RFC3339Nano, s)
	}
	return err == nil
}
