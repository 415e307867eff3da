package manifest

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// rewrite returns the page parts, with the dirty ones, and those beside them whose borders move, written anew.
func (p *pass) rewrite(ctx context.Context, dirty []dirt) (out []pagePart, err error) {
	pages, begun, folded := p.now.pages, time.Now(), false
	for i := 0; i < len(pages); {
		late := dirty[i] == stale && folded && time.Since(begun) > foldTime
		if p.more = p.more || late; late || dirty[i] == clean {
			out = append(out, pages[i])
			i++
			continue
		}
		folded = true
		from, end, to := pages[i].First, i+1, ""
		for end < len(pages) && !p.s.begins(pages[end].First) {
			end++
		}
		if end < len(pages) {
			to = pages[end].First
		}
		// Without the item that began it the part belongs to the one before.
		for len(out) > 0 {
			first, ok, err := p.first(from, to)
			if err != nil {
				return nil, err
			}
			if !ok || p.s.begins(first) {
				break
			}
			from, out = out[len(out)-1].First, out[:len(out)-1]
		}
		if len(out) == 0 {
			from = "" // the first part has what comes before it, too
		}
		parts, err := p.cut(ctx, p.v.Between(from, to))
		if err != nil {
			return nil, err
		}
		out, i = append(out, parts...), end
	}
	return out, nil
}

func (p *pass) first(from, to string) (string, bool, error) {
	for e, err := range p.v.Between(from, to) {
		return e.Item.URL, err == nil, err
	}
	return "", false, nil
}

// cut writes items as page parts.
func (p *pass) cut(ctx context.Context, entries iter.Seq2[journal.Entry, error]) (pages []pagePart, err error) {
	var list []protocol.Item
	size := 0
	end := func() error {
		if len(list) == 0 {
			return nil
		}
		part, err := p.put(list, nil)
		pages = append(pages, pagePart{First: list[0].URL, Part: part})
		list, size = list[:0], 0
		return cmp.Or(err, ctx.Err())
	}
	for e, err := range entries {
		it := e.Item
		switch {
		case err != nil:
			return nil, err
		case !p.s.isPublic(it.URL):
			if p.now.pages != nil {
				return nil, errRebuild // counts would differ
			}
			p.now.Unsure, p.gone = true, true
			continue
		}
		n := sizeOf(&it)
		if p.s.begins(it.URL) || len(list) == protocol.MaxPartItems || size+n > protocol.MaxPartBytes {
			if err := end(); err != nil {
				return nil, err
			}
		}
		list, size = append(list, it), size+n
	}
	return pages, end()
}

// sizeOf returns at least the bytes that an item has in a part.
func sizeOf(it *protocol.Item) int {
	text := func(s string) int {
		n := len(s)
		for i := range len(s) {
			if s[i] <= '>' && strings.IndexByte(`&<>"`, s[i]) >= 0 {
				n += 5
			}
		}
		return n
	}
	url := text(it.URL)
	n := 270 + 3*url + max(url, text(it.Title)) + 40 + text(it.Type)
	for _, p := range []struct {
		has  bool
		size int
	}{
		{it.Length >= 0, 60}, {!it.Digest.IsZero(), 90}, {!it.Text.IsZero(), 90}, {it.Language != "", 50 + len(it.Language)},
		{it.Canonical != "", 50 + text(it.Canonical)}, {it.Importance != 0, 60}} {
		if p.has {
			n += p.size
		}
	}
	return n
}
