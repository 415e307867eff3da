package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/protocol"
)

// MaxBundle is how many bytes of pages a bundle brings at most, unless one page has more: what
// follows comes with the next. Whoever reads one takes twice as much.
const MaxBundle = 2 << 30

// Bounds of a bundle.
const (
	bundlePages = 10_000   // URLs that changed, those that are not told too
	bundlePage  = 16 << 20 // bytes of a page; a larger one is to be asked for by its URL

	// packTime is how much work is done to gather changes whose expression
	// takes long, where nobody has said how far.
	packTime = 3 * time.Second

	// A group is what is read ahead, and packed by several at a time.
	groupPages = 64
	groupBytes = 2 << 20   // unless one page has more
	partBytes  = 128 << 10 // about what a processor's part of it has, where pages are small

	// inlineRatio is how much smaller pages are taken to get by being packed,
	// where it is guessed whether that is worth trying.
	inlineRatio = 16
)

// A pack is what a bundle holds: pages as they are last, each once.
type pack struct {
	from, to protocol.Cursor
	changes  []protocol.Change
	held     map[string]protocol.Digest // what the reader holds already; may be nil
}

// packAfter gathers what follows a cursor, up to a number of changes or to
// the cursor upTo, if that is not zero; where an expression is to be evaluated
// for long, or the pages are large, up to where that got.
//
// What a selection lets through decides which pages are told: of each, the
// last version that it let through.
func (n *Notifier) packAfter(ctx context.Context, t *turn, s *selection, after, upTo protocol.Cursor, most int) (*pack, error) {
	p := &pack{from: after, to: after}
	f := folding{byURL: make(map[string]*folded)}
	seen := make(map[string]struct{})
	enough, room := packTime, int64(MaxBundle)
	if !upTo.IsZero() {
		enough = queryWork // more than it took to find out where that is
	}
	for full := false; most > 0 && !full && (s.where == nil || t.worked() < enough) && (upTo.IsZero() || p.to.Seq < upTo.Seq); {
		changes, err := n.Log.Read(ctx, p.to, min(most, protocol.MaxBatch))
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			break
		}
		for i, c := range changes {
			seen[c.Item.URL] = struct{}{}
			if c.From != "" {
				seen[c.From] = struct{}{}
			}
			if full = len(seen) > bundlePages && (i > 0 || p.to != after) || !upTo.IsZero() && c.Seq > upTo.Seq; full {
				changes = changes[:i]
				break
			}
		}
		if len(changes) == 0 {
			break
		}
		most -= len(changes)
		for i := range changes {
			if err := t.rest(ctx); err != nil {
				return nil, err
			}
			c, _, ok, err := n.selects(ctx, s, changes[i])
			if err != nil {
				return nil, err
			}
			if ok {
				if room -= bundleWeight(&c); room < 0 && len(f.byURL) > 0 {
					full = true
					break
				}
				f.add(c)
			}
			p.to.Seq = changes[i].Seq
		}
	}
	p.changes = f.last()
	return p, nil
}

// bundleWeight is how many bytes the page of a change has at most in a bundle.
func bundleWeight(c *protocol.Change) int64 {
	switch {
	case c.Op == protocol.Delete || c.Item.Digest.IsZero() || c.Item.Length > bundlePage:
		return 0
	case c.Item.Length < 0:
		return bundlePage
	}
	return c.Item.Length
}

// folding makes of many changes one for each URL.
type folding struct{ byURL map[string]*folded }

type folded struct {
	change  protocol.Change
	existed bool            // before the first of its changes
	prev    protocol.Digest // then
	steps   int
}

func (f *folding) add(c protocol.Change) {
	if c.Op == protocol.Move {
		f.put(protocol.Change{Seq: c.Seq, At: c.At, Op: protocol.Delete, Prev: c.Prev, Item: protocol.Item{URL: c.From, Length: -1}})
		c.Op, c.From, c.Prev, c.Significance = protocol.Create, "", protocol.Digest{}, 0
	}
	f.put(c)
}

