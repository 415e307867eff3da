package forms

import (
	"time"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/server/inventory"
)

// Features reads what a page declares of itself, as Site.Features of package server does.
type Features = func(url string, page []byte, whole bool) (inventory.Features, error)

// ReadFeatures returns a Features that also digests the main text without what the masks match. The text of a
// truncated page is not digested, since it is incomplete.
func ReadFeatures(masks maintext.Masks) Features {
	return func(pageURL string, page []byte, whole bool) (inventory.Features, error) {
		p := html.Read(pageURL, page, html.Options{Text: whole})
		f := inventory.Features{Title: p.Title, NoIndex: p.NoIndex || html.Expired(p.UnavailableAfter, time.Now()), UnavailableAfter: p.UnavailableAfter, Language: p.Language, Canonical: p.Canonical}
		if whole {
			f.Text, f.Sketch = masks.Read(p.Text)
		}
		return f, nil
	}
}
