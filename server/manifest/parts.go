package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// A manifest in parts is an index and a directory of parts, see package protocol. What follows the journal change by
// change is a change part for what was touched since the last index; page parts are rewritten only when the change
// parts have become long (a fold), or for a withdrawal: a URL that is gone because it is not public any more.
// Everything is compared again (a rebuild) where the journal cannot tell what changed.
const (
	mostChanged = 24               // change parts of an index
	mostFolded  = 64               // page parts that one pass rewrites for a fold
	foldTime    = time.Second / 2  // after which a fold is left to the next pass
	newestItems = 15               // items of the index itself, for feed readers
	quietEvery  = time.Hour        // the shortest time between rebuilds for what no change tells
	oldChanged  = 10 * time.Minute // how long a change part stays that no index names any more
	oldPages    = 6 * time.Hour    // how long a page part does
)

// parted is what a Snapshot has for a manifest in parts.
type parted struct {
	state  *partsState           // nil: not read yet
	begins func(url string) bool // which URLs begin a page part; nil: protocol.BeginsPart
	least  int                   // entries in change parts before a fold; 0: 1,000
	disk   partFiles             // the directory
}

// inParts reports whether a site of n items has its manifest in parts. One that has does not go back to one file
// until it is half as large.
func (s *Snapshot) inParts(n int, was bool) bool {
	return s.Parts > 0 && n > 0 && (n >= s.Parts || was && n >= s.Parts/2)
}

func (s *Snapshot) isPublic(url string) bool { return s.Public == nil || s.Public(url) }

func (s *Snapshot) begins(url string) bool {
	if s.parted.begins != nil {
		return s.parted.begins(url)
	}
	return protocol.BeginsPart(url)
}

// foldAt returns how many entries the change parts of a site of n items may have.
func (s *Snapshot) foldAt(n int) int {
	return min(max(cmp.Or(s.parted.least, 1000), n/100), protocol.MaxChangedItems/16)
}

// errRebuild says that changes alone do not lead to the next index.
var errRebuild = errors.New("everything must be compared")

// A pass leads from one index to the next.
type pass struct {
	s     *Snapshot
	j     *journal.Journal
	v     *journal.View
	at    protocol.Cursor
	begun time.Time

	config string // hash of what a part depends on besides its entries

	was  *partsState
	now  partsState
	gone bool // a URL was withdrawn: what is not named any more is removed at once
	more bool // a fold has not ended

	latest []protocol.Item // those with the latest dates of what has changed, or of all after a rebuild, latest first
}

// A dirt says whether a page part is to be rewritten.
type dirt uint8

const (
	clean dirt = iota
	stale      // so that change parts can be dropped, in this pass or a later one
	holds      // since it holds a withdrawn URL
)

// partsDraft brings the parts up to the journal's head, and notes them. It returns the draft of the index; more says
// that a fold is left to the next Write.
func (s *Snapshot) partsDraft(ctx context.Context, j *journal.Journal, v *journal.View, quiet string) (d *draft, more bool, err error) {
	p := &pass{s: s, j: j, v: v, at: v.Head(), begun: clock.Now(s.Now), was: s.parted.state}
	if p.config, err = configOf(s.partHead(0)); err != nil {
		return nil, false, err
	}
	if err := s.parted.disk.open(s.partsDir()); err != nil {
		return nil, false, err
	}
	defer func() { s.parted.disk.keep(s.parted.state) }() // after an error too
	if p.was.Quiet != quiet && p.begun.Sub(p.was.Full).Abs() >= quietEvery {
		err = errRebuild
	} else {
		err = p.follow(ctx)
	}
	if errors.Is(err, errRebuild) {
		p.now = partsState{wholeNote: wholeNote{Quiet: quiet, Full: p.begun}}
		p.more = false
		err = p.rebuild(ctx)
	}
	if err != nil {
		return nil, false, err
	}
	p.now.Config, p.now.Cursor = p.config, p.at
	items, err := p.newest()
	if err != nil {
		return nil, false, err
	}
	d = &draft{m: s.Manifest, items: each(items)}
	d.m.Cursor, d.m.Complete = protocol.Cursor{}, false
	d.m.Modified, d.m.Items, d.m.Whole = v.Modified(), len(items), p.now.whole()
	v.Close()
	if err := s.parted.disk.sync(); err != nil {
		return nil, false, err
	}
	p.retire()
	if err := p.now.store(j, p.was); err != nil {
		return nil, false, err
	}
	s.parted.state = &p.now
	return d, p.more, nil
}

