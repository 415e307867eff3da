package evidence

import (
	"context"
	"fmt"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

// Gate returns pages, restricted to bytes that an anonymous GET has shown: other
// changes are sent without bytes. Every door that sends bytes must use it.
func (k *Keeper) Gate(pages content.Pages) content.Pages { return gate{pages, k} }

type gate struct {
	pages content.Pages
	k     *Keeper
}

var _ content.Pages = gate{}

// askedWait is how long a reader waits for the fetch of an edited page.
const askedWait = time.Second

// opens returns an error, which begins with what is wanted, and wraps content.ErrNoVersion, if the bytes of a page must
// not be sent. If the page was just edited and its fetch is pending, it waits for that.
func (g gate) opens(ctx context.Context, what string, item *protocol.Item) error {
	page, d := item.URL, item.Digest
	if g.k.shown(page, d) {
		return nil
	}
	if asked := g.k.todo.wait(page); asked != nil {
		t := time.NewTimer(askedWait)
		defer t.Stop()
		select {
		case <-asked:
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("%s %s: %w", what, page, ctx.Err())
		}
		if g.k.shown(page, d) {
			return nil
		}
	} else if g.k.Rate > 0 {
		g.k.todo.want(page)
	}
	return fmt.Errorf("%s %s: the web server has not served these bytes to anonymous clients: %w", what, page, content.ErrNoVersion)
}

// Page implements [content.Pages].
func (g gate) Page(ctx context.Context, item *protocol.Item, max int64) ([]byte, error) {
	if err := g.opens(ctx, "page", item); err != nil {
		return nil, err
	}
	return g.pages.Page(ctx, item, max)
}

// Delta implements [content.Pages].
func (g gate) Delta(ctx context.Context, item *protocol.Item, base protocol.Digest) ([]byte, error) {
	if err := g.opens(ctx, "difference of", item); err != nil {
		return nil, err
	}
	return g.pages.Delta(ctx, item, base)
}

// Present implements [content.Pages].
func (g gate) Present(item *protocol.Item) bool {
	return g.k.shown(item.URL, item.Digest) && g.pages.Present(item)
}

// Version implements [content.Pages]. Programs, too, see only bytes that an anonymous
// GET has shown.
func (g gate) Version(ctx context.Context, item *protocol.Item, max int64) ([]byte, error) {
	if err := g.opens(ctx, "version of", item); err != nil {
		return nil, err
	}
	return g.pages.Version(ctx, item, max)
}
