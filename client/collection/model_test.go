package collection_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/references"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A modelPage is the expected state of a page, in the simplest form.
type modelPage struct {
	id              frontier.PageID
	path            string
	depth           int
	state           collection.State
	told            bool
	claim           protocol.Digest
	claimed         time.Time // zero: never
	missed          int
	unstable        bool // the body differed when it was fetched again
	digest, parsed  protocol.Digest
	original        frontier.PageID
	last            time.Time
	visits, changes int
	fails           int
	missing         time.Time
	at              time.Time // the zero time: at once
	never           bool
	links           []string
	refs            []byte
	target          string
	saidGone        bool // by the site
	confirmed       time.Time
}

func (p *modelPage) has() bool { return !p.digest.IsZero() && p.state != collection.Gone }

// A model applies to maps what a collection applies to its file. The policy is daily.
type model struct {
	pages  map[string]*modelPage
	order  []*modelPage
	firsts map[protocol.Digest]*modelPage
	named  map[string]bool
	cursor uint64
	now    time.Time
}

func (m *model) plan(p *modelPage) {
	p.never, p.at = false, time.Time{}
	if !p.told && p.visits > 0 {
		p.at = p.last.Add(24 * time.Hour)
	}
}

func (m *model) after(p *modelPage, wait time.Duration) { p.never, p.at = false, m.now.Add(wait) }

func (m *model) forget(p *modelPage) {
	p.digest, p.parsed, p.unstable = protocol.Digest{}, protocol.Digest{}, false
}

func (m *model) exclude(p *modelPage) {
	m.leaveGone(p)
	p.state, p.told, p.missed, p.never = collection.Excluded, false, 0, true
}

func (m *model) find(path string, depth int, exclude, person bool) *modelPage {
	p := m.pages[path]
	if p == nil {
		p = &modelPage{id: frontier.PageID(len(m.order) + 1), path: path, depth: depth}
		m.pages[path], m.order = p, append(m.order, p)
		if exclude {
			m.exclude(p)
		} else if person {
			p.told, p.claimed = true, m.now
		}
		return p
	}
	if exclude {
		if p.state == collection.Known && depth <= p.depth && !p.told {
			m.exclude(p)
		}
		return p
	}
	if p.state == collection.Excluded {
		p.state, p.claim = collection.Known, protocol.Digest{}
		if !p.digest.IsZero() {
			p.state = collection.Held
		}
		m.plan(p)
	}
	p.depth = min(p.depth, depth)
	if person {
		p.told, p.claimed, p.missed, p.claim = true, m.now, 0, protocol.Digest{}
		m.plan(p)
	}
	return p
}

func (m *model) settle(p *modelPage) { p.told, p.missed = false, 0 }

func (m *model) answered(p *modelPage) {
	p.fails, p.missing, p.target = 0, time.Time{}, ""
}

// pay models an answer to a pending fetch: if the content is not the announced one it plans another fetch, a few
// times at most; otherwise it clears the pending fetch. It reports whether it planned the next visit.
func (m *model) pay(p *modelPage) (decided bool) {
	if p.told && !p.claim.IsZero() && p.claim != p.digest && (p.missed < 1 || p.missed < 3 && !p.unstable) {
		m.after(p, []time.Duration{2 * time.Second, 10 * time.Second, time.Minute}[p.missed])
		p.missed++
		return true
	}
	m.settle(p)
	return false
}

func (m *model) history(p *modelPage, changed bool) {
	if p.visits++; changed && p.visits > 1 {
		p.changes++
	}
	p.last = m.now
}

func (m *model) gone(p *modelPage) {
	m.answered(p)
	m.settle(p)
	p.state, p.original, p.links, p.refs, p.saidGone = collection.Gone, 0, nil, nil, false
	m.after(p, 30*24*time.Hour)
}

func (m *model) fail(p *modelPage, dns bool) {
	waits := []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour}
	wait := 7 * 24 * time.Hour
	if p.fails < len(waits) {
		if wait = waits[p.fails]; dns {
			wait = max(wait, time.Hour)
		}
	}
	p.fails++
	m.leaveGone(p)
	p.state = collection.Failing
	m.after(p, wait)
}

func (m *model) leaveGone(p *modelPage) {
	if p.state == collection.Gone {
		m.forget(p)
	}
}

func (m *model) refuse(p *modelPage) {
	p.fails++
	m.leaveGone(p)
	p.state = collection.Refused
	m.settle(p)
	m.after(p, 7*24*time.Hour)
}