// retire adds the parts that are not named any more to the old ones.
func (p *pass) retire() {
	p.now.old = make(map[string]oldPart)
	maps.Copy(p.now.old, p.was.old)
	for _, x := range p.was.pages {
		p.now.old[fileName(x.Digest)] = oldPart{Until: p.begun.Add(oldPages), Length: x.Length}
	}
	for _, x := range p.was.Changed {
		p.now.old[fileName(x.Digest)] = oldPart{Until: p.begun.Add(oldChanged), Length: x.Length}
	}
	for x := range p.now.parts() {
		delete(p.now.old, fileName(x.Digest))
	}
	if p.gone {
		for name, o := range p.now.old {
			p.now.old[name] = oldPart{Length: o.Length}
		}
	}
}

// sweep removes files of parts that are not named any more, once the index is in place: those whose time has come, and
// files that no note names, of a process that was killed. Without a state they all go.
func (s *Snapshot) sweep() error {
	st, disk := s.parted.state, &s.parted.disk
	swept := false
	for _, name := range st.oldest(clock.Now(s.Now)) {
		if err := disk.remove(name); err != nil {
			return err
		}
		delete(st.old, name)
		st.swept, swept = append(st.swept, name), true
	}
	for name := range disk.sizes {
		if !st.names(name) {
			if err := disk.remove(name); err != nil {
				return err
			}
			swept = true
		}
	}
	if !swept {
		return nil
	}
	return disk.sync()
}

// leaveParts removes the parts of a site that has its manifest in one file now, which is in place.
func (s *Snapshot) leaveParts(j *journal.Journal) error {
	st, dir := s.parted.state, s.partsDir()
	if _, err := os.Stat(dir); err == nil {
		if err := s.parted.disk.open(dir); err != nil {
			return err
		}
		s.parted.state = &partsState{}
		if err := s.sweep(); err != nil {
			s.parted.state = st
			return err
		}
		os.Remove(dir) // unless somebody else has put something there
		s.parted.disk.sizes = nil
	}
	s.parted.state = &partsState{}
	if st.isNone() && len(st.old) == 0 {
		return nil
	}
	return s.parted.state.store(j, st)
}

// follow makes the next state from the changes since the last one.
func (p *pass) follow(ctx context.Context) error {
	was := p.was
	if was.Unsure || was.Config != p.config || !p.s.parted.disk.has(was) {
		return errRebuild
	}
	p.now = partsState{wholeNote: was.wholeNote, pages: was.pages}
	p.now.Items = p.v.Len()
	t, err := p.touched(ctx, was.Cursor)
	if err != nil {
		return err
	}
	if t.many || t.hidden {
		return errRebuild
	}
	dirty := make([]dirt, len(was.pages))
	if err := p.change(t, dirty); err != nil {
		return err
	}
	drop, err := p.fold(ctx, dirty)
	if err != nil {
		return err
	}
	if p.now.pages, err = p.rewrite(ctx, dirty); err != nil {
		return err
	}
	if !p.more {
		p.now.Changed = p.now.Changed[drop:]
	}
	return nil
}

// A touchedSet is the URLs touched after a cursor, as they are now.
type touchedSet struct {
	after     uint64
	items     []protocol.Item
	gone      []protocol.Tombstone
	withdrawn []string // in gone, because they are not public any more
	hidden    bool     // in gone, though the journal has them: the rules changed after its last scan
	many      bool     // too many for a change part: only withdrawn is complete
}

func (t *touchedSet) len() int { return len(t.items) + len(t.gone) }

// touched reads the changes after a cursor.
func (p *pass) touched(ctx context.Context, after protocol.Cursor) (*touchedSet, error) {
	t := &touchedSet{after: after.Seq}
	if after.Epoch != p.at.Epoch || after.Seq > p.at.Seq {
		p.gone = true // unknown, to be safe
		return nil, errRebuild
	}
	urls := make(map[string]protocol.Tombstone) // the last one of each, if any
	most := p.s.foldAt(p.v.Len())
	for at := after; at.Seq < p.at.Seq; {
		changes, err := p.j.Read(ctx, at, int(min(p.at.Seq-at.Seq, protocol.MaxBatch)))
		if errors.Is(err, protocol.ErrTooOld) || errors.Is(err, protocol.ErrEpoch) {
			p.gone = true
			return nil, errRebuild
		} else if err != nil {
			return nil, err
		}
		for _, c := range changes {
			at.Seq = c.Seq
			dead, isDead := c.Tombstone()
			p.gone = p.gone || isDead && !p.s.isPublic(dead.URL)
			if t.many = t.many || len(urls) > most; t.many {
				continue
			}
			if isDead {
				urls[dead.URL] = dead
			}
			if c.Op != protocol.Delete {
				urls[c.Item.URL] = protocol.Tombstone{URL: c.Item.URL}
			}
		}
	}
	if t.many {
		return t, nil
	}
	for _, dead := range urls {
		e, ok, err := p.v.Get(dead.URL)
		if err != nil {
			return nil, err
		}
		switch public := p.s.isPublic(dead.URL); {
		case ok && public:
			t.items = append(t.items, e.Item)
			continue
		case ok:
			t.hidden, p.gone = true, true
		case !public:
			t.withdrawn = append(t.withdrawn, dead.URL)
		}
		t.gone = append(t.gone, dead)
	}
	for _, it := range t.items {
		p.latest = addLatest(p.latest, it)
	}
	slices.SortFunc(t.items, func(a, b protocol.Item) int { return protocol.Compare(a.URL, b.URL) })
	slices.SortFunc(t.gone, func(a, b protocol.Tombstone) int { return protocol.Compare(a.URL, b.URL) })
	return t, nil
}

