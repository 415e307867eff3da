package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/protocol"
)

// A Choice is the door and the form by which a site is followed, and why.
type Choice struct {
	Door string        `json:"door,omitempty"`
	As   protocol.Form `json:"as,omitempty"`
	Why  string        `json:"why,omitempty"`
}

func (c Choice) String() string {
	if c.As == "" {
		return c.Door
	}
	s := fmt.Sprintf("%s, as %s", c.Door, c.As)
	if c.Why != "" {
		s += ": " + c.Why
	}
	return s
}

const byPrice = "the price of a visit decides which pages are fetched"

// defaultArchive bounds the archive of a whole site, in bytes, unless
// Crawler.As asks for archives.
const defaultArchive = 1 << 30

// choose returns the form for a site that offers d, and why: the cheapest that
// brings what is wanted (C43). at is our cursor, zero if nothing is stored.
func (f *followers) choose(d *protocol.Discovery, at protocol.Cursor) (protocol.Form, string) {
	c := f.c
	offers := func(as protocol.Form) bool { return client.Offers(d, as) }
	switch {
	case c.As != "" && offers(c.As):
		return c.As, "as requested"
	case c.As != "":
		return protocol.AsMeta, fmt.Sprintf("the site does not offer the form %s", c.As)
	case c.Collection.Contents().None && c.NoParse:
		return protocol.AsMeta, "pages are neither stored nor parsed"
	case f.plan.prices():
		return protocol.AsMeta, byPrice
	case at.IsZero() && d.Site != "" && offers(protocol.AsSite) && c.Filter.IsZero():
		return protocol.AsSite, "nothing is stored yet, and the site offers all its pages as one archive"
	case at.IsZero():
		then, _ := f.choose(d, protocol.Cursor{Epoch: "then", Seq: 1})
		return protocol.AsMeta, fmt.Sprintf("nothing is stored yet: the manifest is read first, then changes in the form %s", then)
	case offers(protocol.AsDelta) && !c.Collection.Contents().None:
		return protocol.AsDelta, "stored pages serve as the base of deltas"
	case offers(protocol.AsPage):
		return protocol.AsPage, "the site sends pages with their changes"
	}
	return protocol.AsMeta, "the site offers no other form that can be used"
}

// listen sets the options by which a site is followed, and records the choice.
func (f *followers) listen(from *client.Source, src *source) {
	c := f.c
	from.Filter, from.BundleEvery, from.BundleCount = c.Filter, c.BundleEvery, c.BundleCount
	from.Temp = c.Temp
	if from.MaxArchive = c.MaxArchive; from.MaxArchive == 0 && c.As != protocol.AsSite {
		from.MaxArchive = defaultArchive
	}
	if !c.Collection.Contents().None {
		from.Held = func(url string, d protocol.Digest) ([]byte, error) {
			return c.Collection.Version(url, d, from.MaxPage)
		}
	}
	if f.alone() && c.As != "" {
		from.As = c.As // one that is not offered is an error
		f.chose(src, c.As, "as requested")
		return
	}
	switch {
	case c.As == protocol.AsMeta:
		f.chose(src, c.As, "as requested")
		return
	case c.As == "" && f.plan.prices():
		f.chose(src, protocol.AsMeta, byPrice)
		return
	}
	from.ManifestFirst = !f.alone() // nearly all sites have none
	if f.once {                     // Follow reads only the manifest
		f.chose(src, protocol.AsMeta, "only the manifest is read, once")
		return
	}
	f.work.Lock()
	moved := f.sites.moved[src.URL] != nil || f.alone() && src.Polled.IsZero() && src.site.Held > 0
	f.work.Unlock()
	from.Choose = func(d *protocol.Discovery, at protocol.Cursor) protocol.Form {
		as, why := f.choose(d, at)
		if moved && as == protocol.AsSite {
			as, why = protocol.AsMeta, "pages are stored already: the manifest says which of them have changed"
		}
		f.work.Lock()
		f.offers(src, d)
		f.work.Unlock()
		f.chose(src, as, why)
		return as
	}
}

// chose records a choice, which is stored with the source.
func (f *followers) chose(src *source, as protocol.Form, why string) {
	f.work.Lock()
	defer f.work.Unlock()
	if c := (Choice{As: as, Why: why}); c != src.follow.choice {
		src.follow.choice = c
		f.sites.dirtySources[src] = true
	}
}

// offers records a source's description of what its site offers. The work's lock is held.
func (f *followers) offers(s *source, d *protocol.Discovery) {
	s.follow.offer = &offer{d: d, at: time.Now()}
	s.site.offer = s.follow.offer
}

// An offer is a site's description, and when it was read.
type offer struct {
	d  *protocol.Discovery
	at time.Time
}

// offerLasts is how long an offer is cached.
const offerLasts = time.Hour

// offered returns what a site offers, from the cache or by a request. The result is empty
// where the site has no description.
func (f *followers) offered(ctx context.Context, src *source, from *client.Source) (*protocol.Discovery, error) {
	f.work.Lock()
	o := src.follow.offer
	f.work.Unlock()
	if o != nil && time.Since(o.at) < offerLasts {
		return o.d, nil
	}
	d, err := client.Discover(ctx, from)
	if err != nil {
		var status *client.StatusError
		if !errors.As(err, &status) || status.Status >= http.StatusInternalServerError {
			return nil, err
		}
		d = &protocol.Discovery{}
	}
	f.work.Lock()
	defer f.work.Unlock()
	f.offers(src, d)
	return d, nil
}

// Listening returns the door and the form by which each source of a site is followed
// now, by the source's URL.
func (c *Crawler) Listening(origin string) map[string]Choice {
	r := c.run.Load()
	if r == nil {
		return nil
	}
	r.work.Lock()
	defer r.work.Unlock()
	st := r.sites.byOrigin[origin]
	if st == nil {
		return nil
	}
	m := map[string]Choice{}
	for u, src := range st.sources.byURL {
		if c := src.follow.choice; c.As != "" {
			m[u] = Choice{src.Door, c.As, c.Why}
		}
	}
	return m
}
