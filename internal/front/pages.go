package front

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/parleyweb/parley/protocol"
)

// Pages fetches the site's manifest and returns its pages, in its order, as slashed paths below the docroot.
// It is an error if there is none yet.
func (f *Front) Pages(ctx context.Context) (pages []string, err error) {
	b, err := get(ctx, f.Base+"robots.rdf")
	if err != nil {
		return nil, err
	}
	r := protocol.NewManifestReader(bytes.NewReader(b), protocol.ManifestOptions{URL: f.Base + "robots.rdf"})
	for {
		rec, err := r.Next()
		switch {
		case err == io.EOF && r.Head().Whole != nil:
			return f.partedPages(ctx, r.Head().Whole)
		case err == io.EOF:
			return pages, nil
		case err != nil:
			return nil, err
		case rec.Gone == nil:
			pages = append(pages, f.Page(rec.Item.URL))
		}
	}
}

// partedPages returns the pages of a manifest in parts.
func (f *Front) partedPages(ctx context.Context, w *protocol.Whole) (pages []string, err error) {
	open := func(p *protocol.Part) ([]byte, error) { return get(ctx, p.URL) }
	for rec, err := range w.Snapshot(open, protocol.ManifestOptions{}) {
		if err != nil {
			return nil, err
		}
		pages = append(pages, f.Page(rec.Item.URL))
	}
	return pages, nil
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New("manifest: " + resp.Status)
	}
	return io.ReadAll(resp.Body)
}