// change adds a change part for what was touched, and merges it with the last ones: with those that have no more
// entries, and with all from the first that holds a withdrawn URL. It marks page parts that hold one as dirty.
func (p *pass) change(t *touchedSet, dirty []dirt) error {
	if t.len() == 0 {
		return nil
	}
	list, n := p.now.Changed, t.len()
	k := len(list)
	most, bytes := p.s.foldAt(p.v.Len())/4, int64(0)
	for ; k > 0 && list[k-1].Items <= n && n+list[k-1].Items <= most && bytes+list[k-1].Length <= protocol.MaxPart/2; k-- {
		n, bytes = n+list[k-1].Items, bytes+list[k-1].Length
	}
	k = min(k, mostChanged-1)
	for _, url := range t.withdrawn {
		i, err := p.holds(url, list[:k], dirty)
		if err != nil {
			return err
		}
		k = min(k, i)
	}
	part, err := p.merge(list[k:], t)
	if err != nil {
		return err
	}
	p.now.Changed = append(slices.Clone(list[:k]), part)
	bytes, n = 0, 0
	for _, x := range p.now.Changed {
		bytes, n = bytes+x.Length, n+x.Items
	}
	if bytes > protocol.MaxChanged || n > protocol.MaxChangedItems {
		return errRebuild
	}
	return nil
}

// holds returns which of the change parts is the first that holds a URL, len(list) if none does, and marks the page
// part that holds it.
func (p *pass) holds(url string, list []protocol.Part, dirty []dirt) (int, error) {
	name := []byte(`"` + strings.ReplaceAll(url, "&", "&amp;") + `"`)
	if i := p.now.pageOf(url); i >= 0 && dirty[i] == clean {
		b, err := p.read(&p.now.pages[i].Part)
		if err != nil {
			return 0, err
		}
		if bytes.Contains(b, name) {
			dirty[i] = holds
		}
	}
	for i := range list {
		b, err := p.read(&list[i])
		if err != nil {
			return 0, err
		}
		if bytes.Contains(b, name) {
			return i, nil
		}
	}
	return len(list), nil
}

// read returns the content of a part.
func (p *pass) read(part *protocol.Part) ([]byte, error) {
	b, err := os.ReadFile(p.s.parted.disk.path(fileName(part.Digest)))
	if err == nil {
		err = part.Check(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRebuild, err)
	}
	return b, nil
}

// merge writes the change part that has what was touched, and what the given parts before it have.
func (p *pass) merge(list []protocol.Part, t *touchedSet) (part protocol.Part, err error) {
	items, gone, after := t.items, t.gone, t.after
	if len(list) > 0 {
		last, b, err := p.s.makePart(items, gone)
		if err != nil {
			return part, err
		}
		last.After, last.Seq, after = t.after, p.at.Seq, list[0].After
		open := func(part *protocol.Part) ([]byte, error) {
			if part.Seq == last.Seq {
				return b, nil
			}
			return p.read(part)
		}
		items, gone = nil, nil
		w := &protocol.Whole{Cursor: p.at, Changed: append(slices.Clone(list), last)}
		for rec, err := range w.ChangesAfter(protocol.Cursor{Epoch: p.at.Epoch, Seq: after}, open, protocol.ManifestOptions{}) {
			switch {
			case err != nil:
				return part, fmt.Errorf("%w: %w", errRebuild, err)
			case rec.Gone != nil:
				gone = append(gone, *rec.Gone)
			case !p.s.isPublic(rec.Item.URL):
				return part, errRebuild
			default:
				items = append(items, rec.Item)
			}
		}
	}
	for i := range gone {
		if gone[i].To != "" && !p.s.isPublic(gone[i].To) {
			gone[i].To = ""
		}
	}
	part, err = p.put(items, gone)
	part.After = after
	return part, err
}

// put writes a part as of now.
func (p *pass) put(items []protocol.Item, gone []protocol.Tombstone) (part protocol.Part, err error) {
	part, b, err := p.s.makePart(items, gone)
	if err != nil {
		return part, err
	}
	if len(b) > protocol.MaxPart {
		return part, errRebuild
	}
	part.Seq = p.at.Seq
	name := fileName(part.Digest)
	return part, p.s.parted.disk.put(name, b, p.was.names(name))
}

