package crawl

import (
	"net/http"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/protocol"
)

// A delivery is a page whose content came with its change, or is copied from an equal page: its pending fetch is
// settled at once, without a request. It is parsed and stored like a response.
type delivery struct {
	page   collection.Page
	header http.Header // made from the page's metadata
	body   []byte
}

// formHeader is a header of the stored record of a delivered page, and says in which
// form it came, since there was no response with a header.
const formHeader = "X-Parley-Form"

// longestBehind bounds how long the pages of a site wait while the site has more changes to send.
const longestBehind = time.Minute

// awaits records that a step may deliver pages of a site: no page of the site is given
// out until the returned function is called, when the deliveries are known.
// If pages have changed and the site has more changes to send, its pages wait for those, for
// at most a minute: they may bring the missing bodies, or change the same pages again. A
// step without changes is no reason to wait.
func (r *pageReader) awaits(st *site, step *client.Step) func() {
	if step.Door == "" { // a list or a notice has no bodies
		return func() {}
	}
	r.work.Lock()
	defer r.work.Unlock()
	st.delivering++
	if step.Behind && len(step.Changes) > 0 && st.behind.IsZero() {
		st.behind = time.Now().Add(r.c.hurried(longestBehind))
		r.sites.resting[st] = true
	}
	return func() {
		r.work.Lock()
		defer r.work.Unlock()
		if st.delivering--; !step.Behind {
			st.behind = time.Time{}
		}
	}
}

// deliveries returns the pages that a stored step has brought and that are pending with that digest.
// With by, the step is not stored yet: they are those of a copy that it makes pending, all with bodies or none, and there are none if it
// has other changes, too, or is too large for one transaction.
func (r *pageReader) deliveries(step *client.Step, by collection.Signal) (list []delivery, err error) {
	bytes := 0
	for i := range step.Changes {
		var body []byte
		if len(step.Bodies) > 0 {
			body = step.Bodies[i]
		}
		if body == nil && by == "" {
			continue
		}
		c := &step.Changes[i]
		p, ok, err := r.c.Collection.Page(c.Item.URL)
		if err != nil {
			return nil, err
		}
		if bytes += len(body); by != "" {
			if d := c.Item.Digest; (body == nil) != (len(step.Bodies) == 0) || !ok || c.Op != protocol.Update || p.State != collection.Held || d.IsZero() || d == p.Digest || bytes > commitBytes {
				return nil, nil
			}
			p.Told, p.Debt, p.Missed, p.Signal = true, c.Item.Digest, 0, by
		}
		if !ok || !p.Told || p.Debt != c.Item.Digest || p.State == collection.Excluded {
			continue
		}
		if r.trust.excludes(&p) != "" || int64(len(body)) > r.c.mostBytes {
			continue // the Manager handles it
		}
		list = append(list, delivery{p, headerOf(&c.Item, step.As), body})
	}
	return list, nil
}

// deliver stores pages that were given out, and returns when they are committed. If
// the crawler is killed before, they are still pending.
func (r *pageReader) deliver(list []delivery) error {
	for len(list) > 0 {
		n, bytes := 0, 0
		for n < len(list) && n < commitSize && (n == 0 || bytes+len(list[n].body) <= commitBytes) {
			bytes += len(list[n].body)
			n++
		}
		if err := r.in.submit(r.work.ctx, result{visits: r.delivered(list[:n]), busy: n}); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// delivered makes visits of delivered pages.
func (r *pageReader) delivered(list []delivery) []collection.Visit {
	answers := make([]*harvest.Answer, len(list))
	for i := range list {
		answers[i] = list[i].answer()
	}
	visits := r.visitsOf(answers)
	for i := range visits {
		visits[i].Delivered = true
	}
	return visits
}

// visitsOf makes visits of pages that came without a request of their own.
func (r *pageReader) visitsOf(list []*harvest.Answer) []collection.Visit {
	visits := make([]collection.Visit, len(list))
	r.withParser(func(rd *parser) {
		for i, a := range list {
			r.count.delivered(a)
			v := r.visit(a, rd)
			if r.c.Collection.Contents().None {
				v.Length, v.Body = int64(len(v.Body)), nil
			}
			visits[i] = v
		}
	})
	return visits
}

// answer returns the answer that a request for the page would have brought.
func (d *delivery) answer() *harvest.Answer {
	p := &d.page
	a := &harvest.Answer{Site: p.Site, Status: http.StatusOK, Header: d.header, Body: d.body, Asked: time.Now(),
		Task: harvest.Task{Page: p.ID, URL: p.URL, Depth: p.Depth, Want: p.Debt, Signal: string(p.Signal)}}
	a.Claimed, _ = p.Claim()
	return a
}

// headerOf makes a header for a page that came without one.
func headerOf(i *protocol.Item, form protocol.Form) http.Header {
	h := http.Header{formHeader: {string(form)}}
	if i.Type != "" {
		h.Set("Content-Type", i.Type)
	}
	if !i.Modified.IsZero() && i.Span == 0 {
		h.Set("Last-Modified", i.Modified.UTC().Format(http.TimeFormat))
	}
	return h
}
