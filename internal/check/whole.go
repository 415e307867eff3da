package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// errRecorded says that a part cannot be had, which was recorded.
var errRecorded = errors.New("recorded")

// parted reads the change parts of a manifest in parts and some of its page parts, spread over the site; of a file, all.
func (x *run) parted(ctx context.Context, d *document, index protocol.Manifest) error {
	w := index.Whole
	some, local := *w, d.url == "" && x.fetcher == nil
	if all := w.Parts; len(all) > maxParts && !local {
		some.Parts, some.Items = nil, 0
		for i := range maxParts {
			some.Parts = append(some.Parts, all[i*len(all)/maxParts])
		}
		x.violate("parts-unread", d.place, "").amount(len(all)-maxParts, len(all)+len(w.Changed))
	}
	tried, items := 0, 0
	open := func(p *protocol.Part) ([]byte, error) {
		tried++
		b, err := x.openPart(ctx, d, p, index.URL, local)
		x.report.Bytes += int64(len(b))
		return b, err
	}
	var err error
	for rec, bad := range some.Snapshot(open, protocol.ManifestOptions{MaxItems: maxEntries, MaxBytes: maxAnswer}) {
		if err = bad; err == nil {
			items++
			x.item(ctx, d, &rec.Item)
		}
	}
	x.outOf(tried, "part-missing")
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errRecorded), errors.Is(err, protocol.ErrTruncated) && len(some.Parts) < len(w.Parts): // the others have the rest
	case errors.Is(err, protocol.ErrPart):
		x.violate("part-differs", d.place, short(err.Error()))
	case errors.Is(err, protocol.ErrTruncated):
		x.violate("count", d.place, fmt.Sprintf("%s items, %s declared", number(items), number(w.Items)))
	default:
		return err
	}
	return nil
}

// openPart returns the content of a part of an index, from the directory of its file or from the Web.
func (x *run) openPart(ctx context.Context, d *document, p *protocol.Part, index string, local bool) ([]byte, error) {
	var in io.Reader
	if local {
		dir, _ := protocol.CanonicalURL(index, "./")
		name, err := neturl.PathUnescape(strings.TrimPrefix(p.URL, dir))
		if err != nil || !filepath.IsLocal(name) {
			return nil, fmt.Errorf("part %.200s: no name of a file", p.URL)
		}
		f, err := os.Open(filepath.Join(d.beside, name))
		if err != nil {
			x.violate("part-missing", d.place, name)
			return nil, errRecorded
		}
		defer f.Close()
		in = f
	} else if d.url != "" && !sameSite(d.url, p.URL) {
		x.violate("part-missing", d.place, p.URL+" (on another host)")
		return nil, errRecorded
	} else {
		ans, body := x.fetch(ctx, p.URL, true)
		if ans == nil {
			return nil, errRecorded
		}
		defer body.Close()
		in = body
	}
	z, err := coding.NewReader(pause.Reader(ctx, in))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return io.ReadAll(io.LimitReader(z, protocol.MaxPart+1))
}
