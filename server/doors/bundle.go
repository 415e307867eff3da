package doors

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
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/limit"
)

// MaxBundle bounds the bytes of pages in a bundle, unless one page has more: the rest comes
// with the next bundle. Readers accept twice as much.
const MaxBundle = 2 << 30

// Bounds of a bundle.
const (
	bundlePages = 10_000   // URLs that changed, including those that are not sent
	bundlePage  = 16 << 20 // bytes of a page; a larger one must be fetched by its URL

	// packTime bounds the work of gathering changes with a slow expression, if the
	// request names no upper cursor.
	packTime = 3 * time.Second

	// A group is read ahead, and packed by several processors.
	groupPages = 64
	groupBytes = 2 << 20   // unless one page has more
	partBytes  = 128 << 10 // about the size of a processor's part of it, where pages are small

	// inlineRatio is the assumed compression ratio of pages, for the guess whether
	// packing them inline is worth trying.
	inlineRatio = 16
)

// Bundles packs many changes with their pages. Any number of goroutines may use it.
type bundles struct {
	*site
	pages   content.Pages
	packers packers
	packed  bundleCache
}

// A pack is the content of a bundle: the last change of each URL.
type pack struct {
	from, to protocol.Cursor
	changes  []protocol.Change
	held     map[string]protocol.Digest // what the reader already has; may be nil
}