func (m *model) visit(v *collection.Visit, p *modelPage) {
	switch {
	case v.Exclude != "":
		m.exclude(p)
	case v.Fault != "":
		m.fail(p, v.DNS)
	case v.Status == 200 && v.Soft404:
		if p.has() {
			m.fail(p, false)
		} else {
			m.refuse(p)
		}
	case v.Status == 200:
		switch other := !p.digest.IsZero() && p.digest != v.Digest; {
		case p.told && !p.claim.IsZero() && p.claim == v.Digest:
			p.unstable = false
		case p.told && p.missed > 0 && other:
			p.unstable = true
		}
		m.history(p, !p.digest.IsZero() && p.digest != v.Digest && p.parsed != v.Parsed && (!p.unstable || p.told && p.missed == 0))
		m.answered(p)
		p.state, p.digest, p.parsed, p.original, p.links, p.refs = collection.Held, v.Digest, v.Parsed, 0, nil, nil
		if f := m.firsts[v.Parsed]; f != nil && f != p && f.has() && (f.state == collection.Held || f.state == collection.Failing) && f.parsed == v.Parsed && f.original == 0 {
			p.original = f.id
		} else {
			m.firsts[v.Parsed] = p
		}
		decided := m.pay(p)
		if p.original == 0 {
			p.refs = v.References
			for _, f := range v.Links {
				path := strings.TrimPrefix(f.URL, home)
				m.find(path, f.Depth, false, false)
				p.links = append(p.links, path)
			}
		}
		if !decided {
			m.plan(p)
		}
	case v.Status == 304 && !p.digest.IsZero():
		m.history(p, false)
		m.answered(p)
		p.state = collection.Held
		if !m.pay(p) {
			m.plan(p)
		}
	case v.Status == 301:
		path := strings.TrimPrefix(v.Target.URL, home)
		m.find(path, v.Target.Depth, false, false)
		m.answered(p)
		m.settle(p)
		m.leaveGone(p)
		p.state, p.target, p.links, p.refs = collection.Moved, path, []string{path}, nil
		m.after(p, 7*24*time.Hour)
	case v.Status == 410:
		m.gone(p)
	case v.Status == 404:
		if p.missing.IsZero() {
			p.missing = m.now
		}
		if p.state == collection.Gone || m.now.Sub(p.missing) >= 4*time.Hour {
			m.gone(p)
			return
		}
		p.fails++
		if p.state = collection.Refused; p.has() {
			p.state = collection.Failing
		}
		p.never, p.at = false, p.missing.Add(4*time.Hour)
	case v.Status == 503:
		m.fail(p, false)
	default:
		m.refuse(p)
	}
}

func (m *model) owe(p *modelPage, d protocol.Digest) {
	if p.state == collection.Gone {
		m.forget(p)
		p.state = collection.Known
	}
	p.told, p.claim, p.claimed, p.missed = true, d, m.now, 0
	m.plan(p)
}

func (m *model) admit(path string) (p *modelPage, isNew bool) {
	if p = m.pages[path]; p == nil {
		return m.find(path, protocol.Depth(home+path), false, true), true
	}
	return m.find(path, p.depth, false, false), false
}

