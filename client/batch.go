package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/protocol"
)

const (
	bundlePatience = time.Minute // until the first byte of a bundle that the site has to make
	answeredPage   = 17 << 20    // upper bound of the bytes of a requested page in an answer
)

// MaxBundle is the largest bundle of changes, in bytes, uncompressed.
const MaxBundle = 4 << 30

// MaxWants is the most pages that one Batch requests, fewer than protocol allows.
const MaxWants = 1000

// A Want is a page to request, and the digest of the caller's stored copy: the zero Digest if there is none.
// A page that still has that digest is not sent.
type Want struct {
	URL  string
	Held protocol.Digest
}

// A Got is the site's answer to a Want.
type Got struct {
	Want Want

	// Change describes the page now: a Create or an Update with its Item, or a Delete. Its number means
	// nothing to a cursor.
	Change protocol.Change

	// Body is the page, checked against Change.Item.Digest. It is nil if the page is unchanged or gone, or
	// must be fetched by itself.
	Body []byte
}

// Same reports whether the page is still the stored one.
func (g *Got) Same() bool {
	return g.Change.Op != protocol.Delete && !g.Want.Held.IsZero() && g.Change.Item.Digest == g.Want.Held
}

// Batch requests many pages at once (C09), and yields the answers in the site's order, each wanted page at
// most once; a page that it does not yield must be fetched by itself. Of src only Base is needed. door is the
// site's Discovery.Batch. Wants beyond MaxWants are ignored.
//
// An error is the last thing that is yielded. It wraps io.ErrUnexpectedEOF if the answer was cut: the pages
// before it are complete. The iterator runs in the caller's goroutine, and closes the connection when the
// caller breaks.
func Batch(ctx context.Context, src *Source, door string, want []Want) iter.Seq2[Got, error] {
	return func(yield func(Got, error) bool) {
		f, err := newFetcher(src)
		if err == nil {
			defer f.close()
			err = f.batch(ctx, door, want[:min(len(want), MaxWants)], yield)
		}
		if err != nil && err != errStop {
			yield(Got{}, fmt.Errorf("fetch %d pages: %w", len(want), err))
		}
	}
}

func (f *fetcher) batch(ctx context.Context, ref string, want []Want, yield func(Got, error) bool) error {
	var q protocol.Question
	open := make(map[string]Want, len(want))
	for _, w := range want {
		if protocol.Origin(w.URL) != f.origin {
			return fmt.Errorf("%.200s is not a URL of %s", w.URL, f.origin)
		}
		if err := f.allowed(w.URL); err != nil {
			continue // not an error, but it must not be requested
		}
		if _, ok := open[w.URL]; ok {
			continue
		}
		open[w.URL] = w
		q.Pages = append(q.Pages, protocol.RequestedPage{URL: w.URL, Hash: w.Held})
	}
	if len(open) == 0 {
		return nil
	}
	say, err := json.Marshal(q)
	if err != nil {
		return err
	}
	resp, err := f.getBundle(ctx, ref, say)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	r, err := bundle.NewReader(io.Reader(resp.Body), bundle.Limits{Page: f.src.MaxPage, Total: max(MaxBundle, int64(len(want))*answeredPage), Changes: 2 * MaxWants})
	if err != nil {
		return err
	}
	defer r.Close()
	for page, err := range r.Pages() {
		if err != nil {
			return err
		}
		kept, _, _ := f.local([]protocol.Change{page.Change}, nil)
		if len(kept) == 0 {
			continue
		}
		w, ok := open[kept[0].Item.URL]
		if !ok {
			continue // not requested
		}
		delete(open, w.URL)
		if !yield(Got{Want: w, Change: kept[0], Body: page.Body}, nil) {
			return errStop
		}
	}
	return nil
}
