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
	"strings"

	"github.com/parleyweb/parley/protocol"
)

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

// discover finds the site's doors in its description, and reports whether it has one.
func (w *selection) discover(ctx context.Context) bool {
	if w.offer != nil { // it has no description
		return false
	}
	d, err := w.wellKnown(ctx)
	if err == nil {
		w.pos.doors.set(d.Stream, d.Changes)
	}
	return err == nil
}

// manifestHead reads the beginning of the manifest.
func (w *selection) manifestHead(ctx context.Context) (head protocol.Manifest, err error) {
	resp, r, err := w.openManifest(ctx, w.manifest, w.header())
	if err != nil {
		return head, err
	}
	defer resp.Body.Close()
	if _, err = r.Next(); err == io.EOF {
		err = nil
	}
	return r.Head(), err
}

// pointed looks in the manifest for the URL of a description that is neither below the base nor at the root
// of the host, and reads that. It returns err if the manifest states no other.
func (w *selection) pointed(ctx context.Context, err error) (*protocol.Discovery, error) {
	if w.discovery != "" || w.src.Choose != nil { // that URL was tried, or it can wait until the manifest is read
		return nil, err
	}
	head, merr := w.manifestHead(ctx)
	if merr != nil || !w.named(head.Discovery) { // an error of the manifest is reported when that is read
		return nil, err
	}
	return w.described(ctx, w.discovery)
}

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
	if d.Base != f.base && d.Manifest != f.manifest {
		return nil, fmt.Errorf("read %s: %w: %.200q", place, errOther, d.Base)
	}
	for _, ref := range []*string{&d.Batch, &d.Site, &d.Query, &d.Agents} {
		if u, err := f.door(*ref); err != nil {
			*ref = "" // on another host: not used
		} else {
			*ref = u
		}
	}
	if f.src.Found != nil {
		f.src.Found(d)
	}
	return d, nil
}

// errOther reports a well-known file that describes another site, or none.
var errOther = errors.New("it does not describe this site")

// isDefiniteAnswer reports whether err is a site's answer that it has no well-known file, rather than a temporary
// failure.
func isDefiniteAnswer(err error) bool {
	status := statusOf(err)
	var other *typeError
	return status != nil && status.Status < 500 && status.Status != http.StatusTooManyRequests ||
		errors.As(err, &other) || errors.Is(err, errOther)
}

// named records the description's URL that a manifest states. A manifest speaks only for its own site: a URL
// that is not below its base is not believed.
func (s *site) named(u string) (news bool) {
	local, ok := strings.CutPrefix(u, s.base)
	path, err := url.PathUnescape(local)
	if !ok || u == s.discovery || err != nil || strings.Contains(path, "..") || strings.Contains(path, `\`) {
		return false
	}
	s.discovery = u
	return true
}

// stated records the doors that a manifest names. An answer to a query need not name any.
func (w *selection) stated(head protocol.Manifest) {
	if w.named(head.Discovery) && w.offer != nil && w.offer.Version == 0 {
		w.offer = nil // the site had no description where it was requested
	}
	if !w.asksSite() || head.Stream != "" || head.Changes != "" {
		w.pos.doors.set(head.Stream, head.Changes)
	}
}