// makePart returns a part and its content.
func (s *Snapshot) makePart(items []protocol.Item, gone []protocol.Tombstone) (protocol.Part, []byte, error) {
	var b bytes.Buffer
	if err := protocol.WriteManifest(&b, s.partHead(len(items)), each(items), each(gone)); err != nil {
		return protocol.Part{}, nil, err
	}
	part := protocol.Part{Items: len(items) + len(gone), Length: int64(b.Len()), Digest: protocol.Sum(b.Bytes())}
	part.URL = s.partURL(part.Digest)
	return part, b.Bytes(), nil
}

// partHead returns the head of a part with n items.
func (s *Snapshot) partHead(n int) protocol.Manifest {
	return protocol.Manifest{URL: s.Manifest.URL, Base: s.Manifest.Base, Items: n}
}

// fold decides which page parts to rewrite so that the oldest change parts can be dropped: it marks those as dirty, and
// moves the others forward. It returns how many change parts can be dropped then.
func (p *pass) fold(ctx context.Context, dirty []dirt) (drop int, err error) {
	list, n := p.now.Changed, 0
	for i := range list {
		n += list[i].Items
	}
	most := p.s.foldAt(p.v.Len())
	if n <= most {
		return 0, nil
	}
	for ; n > most/2 && drop < len(list); drop++ {
		n -= list[drop].Items
	}
	to := p.at
	if drop < len(list) {
		to.Seq = list[drop].After
	}
	w := &protocol.Whole{Cursor: to, Changed: list[:drop]}
	touched := make([]bool, len(p.now.pages))
	for rec, err := range w.ChangesAfter(protocol.Cursor{Epoch: to.Epoch, Seq: list[0].After}, p.read, protocol.ManifestOptions{}) {
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errRebuild, err)
		}
		url := rec.Item.URL
		if rec.Gone != nil {
			url = rec.Gone.URL
		}
		if i := p.now.pageOf(url); i >= 0 {
			touched[i] = true
		}
	}
	p.now.pages = slices.Clone(p.now.pages)
	folded := 0
	for i := range p.now.pages {
		switch x := &p.now.pages[i]; {
		case x.Seq >= to.Seq:
		case !touched[i]:
			x.Seq = to.Seq
		case dirty[i] == holds:
		case folded < mostFolded:
			dirty[i], folded = stale, folded+1
		default:
			p.more = true
		}
	}
	return drop, ctx.Err()
}

// rebuild makes the next state from all entries. Its change part, if any, has what the last state's had, too.
func (p *pass) rebuild(ctx context.Context) (err error) {
	after := p.was.Cursor
	if len(p.was.Changed) > 0 {
		after.Seq = p.was.Changed[0].After
	}
	t, err := p.touched(ctx, after)
	if err != nil && !errors.Is(err, errRebuild) {
		return err
	}
	if err == nil && !t.many && t.len() > 0 {
		part, err := p.merge(nil, t)
		switch {
		case err == nil:
			p.now.Changed = []protocol.Part{part}
		case !errors.Is(err, errRebuild): // else it is too long
			return err
		}
	}
	p.latest = nil
	pages, err := p.cut(ctx, func(yield func(journal.Entry, error) bool) {
		for e, err := range p.v.Entries() {
			p.latest = addLatest(p.latest, e.Item)
			if !yield(e, err) {
				return
			}
		}
	})
	p.now.pages = pages
	for i := range pages {
		p.now.Items += pages[i].Items
	}
	return err
}

// newest returns the items of the index itself, in order: those that have changed since the last one, or those with the
// latest dates after a rebuild, and then those of the last one.
func (p *pass) newest() (items []protocol.Item, err error) {
	var urls []string
	for _, it := range p.latest {
		urls = append(urls, it.URL)
	}
	p.now.Newest = nil
	for _, url := range append(urls, p.was.Newest...) {
		if len(items) == newestItems {
			break
		}
		e, ok, err := p.v.Get(url)
		if err != nil {
			return nil, err
		}
		if ok && p.s.isPublic(url) && !slices.Contains(p.now.Newest, url) {
			items, p.now.Newest = append(items, e.Item), append(p.now.Newest, url)
		}
	}
	slices.SortFunc(items, func(a, b protocol.Item) int { return protocol.Compare(a.URL, b.URL) })
	return items, nil
}

// addLatest adds an item to a list of those with the latest dates, latest first, as long as an index has.
func addLatest(list []protocol.Item, it protocol.Item) []protocol.Item {
	if n := len(list); n == newestItems {
		if !it.Modified.After(list[n-1].Modified) {
			return list
		}
		list = list[:n-1]
	}
	i, _ := slices.BinarySearchFunc(list, it, func(a, b protocol.Item) int { return b.Modified.Compare(a.Modified) })
	return slices.Insert(list, i, it)
}