func (m *model) offer(p *modelPage, isNew bool, d protocol.Digest, listing bool) {
	m.named[p.path] = true
	confirm := func() {
		if p.told || p.claim != d {
			p.claim, p.claimed = d, m.now
			m.settle(p)
			m.plan(p)
		}
		if since := m.now.Sub(latest(p.confirmed, p.last)); !p.told && since >= max(time.Second, m.now.Sub(p.last)/4) && p.visits > 0 {
			p.confirmed = m.now
			m.plan(p)
		}
	}
	switch {
	case isNew:
		m.owe(p, d)
	case !d.IsZero() && p.has() && p.digest == d:
		confirm()
	case !d.IsZero() && p.claim == d && (p.told || listing):
	case !d.IsZero():
		m.owe(p, d)
	case p.state == collection.Gone || p.visits == 0:
		again := !p.claimed.IsZero() && listing && !(p.state == collection.Gone && p.saidGone)
		if !(p.told && listing || again) {
			m.owe(p, d)
		}
	case !listing:
		m.owe(p, d)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (m *model) drop(p *modelPage, to string) {
	m.answered(p)
	m.settle(p)
	p.state, p.target, p.original, p.links, p.refs, p.saidGone = collection.Gone, to, 0, nil, nil, true
	p.claim, p.claimed, p.never = protocol.Digest{}, m.now, true
}

func (m *model) change(ch *protocol.Change, listing bool) {
	path, d := strings.TrimPrefix(ch.Item.URL, home), ch.Item.Digest
	if ch.Op == protocol.Delete {
		if p := m.pages[path]; p != nil && p.state != collection.Gone {
			m.drop(p, "")
		}
		return
	}
	from := m.pages[strings.TrimPrefix(ch.From, home)]
	p, isNew := m.admit(path)
	if ch.Op == protocol.Move && ch.From != ch.Item.URL && from != nil && from.state != collection.Gone {
		if d.IsZero() && from.has() && !from.told {
			d = from.digest
		}
		if from.has() && from.digest == d && !(p.has() && p.digest == d) {
			m.named[path] = true
			m.carry(from, p)
			return
		}
		m.drop(from, "")
	}
	m.offer(p, isNew, d, listing)
}

// carry gives the stored content of one page to another.
func (m *model) carry(from, to *modelPage) {
	m.answered(to)
	m.settle(to)
	to.state, to.digest, to.parsed, to.original, to.links, to.refs = collection.Held, from.digest, from.parsed, from.original, from.links, from.refs
	to.visits, to.changes, to.last, to.confirmed, to.unstable = from.visits, from.changes, from.last, from.confirmed, from.unstable
	to.claim, to.claimed = protocol.Digest{}, time.Time{}
	if to.original == 0 {
		m.firsts[to.parsed] = to
	}
	m.drop(from, to.path)
	m.plan(to)
}

// whole applies a complete snapshot. There are never enough pages for
// a deletion to be held back.
func (m *model) whole(changes []protocol.Change) {
	before := m.named
	m.named = map[string]bool{}
	for i := range changes {
		m.change(&changes[i], true)
	}
	for path := range before {
		if p := m.pages[path]; !m.named[path] && p.state != collection.Gone {
			m.drop(p, "")
		}
	}
}

func (m *model) compare(t *testing.T, c *collection.Collection, what string) {
	t.Helper()
	n := 0
	others := referred(t, c)
	for p, err := range c.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		q := m.order[n]
		n++
		at := q.at
		if q.never {
			at = collection.Never
		} else if least := q.last.Add(time.Second); q.state == collection.Held && !q.told && at.Before(least) {
			at = least
		}
		got := fmt.Sprintf("%s depth %d %v told %v claim %.12s missed %d digest %.12s parsed %.12s original %d visits %d changes %d fails %d at %v target %s", strings.TrimPrefix(p.URL, home), p.Depth, p.State,
			p.Told, p.Debt, p.Missed, p.Digest, p.Parsed, p.Original, p.Visits, p.Changes, p.Fails, p.At, strings.TrimPrefix(p.Target, home))
		debt := q.claim
		if !q.told {
			debt = protocol.Digest{}
		}
		want := fmt.Sprintf("%s depth %d %v told %v claim %.12s missed %d digest %.12s parsed %.12s original %d visits %d changes %d fails %d at %v target %s", q.path, q.depth, q.state,
			q.told, debt, q.missed, q.digest, q.parsed, q.original, q.visits, q.changes, q.fails, at, q.target)
		if got != want {
			t.Fatalf("after %s, page %d:\n got %s\nwant %s", what, q.id, got, want)
		}
		ids := must.Get(c.Links(p.ID))
		var links []frontier.PageID
		for _, l := range q.links {
			links = append(links, m.pages[l].id)
		}
		slices.Sort(links)
		if links = slices.Compact(links); !slices.Equal(ids, links) {
			t.Fatalf("after %s, links of page %d: got %v, want %v", what, q.id, ids, links)
		}
		refs := ""
		if counts, ok := references.Parse(q.refs); ok {
			refs = fmt.Sprint(*counts)
		}
		if others[p.ID] != refs {
			t.Fatalf("after %s, page %d refers to %s, want %s", what, q.id, others[p.ID], refs)
		}
	}
	if n != len(m.order) {
		t.Fatalf("after %s: %d pages, want %d", what, n, len(m.order))
	}
}

// After any sequence of operations, a collection equals a model built of a few maps,
// and its parts agree; also if it was closed at any point.
func TestRandomCommits(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			rnd := rand.New(rand.NewPCG(seed, 4))
			m := &model{pages: map[string]*modelPage{}, firsts: map[protocol.Digest]*modelPage{}, named: map[string]bool{}, now: r.now}
			src := r.source(collection.ManifestRDF)
			path := func() string { return fmt.Sprintf("/%s%d", "abc"[:rnd.IntN(3)], rnd.IntN(16)) }
			body := func() string { return []string{"one", "ONE", "two", "three", "four", "Four"}[rnd.IntN(6)] }
			change := func() protocol.Change {
				ch := create(path(), body())
				switch rnd.IntN(8) {
				case 0:
					return remove(path())
				case 1, 2:
					ch = move(path(), path(), body())
				}
				if rnd.IntN(3) == 0 {
					ch.Item.Digest = protocol.Digest{}
				}
				return ch
			}
			for i := range 400 {
				r.wait(time.Duration(rnd.ExpFloat64() * float64(20*time.Minute)))
				if rnd.IntN(10) == 0 {
					r.wait(time.Duration(rnd.IntN(48)) * time.Hour)
				}
				r.now = r.now.Truncate(time.Millisecond)
				m.now = r.now
				what := ""
				switch k := rnd.IntN(12); {
				case k < 3:
					f := collection.Find{URL: home + path(), Depth: rnd.IntN(6), By: collection.ByLink}
					switch rnd.IntN(5) {
					case 0:
						f.Exclude = "rule"
					case 1:
						f.LogOnly = true
					case 2:
						f.By = collection.ByPerson
					}
					what = fmt.Sprintf("%d: find %+v", i, f)
					r.commit(collection.Commit{Finds: []collection.Find{f}})
					m.find(strings.TrimPrefix(f.URL, home), f.Depth, f.Exclude != "" || f.LogOnly, f.By == collection.ByPerson)
				case k < 8 && len(m.order) > 0:
					var turn collection.Commit
					for range 1 + rnd.IntN(4) {
						p := m.order[rnd.IntN(len(m.order))]
						v := r.answer(p.path, []int{200, 200, 200, 304, 301, 404, 404, 410, 403, 503, 0}[rnd.IntN(11)], "")
						switch v.Status {
						case 200:
							v = r.answer(p.path, 200, body(), path(), path(), path())
							v.Soft404 = rnd.IntN(8) == 0
						case 301:
							v.Target = &collection.Find{URL: home + path(), Depth: rnd.IntN(5), By: collection.ByLink}
						case 0:
							switch rnd.IntN(3) {
							case 0:
								v.Exclude = "robots.txt"
							case 1:
								v.Fault, v.DNS = "no such host", true
							case 2:
								v.Fault = "timeout"
							}
						}
						turn.Visits = append(turn.Visits, v)
						what += fmt.Sprintf("%d: visit %s %d %s %v; ", i, p.path, v.Status, v.Body, v.Soft404)
					}
					r.commit(turn)
					for j := range turn.Visits {
						m.visit(&turn.Visits[j], m.order[turn.Visits[j].Page-1])
					}
				case k < 10:
					var list []protocol.Change
					for range 1 + rnd.IntN(4) {
						list = append(list, change())
					}
					m.cursor += uint64(len(list))
					what = fmt.Sprintf("%d: told %+v", i, list)
					r.apply(src, told(m.cursor, list...), collection.ByStream)
					for j := range list {
						m.change(&list[j], false)
					}
				case k == 10:
					var list []protocol.Change
					for _, p := range slices.Sorted(maps.Keys(m.named)) {
						if rnd.IntN(20) > 0 {
							ch := create(p, body())
							if rnd.IntN(3) == 0 {
								ch.Item.Digest = protocol.Digest{}
							}
							list = append(list, ch)
						}
					}
					m.cursor++
					what = fmt.Sprintf("%d: whole %+v", i, list)
					half := len(list) / 2
					r.apply(src, client.Step{Changes: list[:half], Door: client.Manifest, Reset: true}, collection.ByManifest)
					r.apply(src, client.Step{Changes: list[half:], Door: client.Manifest, Whole: true, Cursor: cursor(m.cursor)}, collection.ByManifest)
					m.whole(list)
				case k == 11:
					what = fmt.Sprintf("%d: promote", i)
					r.promote()
					for _, p := range m.order {
						if rnd.IntN(8) == 0 {
							what += ", confirm " + p.path
							r.commit(collection.Commit{Confirmed: []frontier.PageID{p.id}})
							if p.state == collection.Held && !p.told {
								p.confirmed = m.now
								m.after(p, 24*time.Hour)
							}
						}
					}
				}
				m.compare(t, r.c, what)
				if i%25 == 0 {
					check(t, r.c)
					before := dump(t, r.c)
					r.reopen()
					if after := dump(t, r.c); after != before {
						t.Fatalf("after %d it was\n%s\nafter a restart it is\n%s", i, before, after)
					}
				}
				if t.Failed() {
					t.Fatal(what)
				}
			}
			check(t, r.c)
		})
	}
}
