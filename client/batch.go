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
	bundlePatience = time.Minute // until a site that makes a bundle says the first word
	answeredPage   = 17 << 20    // bytes that a page that is asked for by name has at most in an answer
)

// MaxBundle is how many bytes a bundle of changes may have, without its coding.
const MaxBundle = 4 << 30

// MaxWants is how many pages one Batch asks for at most, fewer than a question may name.
const MaxWants = 1000

// A Want is a page to ask for, and the digest of what is held of it: the zero
// Digest if nothing is. What is held is not sent.
type Want struct {
	URL  string
	Held protocol.Digest
}

// A Got is what a site answers to a Want.
type Got struct {
	Want Want

	// Change says what the page is now: a Create or an Update with its Item, or a
	// Delete. It has no number that means anything to a cursor.
	Change protocol.Change

	// Body is the page, whose digest is Change.Item.Digest, checked. It is nil if it
	// is the one that is held, if it is gone, and if it must be asked for by itself.
	Body []byte
}

// Same reports whether the page is what is held.
func (g *Got) Same() bool {
	return g.Change.Op != protocol.Delete && !g.Want.Held.IsZero() && g.Change.Item.Digest == g.Want.Held
}

// Batch asks a site for many pages in one request (C09), and yields what it
// answers in the site's order, each of the wanted at most once; what
// it does not yield must be asked for by itself. Only Base is needed of src. door is the
// site's, as Discovery.Batch says it. Of more than MaxWants only so many are asked for.
//
// An error is the last thing that is yielded. It wraps io.ErrUnexpectedEOF if
// the answer was cut: what came before is whole. The iterator runs in the caller's
// goroutine, and closes the connection when he breaks.
func Batch(ctx context.Context, src *Source, door string, want []Want) iter.Seq2[Got, error] {
	return func(yield func(Got, error) bool) {
		f, err := newFetcher(src)
		if err == nil {
			defer f.close()
			err = f.batch(ctx, door, want[:min(len(want), MaxWants)], yield)
		}
		if err != nil && err != errStop {
			yield(Got{}, fmt.Errorf("ask for %d pages: %w", len(want), err))
		}
	}
}

func (f *fetcher) batch(ctx context.Context, ref string, want []Want, yield func(Got, error) bool) error {
	var q protocol.Question
	open := make(map[string]Want, len(want))
	for _, w := range want {
		if protocol.Origin(w.URL) != f.origin {
			return fmt.Errorf("%.200s is not of %s", w.URL, f.origin)
		}
		if err := f.allowed(w.URL); err != nil {
			continue // it is nobody's fault but must not be asked for
		}
		if _, ok := open[w.URL]; ok {
			continue
		}
		open[w.URL] = w
		q.Pages = append(q.Pages, protocol.AskedPage{URL: w.URL, Hash: w.Held})
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
	r, err := bundle.NewReader(io.Reader(resp.Body), bundle.Limits{Page: f.maxPage, Total: max(f.maxBundle, int64(len(want))*answeredPage), Changes: 2 * MaxWants})
	if err != nil {
		return err
	}
	defer r.Close()
	for page, err := range r.Pages() {
		if err != nil {
			return err
		}
		kept, _, _ := local(f.base, []protocol.Change{page.Change}, nil)
		if len(kept) == 0 {
			continue
		}
		w, ok := open[kept[0].Item.URL]
		if !ok {
			continue // nobody has asked
		}
		delete(open, w.URL)
		if !yield(Got{Want: w, Change: kept[0], Body: page.Body}, nil) {
			return errStop
		}
	}
	return nil
}
