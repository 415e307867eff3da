package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	if f.offer != nil || f.as == protocol.AsMeta && f.choose == nil && f.filter.IsZero() || f.late && f.resync {
		return nil
	}
	d, err := f.wellKnown(ctx)
	if err != nil && ctx.Err() == nil && isDefiniteAnswer(err) {
		d, err = f.pointed(ctx, err)
	}
	switch {
	case err == nil:
		f.setDoors(d.Stream, d.Changes)
	case ctx.Err() == nil && isDefiniteAnswer(err):
		d = &protocol.Discovery{} // the site has no description but its manifest
	default:
		return err
	}
	f.offer = d
	if f.choose == nil && !f.tells(f.as) {
		e := &OfferError{Base: f.base, What: "form", Asked: string(f.as)}
		if Offers(f.offer, f.as) {
			e.Asked += " for changes that a program selects"
		}
		for _, as := range protocol.Forms() {
			if f.tells(as) {
				e.Offers = append(e.Offers, string(as))
			}
		}
		return e
	}
	for name := range f.filter.Query() {
		if !slices.Contains(f.offer.Filters, name) {
			return &OfferError{Base: f.base, What: "filter", Asked: name, Offers: f.offer.Filters}
		}
	}
	return nil
}

// tells reports whether the site offers a form for the filter. Programs do not apply to bundles and archives.
func (f *follower) tells(as protocol.Form) bool {
	return Offers(f.offer, as) && (f.filter.Agent.IsZero() || as != protocol.AsBatch && as != protocol.AsSite)
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
	program := &OfferError{Base: f.base, What: "program", Asked: f.filter.Agent.String(), Err: status}
	switch status.Status {
	case http.StatusBadRequest:
		switch value := f.filter.Query().Get(status.Parameter); {
		case status.Parameter == "agent" && value != "":
			return program
		case value != "":
			return &OfferError{Base: f.base, What: "filter", Asked: status.Parameter + "=" + value, Err: status}
		}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity:
		if status.Title != "" && f.state(door) != nil && !f.filter.Agent.IsZero() {
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
	case f.choose == nil:
		return f.as
	case f.offer == nil:
		return protocol.AsMeta
	}
	at := f.cursor
	if f.resync {
		at = protocol.Cursor{}
	}
	if as := f.choose(f.offer, at); f.tells(as) {
		return as
	}
	return protocol.AsMeta
}

// selecting adds to a door's URL the filter, the form and pairs: alternating names and values.
func (f *follower) selecting(as protocol.Form, ref string, pairs ...string) (string, error) {
	q := f.filter.Query()
	if as != protocol.AsMeta {
		q.Set("as", string(as))
	}
	if as == protocol.AsBatch {
		if s := int((f.bundleEvery + time.Second - 1) / time.Second); s > 0 {
			q.Set("every", strconv.Itoa(s))
		}
		if f.bundleCount > 0 {
			q.Set("count", strconv.Itoa(f.bundleCount))
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

// discover finds the site's doors without reading the whole manifest: from its well-known file, or, without
// one, from the beginning of the manifest.
func (f *follower) discover(ctx context.Context) error {
	if f.offer == nil { // else it has no description
		if d, err := f.wellKnown(ctx); err == nil {
			f.setDoors(d.Stream, d.Changes)
			return nil
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	resp, r, err := f.openManifest(ctx, f.manifestURL, false)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := r.Next(); err != nil && err != io.EOF {
		return err
	}
	f.manifestDoors(r.Head())
	return nil
}

// pointed looks in the manifest for the URL of a description that is neither below the base nor at the root
// of the host, and reads that. It returns err if the manifest states no other.
func (f *follower) pointed(ctx context.Context, err error) (*protocol.Discovery, error) {
	if f.discovery != "" || f.choose != nil { // that URL was tried, or it can wait until the manifest is read
		return nil, err
	}
	resp, r, merr := f.openManifest(ctx, f.manifestURL, false)
	if merr != nil {
		return nil, err // an error of the manifest is reported when that is read
	}
	defer resp.Body.Close()
	if _, merr := r.Next(); merr != nil && merr != io.EOF || !f.named(r.Head().Discovery) {
		return nil, err
	}
	return f.described(ctx, f.discovery)
}

// isDefiniteAnswer reports whether err is a site's answer that it has no well-known file, rather than a temporary
// failure.
func isDefiniteAnswer(err error) bool {
	var status *StatusError
	var other *typeError
	return errors.As(err, &status) && status.Status < 500 && status.Status != http.StatusTooManyRequests ||
		errors.As(err, &other) || errors.Is(err, errOther)
}

// errOther reports a well-known file that describes another site, or none.
var errOther = errors.New("it does not describe this site")

// wellKnown reads the site's description: at the URL that its manifest states, below its base, or at the root
// of its host, where a site below a path may be described too.
func (f *fetcher) wellKnown(ctx context.Context) (d *protocol.Discovery, err error) {
	asked := []string{""}
	for _, place := range []string{f.discovery, f.base + protocol.DiscoveryPath, f.origin + "/" + protocol.DiscoveryPath} {
		if slices.Contains(asked, place) {
			continue
		}
		asked = append(asked, place)
		other, oerr := f.described(ctx, place)
		if err == nil || oerr == nil || !isDefiniteAnswer(oerr) {
			d, err = other, oerr
		}
		if err == nil || !isDefiniteAnswer(err) {
			break
		}
	}
	return d, err
}

// described reads the site's description at the URL place.
func (f *fetcher) described(ctx context.Context, place string) (*protocol.Discovery, error) {
	text, err := f.getJSON(ctx, place, stall, protocol.MaxDiscovery)
	if err != nil {
		return nil, err
	}
	d := &protocol.Discovery{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read %s: %w: %v", place, errOther, err)
	}
	if d.Base != f.base && d.Manifest != f.manifestURL {
		return nil, fmt.Errorf("read %s: %w: %.200q", place, errOther, d.Base)
	}
	for _, ref := range []*string{&d.Batch, &d.Site, &d.Query, &d.Agents} {
		if u, err := door(f.base, *ref); err != nil {
			*ref = "" // on another host: not used
		} else {
			*ref = u
		}
	}
	if f.found != nil {
		f.found(d)
	}
	return d, nil
}

// Discover reads what a site offers. Its doors are checked: those of another origin are empty. The error
// wraps *StatusError where the site has no description.
func Discover(ctx context.Context, src *Source) (*protocol.Discovery, error) {
	f, err := newFetcher(src)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	defer f.close()
	d, err := f.wellKnown(ctx)
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", f.base, err)
	}
	return d, nil
}