// packAfter gathers the changes after a cursor: at most most of them, and up to the
// cursor upTo, if that is not zero; fewer if the expression takes long or the
// pages are large.
//
// The selection decides which changes are sent: of each page, the last version
// that it accepted.
func (b *bundles) packAfter(ctx context.Context, t *limit.Slot, s *selection, after, upTo protocol.Cursor, most int) (*pack, error) {
	p := &pack{from: after, to: after}
	f := folding{byURL: make(map[string]*folded)}
	seen := make(map[string]struct{})
	enough, room := packTime, int64(MaxBundle)
	if !upTo.IsZero() {
		enough = queryWork // more than it took to find upTo
	}
	for full := false; most > 0 && !full && (s.where == nil || t.Worked() < enough) && (upTo.IsZero() || p.to.Seq < upTo.Seq); {
		changes, err := b.log.Read(ctx, p.to, min(most, protocol.MaxBatch))
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
			if err := t.Renew(ctx); err != nil {
				return nil, err
			}
			c, _, ok, err := s.selects(ctx, changes[i])
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

// bundleWeight is the most bytes that the page of a change adds to a bundle.
func bundleWeight(c *protocol.Change) int64 {
	switch {
	case c.Op == protocol.Delete || c.Item.Digest.IsZero() || c.Item.Length > bundlePage:
		return 0
	case c.Item.Length < 0:
		return bundlePage
	}
	return c.Item.Length
}

// folding merges many changes into one for each URL.
type folding struct{ byURL map[string]*folded }

type folded struct {
	change  protocol.Change
	existed bool            // before the first of its changes
	prev    protocol.Digest // before the first of its changes
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

// last returns the merged changes in the order of Seq. A page that existed before is
// updated, however often it was deleted and created meanwhile.
func (f *folding) last() []protocol.Change {
	folds := slices.SortedFunc(maps.Values(f.byURL), func(a, b *folded) int {
		return cmp.Or(cmp.Compare(a.change.Seq, b.change.Seq), cmp.Compare(a.change.Item.URL, b.change.Item.URL))
	})
	list := make([]protocol.Change, 0, len(folds))
	for _, l := range folds {
		c := l.change
		if l.steps > 1 {
			c.Significance = 0 // it is that of the last step alone
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

// due returns a *notReady while a subscriber's bundle must wait: until s.every
// after its first change, or until it has s.count changes.
func (b *bundles) due(ctx context.Context, s *selection, after protocol.Cursor) error {
	full := func(head protocol.Cursor) bool {
		return head.Epoch != after.Epoch || head.Seq >= after.Seq+uint64(s.count)
	}
	if s.every == 0 || full(b.log.Head()) {
		return nil
	}
	first, err := b.log.Read(ctx, after, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	if s.gathers.after != after {
		s.gathers.after, s.gathers.since = after, time.Now()
	}
	// A clock that was ahead, or is put back, must not delay existing changes for longer.
	rest := min(first[0].At.Add(s.every).Sub(b.now()), s.every-time.Since(s.gathers.since))
	if rest <= 0 {
		return nil
	}
	end := time.Now().Add(rest)
	return &notReady{until: func(ctx context.Context) error {
		gathering, due := context.WithDeadline(ctx, end)
		defer due()
		for head := b.log.Head(); !full(head); head = b.log.Head() {
			if err := b.log.Wait(gathering, head); err != nil {
				if gathering.Err() != nil {
					err = ctx.Err() // nil if the bundle is due
				}
				return err
			}
		}
		return nil
	}}
}

// next returns the changes after a cursor as one Bundle, and as an empty
// Batch if none is to be sent. It has at most as many changes as the selection's
// count, or limit if that is not zero and smaller.
func (b *bundles) next(ctx context.Context, t *limit.Slot, s *selection, after protocol.Cursor, count int) (protocol.Message, error) {
	most := s.count
	if count > 0 {
		most = min(most, count)
	}
	p, err := b.packAfter(ctx, t, s, after, protocol.Cursor{}, most)
	if err == nil && p.to == after {
		err = b.atHead(after)
	}
	if err != nil {
		return protocol.Message{}, err
	}
	m := protocol.Message{Kind: protocol.Bundle, From: after, To: p.to, N: len(p.changes)}
	if m.N == 0 {
		m.Kind = protocol.Batch
		return m, nil
	}
	inline, err := b.inline(ctx, p)
	switch {
	case err == nil:
		m.Body = protocol.Body{Coding: protocol.CodingArchive, Bytes: inline, Length: int64(len(inline))}
	case errors.Is(err, errTooLarge):
		m.Body = protocol.Body{Coding: protocol.CodingArchive, Href: s.bundleURL(after, p.to), Length: -1}
	default:
		return protocol.Message{}, fmt.Errorf("build bundle after %v: %w", after, err)
	}
	return m, nil
}

var errTooLarge = errors.New("too large for a message")

// inline packs a bundle that fits into a message, or returns errTooLarge.
func (b *bundles) inline(ctx context.Context, p *pack) ([]byte, error) {
	room := int64(protocol.MaxInline)
	for i := range p.changes {
		if room -= p.changes[i].Item.Length / inlineRatio; room < 0 {
			return nil, errTooLarge
		}
	}
	var w bounded
	if err := b.writePack(ctx, &w, p, bundle.Gzip, nil); err != nil {
		return nil, err
	}
	return w.b, nil
}

// bounded is a writer to memory, of at most protocol.MaxInline bytes.
type bounded struct{ b []byte }

func (w *bounded) Write(p []byte) (int, error) {
	if len(w.b)+len(p) > protocol.MaxInline {
		return 0, errTooLarge
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

// packers are pools, by coding, of packers with their buffers: making one takes longer
// than packing a page.
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
	if cap(p.plain) > 2*groupBytes { // it held a large page
		p.plain, p.sealed = nil, nil
	}
	p.home.Put(p)
}

// writePack writes a bundle. While one group of pages is being written the next
// one waits, and the one after that is read; no more is in memory. Pages that are not
// available are left out, and their change says so: a later one tells what became of
// them. If s is not nil, it takes a slot for each group.
func (b *bundles) writePack(ctx context.Context, w io.Writer, p *pack, c bundle.Coding, s *selection) error {
	ctx, stop := context.WithCancel(ctx)
	groups := make(chan []packed, 1)
	go func() {
		defer close(groups)
		for rest := p.changes; len(rest) > 0 && ctx.Err() == nil; {
			k := groupOf(rest)
			var t *limit.Slot
			if s != nil {
				var err error
				if t, err = s.acquireSlot(ctx, true); err != nil {
					return
				}
			}
			g := b.packGroup(ctx, p, rest[:k], c)
			t.Release()
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

// groupOf returns how many of the changes form the next group.
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
	in             *packer // the owner of the records' memory; nil if they have their own
	err            error
}

// packGroup reads the pages of a group and packs them, one part per worker.
func (b *bundles) packGroup(ctx context.Context, p *pack, changes []protocol.Change, c bundle.Coding) []packed {
	list := make([]packed, workers(len(changes)))
	inParts(len(changes), func(k, from, to int) { list[k] = b.packPart(ctx, p, changes[from:to], c) })
	return list
}

// workers returns the number of goroutines for a number of things.
func workers(things int) int { return min(runtime.GOMAXPROCS(0), 4, things) }

// inParts divides a number of things into parts, calls f with each part, concurrently, and waits.
func inParts(things int, f func(k, from, to int)) {
	most := workers(things)
	var wait sync.WaitGroup
	for k := range most {
		wait.Go(func() { f(k, k*things/most, (k+1)*things/most) })
	}
	wait.Wait()
}

func (b *bundles) packPart(ctx context.Context, p *pack, changes []protocol.Change, c bundle.Coding) packed {
	// Plain parts are large, and about as fast made as found: they are not cached.
	var key partKey
	if c != bundle.Plain {
		key = keyOf(p, changes, c)
		if part, ok := b.packed.get(key); ok && b.present(p, changes) {
			return part
		} else if ok {
			b.packed.drop(key)
		}
	}
	packer := b.packers.lend(c)
	part := packed{changes: len(changes)}
	records, whole := packer.plain[:0], true
	for i := range changes {
		page, err := b.pageOf(ctx, p, &changes[i])
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
	if whole { // else a missing page may be available later
		b.packed.put(key, part)
	}
	return part
}

// present reports whether all pages sent with changes still have the same version.
func (b *bundles) present(p *pack, changes []protocol.Change) bool {
	for i := range changes {
		if p.wants(&changes[i]) && !b.pages.Present(&changes[i].Item) {
			return false
		}
	}
	return true
}

// wants reports whether the page of a change is to be sent with it.
func (p *pack) wants(c *protocol.Change) bool {
	return c.Op != protocol.Delete && !c.Item.Digest.IsZero() && p.held[c.Item.URL] != c.Item.Digest
}

// pageOf returns the page of a change, nil if it has none, the reader already has
// it, or it is not available.
func (b *bundles) pageOf(ctx context.Context, p *pack, c *protocol.Change) ([]byte, error) {
	if !p.wants(c) {
		return nil, ctx.Err()
	}
	page, err := b.pages.Page(ctx, &c.Item, bundlePage)
	switch {
	case err == nil && page == nil:
		return []byte{}, nil // an empty page is a page
	case err == nil:
		return page, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !errors.Is(err, content.ErrNoVersion):
		b.logger.Warn("page could not be read", "url", c.Item.URL, "err", err)
	}
	return nil, nil
}
