package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// An OfferError reports that a site does not offer a form, a door or a parameter of a filter, and lists what
// it offers; or that it refuses a filter or a program.
type OfferError struct {
	Base   string
	What   string // "form", "filter", "door" or "program"
	Asked  string
	Offers []string
	Err    error // why the site refuses something that it does offer
}

func (e *OfferError) Unwrap() error { return e.Err }

func (e *OfferError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s refuses the %s %s: %v", e.Base, e.What, e.Asked, e.Err)
	}
	has := "none"
	if len(e.Offers) > 0 {
		has = strings.Join(e.Offers, ", ")
	}
	return fmt.Sprintf("%s does not offer the %s %s; it offers %s", e.Base, e.What, e.Asked, has)
}

// Offers reports whether a site offers a form.
func Offers(d *protocol.Discovery, as protocol.Form) bool {
	return as == protocol.AsMeta || slices.Contains(d.Forms, as)
}

// A selection is what the caller wants: which changes after its position, and in which form, as far as the site
// offers that.
type selection struct {
	*fetcher
	pos        *position
	filter     protocol.Filter     // Source.Filter
	offer      *protocol.Discovery // nil: unknown, and not needed where As is AsMeta
	plainUntil time.Time           // until then the form is AsMeta
}

// learn reads the site's description once, if a form or a filter needs it.
func (w *selection) learn(ctx context.Context) error {
	if w.offer != nil || w.src.As == protocol.AsMeta && w.src.Choose == nil && w.filter.IsZero() || w.src.ManifestFirst && w.pos.resync {
		return nil
	}
	d, err := w.wellKnown(ctx)
	if err != nil && ctx.Err() == nil && isDefiniteAnswer(err) {
		d, err = w.pointed(ctx, err)
	}
	switch {
	case err == nil:
		w.pos.doors.set(d.Stream, d.Changes)
	case ctx.Err() == nil && isDefiniteAnswer(err):
		d = &protocol.Discovery{} // the site has no description but its manifest
	default:
		return err
	}
	w.offer = d
	if w.src.Choose == nil && !w.tells(w.src.As) {
		e := &OfferError{Base: w.base, What: "form", Asked: string(w.src.As)}
		if Offers(w.offer, w.src.As) {
			e.Asked += " for changes that a program selects"
		}
		for _, as := range protocol.Forms() {
			if w.tells(as) {
				e.Offers = append(e.Offers, string(as))
			}
		}
		return e
	}
	for name := range w.filter.Query() {
		if !slices.Contains(w.offer.Filters, name) {
			return &OfferError{Base: w.base, What: "filter", Asked: name, Offers: w.offer.Filters}
		}
	}
	return nil
}

// tells reports whether the site offers a form for the filter. Programs do not apply to bundles and archives.
func (w *selection) tells(as protocol.Form) bool {
	return Offers(w.offer, as) && (w.filter.Agent.IsZero() || as != protocol.AsBatch && as != protocol.AsSite)
}

// refused returns the error that ends Follow: the site does not offer what is requested, or refuses a part of
// the filter, or runs no program for the caller. It returns nil for a failure that may pass, such as a
// refusal by a proxy rather than by the site.
func (w *selection) refused(door Door, err error) *OfferError {
	var offer *OfferError
	status := statusOf(err)
	if errors.As(err, &offer) || status == nil {
		return offer
	}
	program := &OfferError{Base: w.base, What: "program", Asked: w.filter.Agent.String(), Err: status}
	switch status.Status {
	case http.StatusBadRequest:
		switch value := w.filter.Query().Get(status.Parameter); {
		case status.Parameter == "agent" && value != "":
			return program
		case value != "":
			return &OfferError{Base: w.base, What: "filter", Asked: status.Parameter + "=" + value, Err: status}
		}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity:
		if status.Title != "" && door != Manifest && !w.filter.Agent.IsZero() {
			return program
		}
	}
	return nil
}

// dropForm reports whether a request failed because of its form, which the site does not deliver after all:
// then another form is requested. The status is nil if the site answered with none.
func (w *selection) dropForm(door Door, status *StatusError) bool {
	if p := w.pos; p.resync && !p.noArchive && w.offer != nil && w.form() == protocol.AsSite {
		p.noArchive = true // the failed request was for an archive: use the manifest instead
		return true
	}
	if status != nil && status.Status == http.StatusBadRequest && door != Manifest && w.src.Choose != nil && w.form() != protocol.AsMeta {
		w.plainUntil = time.Now().Add(around(w.hurried(retryDoor)))
		w.offer = nil
		return true
	}
	return false
}

// dropContents counts the failures to read a bundle or an archive, and reports whether only metadata is
// requested for a while because of them: the changes alone may be readable, and each page by itself.
func (w *selection) dropContents(err error) bool {
	if broken := new(pieceError); !errors.As(err, &broken) {
		return false
	}
	n := &w.pos.doors.pieces
	if *n++; refuses(err) {
		*n = max(*n, maxFails)
	}
	now := time.Now()
	if *n < maxFails || w.form() == protocol.AsMeta {
		return false
	}
	plain := w.hurried(min(retryDoor<<min(*n-maxFails, 16), longestMeta))
	w.plainUntil = now.Add(around(plain))
	w.src.Log.Warn("changes are requested without page contents", "failures", *n, "for", plain)
	return true
}

// form returns the form of the next request.
func (w *selection) form() protocol.Form {
	switch {
	case time.Now().Before(w.plainUntil):
		return protocol.AsMeta
	case w.src.Choose == nil:
		return w.src.As
	case w.offer == nil:
		return protocol.AsMeta
	}
	if as := w.src.Choose(w.offer, w.pos.at()); w.tells(as) {
		return as
	}
	return protocol.AsMeta
}

// selecting adds to a door's URL the filter, the form and pairs: alternating names and values.
func (w *selection) selecting(as protocol.Form, ref string, pairs ...string) (string, error) {
	q := w.filter.Query()
	if as != protocol.AsMeta {
		q.Set("as", string(as))
	}
	if as == protocol.AsBatch {
		if s := int((w.src.BundleEvery + time.Second - 1) / time.Second); s > 0 {
			q.Set("every", strconv.Itoa(s))
		}
		if w.src.BundleCount > 0 {
			q.Set("count", strconv.Itoa(w.src.BundleCount))
		}
	}
	return withQuery(ref, q, pairs...)
}

// withQuery adds parameters to a URL: all of q, and pairs, alternating names and values.
func withQuery(ref string, q url.Values, pairs ...string) (string, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return "", err
	}
	all := u.Query()
	maps.Copy(all, q)
	for pair := range slices.Chunk(pairs, 2) {
		all.Set(pair[0], pair[1])
	}
	u.RawQuery = all.Encode()
	return u.String(), nil
}

// asksSite reports whether only the site can evaluate the filter, so that its query door is used in place of
// the manifest.
func (w *selection) asksSite() bool {
	return w.filter.Where != "" && w.offer != nil && w.offer.Query != ""
}

// describedAt returns the URL to read: that of the manifest, or of the query that the filter makes.
func (w *selection) describedAt() (string, error) {
	if !w.asksSite() {
		return w.manifest, nil
	}
	page := w.filter // conditions on changes do not apply to pages
	page.Ops, page.MinSignificance, page.Agent = nil, 0, protocol.Digest{}
	return withQuery(w.offer.Query, page.Query())
}
