package collection

import (
	"encoding/binary"
	"math"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/collection/internal/urls"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// The pages bucket has a record of each page with more than its URL: one that was visited, announced,
// excluded or ranked again. Unknown parts take no space: a word of flags says which parts are there.
const (
	pageTold     = 1 << iota
	pageNoIndex  //
	pageClaim    // the last claim
	pageFailed   // Fails, Fault, Failed
	pageWhy      // why it is excluded
	pageHistory  // visits
	pageContent  // Digest, Length, Type
	pageParsed   // Parsed
	pageText     // Text
	pageNames    // Title, Language, Canonical
	pageMarks    // ETag, LastModified
	pagePlace    // Stored
	pageOriginal // Original
	pageTarget   // Target
	pageWeight   // Importance, if known
	pageScore    // Rank
	_
	pageAnswer   // Status, Latency, Took
	pageMissed   // Missed
	pageMissing  // the first 404
	pageFresh    // Modified of the history
	pageSaid     // Modified of the claim
	pageValue    // Value
	pageSure     // Confirmed of the history
	pageBelief   // Belief of the history
	pageNotices  // Notices, Noticed, Heard
	pageAsk      // FetchURL
	pageListed   // a manifest names it
	pageCut      // the body is truncated
	pageUnstable // Unstable
	pageDebtText // DebtText
	pageDebtSize // DebtLength
	pageNoFollow
	pageExpires // Expires of Heard
	pageSketch  // Sketch
)

// The longest strings stored of those that a site chooses, in bytes.
const (
	maxTitle = 300
	maxMark  = 500 // of a validator; a longer one is dropped
	maxField = 200
)

// appendPage appends the record of p, without its key and without what the urls bucket has.
func appendPage(b []byte, p *Page) []byte {
	from, key := len(b), record.PageKey(p.ID)
	x := record.Codec{Out: make([]byte, 0, 512)}
	codeParts(&x, p)
	b = append(b, byte(p.State), p.Signal.code())
	b = binary.AppendUvarint(binary.AppendUvarint(b, x.Parts), uint64(max(0, p.Depth)))
	b = append(record.AppendFloat(record.AppendTime(b, p.At), p.rank), x.Out...)
	return record.Seal(b, key[:], from)
}

// parsePage adds a record to p, which holds what the urls bucket has. The strings of p share one piece of memory. brief leaves out
// texts: of the site, and about it.
func parsePage(raw []byte, p *Page, brief bool) bool {
	key := record.PageKey(p.ID)
	x := record.Codec{Shares: !brief, Skips: brief}
	ok := x.Read(key[:], raw)
	d := &x.In
	p.State, p.Signal = State(d.Byte()), signalOf(d.Byte())
	x.Parts, p.Depth, p.At, p.rank = d.Uint(), d.Count(), d.Time(), d.Float()
	p.Value = 0
	codeParts(&x, p)
	if p.Heard.Notified = p.Told; p.Told {
		p.Debt = p.claim
	}
	return ok && x.Whole()
}

// codeParts writes or reads the parts of a page's record that not every page has.
func codeParts(x *record.Codec, p *Page) {
	h, said := &p.History, &p.Heard
	x.Bit(pageTold, &p.Told)
	x.Bit(pageNoIndex, &p.NoIndex)
	x.Bit(pageNoFollow, &p.NoFollow)
	x.Bit(pageListed, &p.Listed)
	x.Bit(pageCut, &p.Cut)
	if x.Part(pageValue, p.Value != 0) {
		x.Float(&p.Value)
	}
	if x.Part(pageClaim, !p.claimed.IsZero()) {
		x.Time(&p.claimed)
		x.Digest(&p.claim)
	}
	if x.Part(pageSaid, !p.said.IsZero()) {
		x.Time(&p.said)
		x.Duration(&p.span)
	}
	if x.Part(pageMissed, p.Missed > 0) {
		x.Count(&p.Missed)
	}
	if x.Part(pageMissing, !p.missing.IsZero()) {
		x.Time(&p.missing)
	}
	if x.Part(pageFailed, p.Fails > 0) {
		x.Count(&p.Fails)
		x.Clipped(&p.Fault, maxField)
		x.Time(&p.Failed)
	}
	if x.Part(pageWhy, p.Why != "") {
		x.Clipped(&p.Why, maxField)
	}
	if x.Part(pageHistory, h.Visits > 0) {
		x.Time(&h.First)
		x.Time(&h.Last)
		x.Count(&h.Visits)
		x.Count(&h.Changes)
		x.Duration(&h.Unchanged)
	}
	if x.Part(pageFresh, !h.Modified.IsZero()) {
		x.Time(&h.Modified)
	}
	if x.Part(pageSure, !said.Confirmed.IsZero()) {
		x.Time(&said.Confirmed)
	}
	if x.Part(pageBelief, !h.Belief.None()) {
		if n := 0; !x.Reads {
			x.Out = h.Belief.Append(x.Out)
		} else if h.Belief, n = fresh.ParseBelief(x.In.B); n == 0 {
			x.In.Fail()
		} else {
			x.In.B = x.In.B[n:]
		}
	}
	if x.Part(pageNotices, said.Notices > 0 || !said.Until.IsZero()) {
		x.Count(&said.Notices)
		x.Time(&said.Noticed)
		x.Time(&said.Until)
		x.Float(&said.Dated)
		x.Float(&said.Quiet)
		x.Float(&said.Seen)
	}
	if x.Part(pageContent, !p.Digest.IsZero()) {
		x.Digest(&p.Digest)
		x.Int(&p.Length)
		x.Fitting(&p.Type, maxField)
	}
	if x.Part(pageParsed, !p.Parsed.IsZero()) {
		x.Digest(&p.Parsed)
	}
	if x.Part(pageText, !p.Text.IsZero()) {
		x.Digest(&p.Text)
	}
	if x.Part(pageNames, p.Title != "" || p.Language != "" || p.Canonical != "") {
		x.Clipped(&p.Title, maxTitle)
		x.Fitting(&p.Language, maxField)
		x.Fitting(&p.Canonical, 8*maxTitle)
	}
	if x.Part(pageMarks, p.ETag != "" || p.LastModified != "") {
		x.Fitting(&p.ETag, maxMark)
		x.Fitting(&p.LastModified, maxMark)
	}
	if x.Part(pagePlace, p.Stored != contents.Place{}) {
		x.Text(&p.Stored.File)
		x.Int(&p.Stored.Offset)
		x.Int(&p.Stored.Length)
	}
	if x.Part(pageOriginal, p.Original != 0) {
		x.Page(&p.Original)
	}
	if x.Part(pageTarget, p.Target != "") {
		x.Text(&p.Target)
	}
	if x.Part(pageWeight, !math.IsNaN(float64(p.Importance))) {
		x.Float(&p.Importance)
	}
	if x.Part(pageScore, p.Rank != 0) {
		x.Float(&p.Rank)
	}
	if x.Part(pageAnswer, p.Status != 0 || p.Latency != 0 || p.Took != 0) {
		x.Count(&p.Status)
		x.Duration(&p.Latency)
		x.Duration(&p.Took)
	}
	if x.Part(pageAsk, p.FetchURL != "") {
		x.Text(&p.FetchURL)
	}
	if x.Part(pageUnstable, p.Unstable != Stable) {
		if x.Byte((*byte)(&p.Unstable)); x.Reads {
			p.Unstable = min(p.Unstable, UnstableText)
		}
	}
	if x.Part(pageExpires, !said.Expires.IsZero()) {
		x.Time(&said.Expires)
	}
	if x.Part(pageDebtText, !p.DebtText.IsZero()) {
		x.Digest(&p.DebtText)
	}
	if x.Part(pageDebtSize, p.DebtLength > 0) {
		x.Size(&p.DebtLength)
	}
	if x.Part(pageSketch, p.Sketch != "") {
		x.Fitting(&p.Sketch, maxField)
	}
}

// A view reads pages in one transaction. It is for one goroutine.
type view struct {
	c     *Collection
	sites *sites
	last  frontier.PageID // the last that is published: the transaction may know of more, on sites not published yet
	urls  *bbolt.Bucket
	pages *bbolt.Bucket
	block urls.Block
	brief bool // pages are read without texts, see Revisits.Pages
}

func (c *Collection) view(tx *bbolt.Tx) *view {
	x := &c.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	return &view{c: c, sites: &sites{index: x, origins: x.names}, last: x.last, urls: tx.Bucket(urls.Bucket), pages: tx.Bucket(queue.Pages)}
}

// record returns the record of a page, or nil if it has none.
func (v *view) record(id frontier.PageID) []byte { return v.c.stage.Page(v.pages, id) }

// page reads a page into p, and reports whether there is one.
func (v *view) page(id frontier.PageID, p *Page) (bool, error) {
	if id == 0 || id > v.last {
		return false, nil
	}
	if ok, err := v.block.Seek(v.urls, id); err != nil || !ok {
		return false, err
	}
	return true, v.rest(p)
}

// rest reads the rest of the page whose known part is in the block.
func (v *view) rest(p *Page) error {
	k := &v.block.Known
	if k.Site == 0 || int(k.Site) > len(v.sites.origins) {
		return v.block.Damaged()
	}
	*p = Page{ID: k.ID, Site: k.Site, URL: v.sites.origins[k.Site-1] + string(k.Path), Depth: k.Depth,
		Found: record.Time(k.Found), By: signalOf(k.By), Dynamic: k.Dynamic, Importance: unknown, rank: k.Rank}
	p.Signal = p.By
	raw := v.record(k.ID)
	if raw == nil {
		p.Value = worth(v.c.revisits.Policy(), v.c.revisits.Believed(p, v.sites.at(k.Site)), p.Found)
		return nil
	}
	if !parsePage(raw, p, v.brief) {
		key := record.PageKey(k.ID)
		return record.Damaged(queue.Pages, key[:])
	}
	return nil
}

// unknown is the Importance of a page for which none was stated.
var unknown = float32(math.NaN())
