package client

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"strings"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/protocol"
)

// bundle emits a bundle's changes as Steps; the last one moves the cursor. A bundle that was cut is
// requested again from its beginning.
func (d *messageDoor) bundle(ctx context.Context, door Door, m *protocol.Message) (err error) {
	defer func() { err = ofPiece(err) }()
	if m.From != d.cursor || d.resync {
		return fmt.Errorf("bundle starts after cursor %v, not %v", m.From, d.at())
	}
	if err := d.continues(m.To); err != nil {
		return err
	}
	content := io.Reader(bytes.NewReader(m.Body.Bytes))
	if m.Body.Href != "" {
		resp, err := d.want.getBundle(ctx, m.Body.Href, nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		content = resp.Body
	} else if m.Body.Coding != protocol.CodingArchive {
		return fmt.Errorf("bundle has unsupported coding %.40q", m.Body.Coding)
	}
	r, err := bundle.NewReader(content, bundle.Limits{Page: d.want.src.MaxPage, Total: MaxBundle})
	if err != nil {
		return err
	}
	defer r.Close()
	// The site may have rebuilt the bundle since it announced it, up to a later cursor.
	if r.Head.From != d.cursor || r.Head.To.Seq < m.To.Seq {
		return fmt.Errorf("bundle covers %v to %v, not %v to %v", r.Head.From, r.Head.To, m.From, m.To)
	}
	p := packing{d.position, Step{Door: door, As: protocol.AsBatch, Behind: behind(r.Head.To, d.head)}, 0}
	for page, err := range r.Pages() {
		if err != nil {
			return err
		}
		if err := p.add(page.Change, page.Body); err != nil {
			return err
		}
	}
	return p.end(r.Head.To, false)
}

// getBundle requests a bundle: by GET, or by POST with a body.
func (f *fetcher) getBundle(ctx context.Context, ref string, say []byte) (*http.Response, error) {
	u, err := f.door(ref)
	if err != nil {
		return nil, err
	}
	h := f.header()
	h.Set("Accept", bundle.MediaType)
	h.Set("Accept-Encoding", bundle.Accepted)
	if f.near(u) {
		h.Set("Accept-Encoding", string(bundle.Plain))
	}
	method := http.MethodGet
	if say != nil {
		method = http.MethodPost
		h.Set("Content-Type", "application/json")
	}
	resp, err := f.ask(ctx, method, u, h, say, bundlePatience)
	if err != nil {
		return nil, err
	}
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != bundle.MediaType {
		resp.Body.Close()
		return nil, &typeError{u, resp.Header.Get("Content-Type"), bundle.MediaType}
	}
	return resp, nil
}

// near reports whether a URL is on this machine's loopback interface: compression costs more than it saves
// there.
func (f *fetcher) near(u string) bool {
	r, err := http.NewRequest(http.MethodGet, u, nil)
	if err != nil {
		return false
	}
	if host := r.URL.Hostname(); !strings.EqualFold(host, "localhost") {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Unmap().IsLoopback() {
			return false
		}
	}
	t, ok := cmp.Or(f.client.Transport, http.DefaultTransport).(*http.Transport)
	if !ok || t.Proxy == nil { // an unknown RoundTripper, or direct
		return true
	}
	proxy, err := t.Proxy(r)
	return err == nil && proxy == nil
}
