package crawl

import (
	"io"
	"net/http"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/equal"
	"github.com/parleyweb/parley/protocol"
)

// equalCopies store pages without a request, whose content is stored of another page.
type equalCopies struct {
	c      *setup
	work   *work
	in     *inbox
	pages  *equal.Pages // guarded by the work's lock
	reader *pageReader
}

// An equalPair is a page, and a stored one with the same body.
type equalPair struct{ page, held collection.Page }

// copyAll copies bodies from equal pages. A page is fetched instead if the stored body is missing, or has
// another digest.
func (q *equalCopies) copyAll(list []equalPair) {
	work := q.work
	var same protocol.Digest // of the body that was read last
	var body []byte
	var header http.Header
	for len(list) > 0 {
		var got []delivery
		var lost []equalPair
		n, bytes := 0, 0
		for ; n < len(list) && n < commitSize && bytes <= commitBytes; n++ {
			x := &list[n]
			if x.held.Digest != same {
				if body, header = q.bodyOf(&x.held); body == nil {
					same = protocol.Digest{}
					lost = append(lost, *x)
					continue
				}
				same = x.held.Digest
			}
			bytes += len(body)
			got = append(got, delivery{page: x.page, header: header, body: body})
		}
		list = list[n:]
		if len(lost) > 0 {
			again := result{busy: len(lost)}
			work.Lock()
			for i := range lost {
				q.pages.Lost(&lost[i].page)
				again.again = append(again.again, lost[i].page.ID)
			}
			work.Unlock()
			if !q.in.Put(again) {
				return
			}
		}
		if err := q.reader.deliver(got); err != nil {
			if work.ctx.Err() == nil {
				work.fail(err)
			}
			return
		}
		work.Lock()
		q.pages.Copy(-n)
		work.Unlock()
		work.rouse()
	}
}

// bodyOf reads the stored body of a page, with the headers that describe it; nil if it is missing or has another digest.
func (q *equalCopies) bodyOf(p *collection.Page) ([]byte, http.Header) {
	c, err := q.c.Collection.Contents().Content(p.URL, p.Stored)
	if err != nil {
		q.c.Log.Debug("cannot read the content of an equal page", "url", p.URL, "err", err)
		return nil, nil
	}
	defer c.Close()
	body, err := io.ReadAll(io.LimitReader(c, q.c.mostBytes+1))
	if err != nil || protocol.Sum(body) != p.Digest {
		q.c.Log.Debug("the content of an equal page has changed", "url", p.URL, "err", err)
		return nil, nil
	}
	h := headerOf(&protocol.Item{Type: p.Type}, protocol.AsMeta)
	for _, name := range []string{"Content-Type", "Content-Language", "X-Robots-Tag"} {
		if v := c.Header.Values(name); len(v) > 0 {
			h[name] = v
		}
	}
	return body, h
}
