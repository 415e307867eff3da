package crawl

import (
	"net/http"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A delivery is a page that came with what was told of it, or whose body another page holds: its debt is paid at
// once, and nothing is asked for. It is read, and kept, as what a request brings.
type delivery struct {
	page   collection.Page
	header http.Header // what is known of it
	body   []byte
}

// formHeader says in what is kept of a delivered page how it came: there was
// no answer that had a header.
const formHeader = "X-Parley-Form"

// longestBehind is how long the pages of a site wait at most while it is being caught up with.
const longestBehind = time.Minute

// awaits says that pages of a site are about to be delivered: until it is known
// which, none of them is asked for. The function that it returns says that they are known.
// Where pages have changed and the site has more to tell, none is asked for until that has come,
// or for a minute: it may bring what was told now without a body, or tell of it again. That the
// site has come further with nothing for us to know is no reason to wait.
func (r *run) awaits(st *site, step *client.Step) func() {
	if step.Door == "" { // a list, or a notice, which brings nothing
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	st.delivering++
	if step.Behind && len(step.Changes) > 0 && st.behind.IsZero() {
		st.behind = time.Now().Add(r.hurried(longestBehind))
		r.resting[st] = struct{}{}
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if st.delivering--; !step.Behind {
			st.behind = time.Time{}
		}
	}
}

// deliveries are the pages that a step brought, and that are owed because of what was told.
func (r *run) deliveries(step *client.Step) (list []delivery, err error) {
	for i, body := range step.Bodies {
		if body == nil {
			continue
		}
		c := &step.Changes[i]
		p, ok, err := r.Collection.Page(c.Item.URL)
		if err != nil {
			return nil, err
		}
		if !ok || !p.Told || p.Debt != c.Item.Digest || p.State == collection.Excluded {
			continue
		}
		rule := r.Seeder.Forbids(p.URL)
		if p.By != collection.ByPerson && r.Only == "" {
			rule = r.Seeder.Excludes(p.URL)
		}
		if rule != "" || int64(len(body)) > r.mostBytes() {
			continue // the Manager says what becomes of it
		}
		list = append(list, delivery{p, headerOf(&c.Item, step.As), body})
	}
	return list, nil
}

// mostBytes is how large a page may be that comes with others: it stands in memory.
func (r *run) mostBytes() int64 {
	most := r.Harvester.MaxBytes
	if most <= 0 {
		most = harvest.DefaultMaxBytes
	}
	return min(most, mostDelivered)
}

const mostDelivered = 16 << 20

// takeOut gives out the pages that were delivered, so that nobody asks for them. It
// leaves out those that are being asked for. The run's lock is held.
func (r *run) takeOut(list []delivery) []delivery {
	kept := list[:0]
	for _, d := range list {
		if r.out[d.page.ID] || !r.front.Take(frontier.Entry{Page: d.page.ID, Site: d.page.Site}) {
			continue
		}
		r.out[d.page.ID] = true
		r.busy++
		kept = append(kept, d)
	}
	return kept
}

// deliver takes in pages that were given out, and returns when they are kept. A
// crawler that is killed before owes them as before.
func (r *run) deliver(list []delivery) error {
	for len(list) > 0 {
		n, bytes := 0, 0
		for n < len(list) && n < turnSize && (n == 0 || bytes+len(list[n].body) <= turnBytes) {
			bytes += len(list[n].body)
			n++
		}
		x := read{busy: n}
		r.reading(func(rd *reader) {
			for i := range list[:n] {
				a := list[i].answer()
				x.visits = append(x.visits, r.visit(a, &rd.gatherer, &rd.page))
				r.count.delivered(a)
			}
		})
		for i := range x.visits {
			v := &x.visits[i]
			if v.Delivered = true; !r.Collection.Stores() {
				v.Length, v.Body = int64(len(v.Body)), nil
			}
		}
		if err := r.submit(r.ctx, x); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// answer is what a request for the page would have brought.
func (d *delivery) answer() *harvest.Answer {
	p := &d.page
	a := &harvest.Answer{Site: p.Site, Status: http.StatusOK, Header: d.header, Body: d.body, Asked: time.Now(),
		Task: harvest.Task{Page: p.ID, URL: p.URL, Depth: p.Depth, Want: p.Debt, Signal: string(p.Signal)}}
	a.Claimed, _ = p.Claim()
	return a
}

// headerOf is what is known of a page that came without a header.
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