func (f *folding) put(c protocol.Change) {
	l := f.byURL[c.Item.URL]
	if l == nil {
		l = &folded{existed: c.Op != protocol.Create, prev: c.Prev}
		f.byURL[c.Item.URL] = l
	}
	l.change = c
	l.steps++
}

// last returns the changes by their number. A page that was there before is
// updated, however often it went and came again meanwhile.
func (f *folding) last() []protocol.Change {
	folds := slices.SortedFunc(maps.Values(f.byURL), func(a, b *folded) int {
		return cmp.Or(cmp.Compare(a.change.Seq, b.change.Seq), cmp.Compare(a.change.Item.URL, b.change.Item.URL))
	})
	list := make([]protocol.Change, 0, len(folds))
	for _, l := range folds {
		c := l.change
		if l.steps > 1 {
			c.Significance = 0 // of the last step alone
			switch {
			case c.Op == protocol.Delete:
				if l.existed {
					c.Prev = l.prev
				}
			case l.existed:
				c.Op, c.Prev = protocol.Update, l.prev
			default:
				c.Op, c.Prev = protocol.Create, protocol.Digest{}
			}
		}
		list = append(list, c)
	}
	return list
}

// dueBundle returns a *notYet while a listener's bundle is to gather more: for
// so long since the first change in it, and of so many.
func (n *Notifier) dueBundle(ctx context.Context, s *selection, after protocol.Cursor) error {
	full := func(head protocol.Cursor) bool {
		return head.Epoch != after.Epoch || head.Seq >= after.Seq+uint64(s.count)
	}
	if s.every == 0 || full(n.Log.Head()) {
		return nil
	}
	first, err := n.Log.Read(ctx, after, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	if s.gathers.after != after {
		s.gathers.after, s.gathers.since = after, time.Now()
	}
	// A clock that was ahead, or is put back, must not hold up for longer what is there already.
	rest := min(first[0].At.Add(s.every).Sub(n.Now()), s.every-time.Since(s.gathers.since))
	if rest <= 0 {
		return nil
	}
	end := time.Now().Add(rest)
	return &notYet{until: func(ctx context.Context) error {
		gathering, due := context.WithDeadline(ctx, end)
		defer due()
		for head := n.Log.Head(); !full(head); head = n.Log.Head() {
			if err := n.Log.Wait(gathering, head); err != nil {
				if gathering.Err() != nil {
					err = ctx.Err() // none, if it is due
				}
				return err
			}
		}
		return nil
	}}
}

// nextBundle returns the changes after a cursor as one Bundle, and as a Batch
// of none where there is nothing to tell. Of more changes than the selection
// counts, or limit if that is not zero, it takes the first.
func (n *Notifier) nextBundle(ctx context.Context, t *turn, s *selection, after protocol.Cursor, limit int) (protocol.Message, error) {
	most := s.count
	if limit > 0 {
		most = min(most, limit)
	}
	p, err := n.packAfter(ctx, t, s, after, protocol.Cursor{}, most)
	if err == nil && p.to == after {
		err = n.atHead(after)
	}
	if err != nil {
		return protocol.Message{}, err
	}
	m := protocol.Message{Kind: protocol.Bundle, From: after, To: p.to, N: len(p.changes)}
	if m.N == 0 {
		m.Kind = protocol.Batch
		return m, nil
	}
	inline, err := n.inline(ctx, p)
	switch {
	case err == nil:
		m.Body = protocol.Body{Coding: protocol.CodingArchive, Bytes: inline, Length: int64(len(inline))}
	case errors.Is(err, errTooLarge):
		m.Body = protocol.Body{Coding: protocol.CodingArchive, Href: n.bundleURL(s, after, p.to), Length: -1}
	default:
		return protocol.Message{}, fmt.Errorf("tell bundle after %v: %w", after, err)
	}
	return m, nil
}

// bundleURL is where the bundle of a selection between two cursors is to be asked for.
func (n *Notifier) bundleURL(s *selection, after, to protocol.Cursor) string {
	q := s.filter.Query()
	q.Set("after", after.String())
	q.Set("to", to.String())
	return n.Base + batchPath + "?" + q.Encode()
}

var errTooLarge = errors.New("larger than fits into a message")

// inline packs what fits into a message.
func (n *Notifier) inline(ctx context.Context, p *pack) ([]byte, error) {
	room := int64(protocol.MaxInline)
	for i := range p.changes {
		if room -= p.changes[i].Item.Length / inlineRatio; room < 0 {
			return nil, errTooLarge
		}
	}
	var b bounded
	if err := n.writePack(ctx, &b, p, bundle.Gzip, nil); err != nil {
		return nil, err
	}
	return b.b, nil
}

// bounded is a writer to memory, of what fits into a message.
type bounded struct{ b []byte }

func (w *bounded) Write(p []byte) (int, error) {
	if len(w.b)+len(p) > protocol.MaxInline {
		return 0, errTooLarge
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

// packers are lent out, by their coding, with the memory that they pack in: it
// takes more to be made than to pack a page.
type packers struct{ gzip, zstd, plain sync.Pool }

type packer struct {
	*bundle.Packer
	plain, sealed []byte
	home          *sync.Pool
}

func (p *packers) lend(c bundle.Coding) *packer {
	home := &p.gzip
	switch c {
	case bundle.Zstd:
		home = &p.zstd
	case bundle.Plain:
		home = &p.plain
	}
	lent, ok := home.Get().(*packer)
	if !ok {
		lent = &packer{Packer: bundle.NewPacker(c), plain: make([]byte, 0, partBytes), home: home}
	}
	return lent
}

func (p *packer) giveBack() {
	if cap(p.plain) > 2*groupBytes { // of a large page
		p.plain, p.sealed = nil, nil
	}
	p.home.Put(p)
}

// writePack writes a bundle. While one group of pages is being written the next
// one waits, and the one after that is read; more is never held. Pages that are not to be had are left
// out, and their change says so: a later one tells what became of them. For s,
// if it is not nil, it takes a turn for each group.
func (n *Notifier) writePack(ctx context.Context, w io.Writer, p *pack, c bundle.Coding, s *selection) error {
	ctx, stop := context.WithCancel(ctx)
	groups := make(chan []packed, 1)
	go func() {
		defer close(groups)
		for rest := p.changes; len(rest) > 0 && ctx.Err() == nil; {
			k := groupOf(rest)
			var t *turn
			if s != nil {
				var err error
				if t, err = n.turn(ctx, s, true); err != nil {
					return
				}
			}
			g := n.packGroup(ctx, p, rest[:k], c)
			t.leave()
			select {
			case groups <- g:
			case <-ctx.Done():
			}
			rest = rest[k:]
		}
	}()
	defer func() {
		stop()
		for range groups {
		}
	}()
	out := bundle.NewWriter(w, bundle.Head{From: p.from, To: p.to, Changes: len(p.changes), At: newestOf(p.changes)}, c)
	for g := range groups {
		for i := range g {
			if g[i].err != nil {
				return g[i].err
			}
			if err := out.AddPacked(g[i].records, g[i].changes, g[i].pages); err != nil {
				return err
			}
			if g[i].in != nil {
				g[i].in.giveBack()
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return out.Close()
}

func newestOf(changes []protocol.Change) (t time.Time) {
	for i := range changes {
		t = clock.Later(t, changes[i].At)
	}
	return t
}

// groupOf is how many of the changes make the next group.
func groupOf(changes []protocol.Change) int {
	size := int64(0)
	for i := range changes {
		if size += max(0, changes[i].Item.Length); i == groupPages || i > 0 && size > groupBytes {
			return i
		}
	}
	return len(changes)
}

// packed is the records of some changes.
type packed struct {
	records        []byte
	changes, pages int
	in             *packer // whose memory records are; nil if they are nobody else's
	err            error
}

// packGroup reads the pages of a group and packs them, each processor a part.
func (n *Notifier) packGroup(ctx context.Context, p *pack, changes []protocol.Change, c bundle.Coding) []packed {
	list := make([]packed, workers(len(changes)))
	inParts(len(changes), func(k, from, to int) { list[k] = n.packPart(ctx, p, changes[from:to], c) })
	return list
}

// workers is how many processors work at so many things.
func workers(things int) int { return min(runtime.GOMAXPROCS(0), 4, things) }

// inParts calls f with the parts of so many things, all at the same time.
func inParts(things int, f func(k, from, to int)) {
	most := workers(things)
	var wait sync.WaitGroup
	for k := range most {
		wait.Go(func() { f(k, k*things/most, (k+1)*things/most) })
	}
	wait.Wait()
}

func (n *Notifier) packPart(ctx context.Context, p *pack, changes []protocol.Change, c bundle.Coding) packed {
	// What is plain is large, and about as soon made anew as found: it is not kept.
	var key partKey
	if c != bundle.Plain {
		key = keyOf(p, changes, c)
		if part, ok := n.bundled.get(key); ok && n.present(p, changes) {
			return part
		} else if ok {
			n.bundled.drop(key)
		}
	}
	packer := n.packers.lend(c)
	part := packed{changes: len(changes)}
	records, whole := packer.plain[:0], true
	for i := range changes {
		page, err := n.pageOf(ctx, p, &changes[i])
		if err != nil {
			return packed{err: err}
		}
		if page != nil {
			part.pages++
		} else if p.wants(&changes[i]) {
			whole = false
		}
		records, _ = packer.Append(records, p.to.Epoch, &changes[i], page)
	}
	packer.plain = records
	if c == bundle.Plain {
		part.records, part.in = records, packer
		return part
	}
	packer.sealed = packer.Seal(packer.sealed[:0], records)
	part.records = bytes.Clone(packer.sealed)
	packer.giveBack()
	if whole { // else a page may be to be had later
		n.bundled.put(key, part)
	}
	return part
}

// present reports whether all pages that come with changes are still what they were.
func (n *Notifier) present(p *pack, changes []protocol.Change) bool {
	pages, ok := n.Pages.(Presence)
	if !ok {
		return !slices.ContainsFunc(changes, func(c protocol.Change) bool { return p.wants(&c) }) // nobody can say
	}
	for i := range changes {
		if p.wants(&changes[i]) && !pages.Present(&changes[i].Item) {
			return false
		}
	}
	return true
}

// wants reports whether the page of a change is to come with it.
func (p *pack) wants(c *protocol.Change) bool {
	return c.Op != protocol.Delete && !c.Item.Digest.IsZero() && p.held[c.Item.URL] != c.Item.Digest
}

// pageOf returns the page of a change, nil if it has none, is held by the
// reader, or is not to be had.
func (n *Notifier) pageOf(ctx context.Context, p *pack, c *protocol.Change) ([]byte, error) {
	if !p.wants(c) {
		return nil, ctx.Err()
	}
	page, err := n.Pages.Page(ctx, &c.Item, bundlePage)
	switch {
	case err == nil && page == nil:
		return []byte{}, nil // an empty page is a page
	case err == nil:
		return page, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !errors.Is(err, ErrNoVersion):
		orDiscard(n.Logger).Warn("page could not be read", "url", c.Item.URL, "err", err)
	}
	return nil, nil
}

// ours reports whether a URL is of the site's origin, and canonical.
func (n *Notifier) ours(url string) bool {
	u, err := protocol.CanonicalURL("", url)
	return err == nil && u == url && strings.HasPrefix(url, protocol.Origin(n.Base)+"/")
}
