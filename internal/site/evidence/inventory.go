package evidence

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/server/inventory"
)

// leftRefused is the LeftOut reason of refused pages.
const leftRefused = "refused by the web server"

// Watching returns inv without the pages that the web server refuses. Of each new
// directory, one page is fetched before any is offered, and all of them if that one
// is refused. A page that was read anew is fetched at once, but offered without
// waiting for that.
func (k *Keeper) Watching(inv inventory.Inventory) inventory.Inventory {
	return watching{inv, k}
}

type watching struct {
	inventory.Inventory
	k *Keeper
}

// Public implements [inventory.Inventory].
func (w watching) Public(page string) bool {
	return w.Inventory.Public(page) && !w.k.book.withdrawn(page)
}

// Read implements [inventory.Inventory].
func (w watching) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	o, err := w.Inventory.Read(ctx, o)
	if k := w.k; err == nil && o.LeftOut == "" && !o.Unsettled && k.Rate > 0 && k.Journal.Whole() {
		if r := k.book.record(o.URL); k.Meta && r.State == statePublic {
			// The page was edited, and it is public.
		} else if o.Digest.IsZero() || !r.has(o.Digest, time.Now().Add(-k.good())) {
			k.todo.urge(job{page: o.URL, want: o.Digest, length: o.Length})
		}
	}
	return o, err
}

// Watch implements [inventory.Inventory].
func (w watching) Watch(ctx context.Context, dirty func([]inventory.Scope)) error {
	ctx, stop := context.WithCancel(ctx)
	var owned sync.WaitGroup
	defer owned.Wait()
	defer stop()
	owned.Go(func() {
		for {
			select {
			case s := <-w.k.todo.news:
				scopes := []inventory.Scope{s}
				for len(w.k.todo.news) > 0 && len(scopes) < cap(w.k.todo.news)-1 {
					scopes = append(scopes, <-w.k.todo.news)
				}
				if len(w.k.todo.news) > 0 {
					scopes = nil // some may have been lost: scan everything
				}
				dirty(scopes)
			case <-ctx.Done():
				return
			}
		}
	})
	return w.Inventory.Watch(ctx, dirty)
}

// mostTogether bounds the offers of a new directory that are held and judged together.
const mostTogether = 256

// Scan implements [inventory.Inventory].
func (w watching) Scan(ctx context.Context, scopes []inventory.Scope) iter.Seq2[inventory.Offer, error] {
	return func(yield func(inventory.Offer, error) bool) {
		p := probe{k: w.k, ctx: ctx, there: make(map[string]bool)}
		whole := len(scopes) == 0
		for o, err := range w.Inventory.Scan(ctx, scopes) {
			whole = whole && err == nil
			isNew := err == nil && o.URL != "" && p.enters(inventory.ScopeOf(o.URL).Prefix)
			if (!isNew || p.next != p.dir || len(p.offers) == mostTogether) && !p.giveBack(yield) {
				return
			}
			if isNew {
				p.hold(o)
				continue
			}
			if err == nil && o.LeftOut == "" && w.k.book.withdrawn(o.URL) {
				p.leaveOut(&o)
			}
			if !yield(o, err) {
				return
			}
		}
		if p.giveBack(yield) && whole && ctx.Err() == nil {
			w.k.book.keep(p.there)
		}
	}
}

// A probe fetches pages of the new directories of one scan.
type probe struct {
	k      *Keeper
	ctx    context.Context
	silent int             // requests without a response, in a row
	known  string          // the last directory found to be known
	there  map[string]bool // refused pages that exist

	mu sync.Mutex // guards there

	next   string // the directory being entered
	dir    string // the directory of offers
	shut   bool   // the first page of dir was refused
	open   bool   // a page of dir was not refused
	offers []inventory.Offer
}

// mostSilent is the number of requests without a response in one scan after which
// it continues without probing: the web server may not run yet.
const mostSilent = 2

// enters reports whether a directory is new: no page of it was announced.
func (p *probe) enters(dir string) bool {
	p.next = dir
	if dir == p.dir {
		return true
	}
	if dir == p.known || p.k.Rate <= 0 || p.silent >= mostSilent {
		return false
	}
	known := p.k.book.has(p.k.book.dirs, dir)
	if known {
		p.known = dir
	}
	return !known
}

// hold adds an offer of the directory being entered.
func (p *probe) hold(o inventory.Offer) {
	if p.next != p.dir {
		p.dir, p.shut, p.open = p.next, false, false
	}
	p.offers = append(p.offers, o)
}

// giveBack judges the held offers, and yields them.
func (p *probe) giveBack(yield func(inventory.Offer, error) bool) bool {
	p.judge()
	held := p.offers
	p.offers = p.offers[:0]
	for _, o := range held {
		if !yield(o, nil) {
			return false
		}
	}
	return true
}

// judge fetches the first held page and, if that is refused, all of them.
func (p *probe) judge() {
	var pages []*inventory.Offer
	for i := range p.offers {
		o := &p.offers[i]
		switch {
		case o.LeftOut != "":
		case p.k.book.withdrawn(o.URL):
			p.leaveOut(o)
		default:
			pages = append(pages, o)
		}
	}
	if len(pages) > 0 && !p.shut && !p.open {
		// A directory's own URL is refused if it has no index, even if its pages are served.
		first := max(0, slices.IndexFunc(pages, func(o *inventory.Offer) bool { return !strings.HasSuffix(o.URL, "/") }))
		switch p.ask(pages[first]) {
		case nothing:
			p.silent++
			p.open = true
		case refused:
			p.shut, p.silent = true, 0
			pages = slices.Delete(pages, first, first+1)
		default:
			p.open, p.silent = true, 0
		}
	}
	if p.shut {
		var all sync.WaitGroup
		turn := make(chan struct{}, atOnce)
		answers := make([]verdict, len(pages))
		for i, o := range pages {
			turn <- struct{}{}
			all.Go(func() {
				defer func() { <-turn }()
				answers[i] = p.ask(o)
			})
		}
		all.Wait()
		p.open = p.open || slices.ContainsFunc(answers, func(s verdict) bool { return s != refused })
	}
	if p.open {
		p.k.book.do(func() { p.k.book.dirs[p.dir] = true })
	}
}

// ask fetches a page that is not announced yet, and leaves it out if it is refused.
func (p *probe) ask(o *inventory.Offer) verdict {
	a := p.k.stranger.ask(p.ctx, o.URL, o.Length)
	if p.ctx.Err() != nil {
		return nothing
	}
	p.k.settle(job{page: o.URL, want: o.Digest, length: o.Length, tries: restTries}, a, false)
	if p.k.book.withdrawn(o.URL) {
		p.leaveOut(o)
	}
	return a.says
}

// leaveOut leaves out a refused page. Several goroutines may call it at a time.
func (p *probe) leaveOut(o *inventory.Offer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o.LeftOut = leftRefused
	p.there[o.URL] = true
}
