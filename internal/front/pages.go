package front

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/parleyweb/parley/protocol"
)

// Pages fetches the site's manifest and returns its pages, in its order, as slashed paths below the docroot.
// It is an error if there is none yet.
func (f *Front) Pages(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.Base+"robots.rdf", nil)
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
	var pages []string
	for r := protocol.NewManifestReader(resp.Body, protocol.ManifestOptions{URL: req.URL.String()}); ; {
		rec, err := r.Next()
		switch {
		case err == io.EOF:
			return pages, nil
		case err != nil:
			return nil, err
		case rec.Gone == nil:
			pages = append(pages, f.Page(rec.Item.URL))
		}
	}
}
