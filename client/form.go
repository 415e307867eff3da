package client

import (
	"context"
	"errors"
	"fmt"
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

// learn reads the site's description once, if a form or a filter needs it.
func (f *follower) learn(ctx context.Context) error {
	if f.offer != nil || f.src.As == protocol.AsMeta && f.src.Choose == nil && f.src.Filter.IsZero() || f.src.ManifestFirst && f.resync {
		return nil
	}
	d, err := f.wellKnown(ctx)
	if err != nil && ctx.Err() == nil && isDefiniteAnswer(err) {
		d, err = f.pointed(ctx, err)
	}
	switch {
	case err == nil:
		f.doors.set(d.Stream, d.Changes)
	case ctx.Err() == nil && isDefiniteAnswer(err):
		d = &protocol.Discovery{} // the site has no description but its manifest
	default:
		return err
	}
	f.offer = d
	if f.src.Choose == nil && !f.tells(f.src.As) {
		e := &OfferError{Base: f.base, What: "form", Asked: string(f.src.As)}
		if Offers(f.offer, f.src.As) {
			e.Asked += " for changes that a program selects"
		}
		for _, as := range protocol.Forms() {
			if f.tells(as) {
				e.Offers = append(e.Offers, string(as))
			}
		}
		return e
	}
	for name := range f.src.Filter.Query() {
		if !slices.Contains(f.offer.Filters, name) {
			return &OfferError{Base: f.base, What: "filter", Asked: name, Offers: f.offer.Filters}
		}
	}
	return nil
}

// tells reports whether the site offers a form for the filter. Programs do not apply to bundles and archives.
func (f *follower) tells(as protocol.Form) bool {
	return Offers(f.offer, as) && (f.src.Filter.Agent.IsZero() || as != protocol.AsBatch && as != protocol.AsSite)
}

// refused returns the error that ends Follow: the site does not offer what is requested, or refuses a part of
// the filter, or runs no program for the caller. It returns nil for a failure that may pass, such as a
// refusal by a proxy rather than by the site.
func (f *follower) refused(door Door, err error) *OfferError {
	var offer *OfferError
	var status *StatusError
	if errors.As(err, &offer) || !errors.As(err, &status) {
		return offer
	}
	program := &OfferError{Base: f.base, What: "program", Asked: f.src.Filter.Agent.String(), Err: status}
	switch status.Status {
	case http.StatusBadRequest:
		switch value := f.src.Filter.Query().Get(status.Parameter); {
		case status.Parameter == "agent" && value != "":
			return program
		case value != "":
			return &OfferError{Base: f.base, What: "filter", Asked: status.Parameter + "=" + value, Err: status}
		}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity:
		if status.Title != "" && door != Manifest && !f.src.Filter.Agent.IsZero() {
			return program
		}
	}
	return nil
}

// form returns the form of the next request.
func (f *follower) form() protocol.Form {
	switch {
	case time.Now().Before(f.plainUntil):
		return protocol.AsMeta
	case f.src.Choose == nil:
		return f.src.As
	case f.offer == nil:
		return protocol.AsMeta
	}
	if as := f.src.Choose(f.offer, f.at()); f.tells(as) {
		return as
	}
	return protocol.AsMeta
}

// selecting adds to a door's URL the filter, the form and pairs: alternating names and values.
func (f *follower) selecting(as protocol.Form, ref string, pairs ...string) (string, error) {
	q := f.src.Filter.Query()
	if as != protocol.AsMeta {
		q.Set("as", string(as))
	}
	if as == protocol.AsBatch {
		if s := int((f.src.BundleEvery + time.Second - 1) / time.Second); s > 0 {
			q.Set("every", strconv.Itoa(s))
		}
		if f.src.BundleCount > 0 {
			q.Set("count", strconv.Itoa(f.src.BundleCount))
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
	for name, values := range q {
		all[name] = values
	}
	for i := 0; i < len(pairs); i += 2 {
		all.Set(pairs[i], pairs[i+1])
	}
	u.RawQuery = all.Encode()
	return u.String(), nil
}
