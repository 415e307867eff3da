package collection

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/contents"
	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/collection/internal/urls"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
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
	pageCash     // OPIC
	pageAnswer   // Status, Latency, Took
	pageMissed   // Missed
	pageMissing  // the first 404
	pageFresh    // Modified of the history
	pageSaid     // Modified of the claim
	pageValue    // Value
	pageSure     // Confirmed of the history
	pageBelief   // Belief of the history
	pageNotices  // Notices, Noticed, Heard
	pageAsk      // Ask
	pageListed   // a manifest names it
	pageCut      // the body is truncated
	pageUnstable // Unstable
	pageDebtText // DebtText
	pageDebtSize // DebtLength
	pageNoFollow
)

// The longest strings stored of those that a site chooses, in bytes.
const (
	maxTitle = 300
	maxMark  = 500 // of a validator; a longer one is dropped
	maxField = 200
)

// appendPage appends the record of p, without its key and without what the urls bucket has.
func appendPage(b []byte, p *Page) []byte {
	from := len(b)
	key := record.PageKey(p.ID)
	h := &p.History
	f := record.Flag(p.Told, pageTold) | record.Flag(p.NoIndex, pageNoIndex) | record.Flag(!p.claimed.IsZero(), pageClaim) |
		record.Flag(p.Fails > 0, pageFailed) | record.Flag(p.Why != "", pageWhy) | record.Flag(h.Visits > 0, pageHistory) |
		record.Flag(!p.Digest.IsZero(), pageContent) | record.Flag(!p.Parsed.IsZero(), pageParsed) | record.Flag(!p.Text.IsZero(), pageText) |
		record.Flag(p.Title != "" || p.Language != "" || p.Canonical != "", pageNames) |
		record.Flag(p.ETag != "" || p.LastModified != "", pageMarks) | record.Flag(p.Stored != contents.Place{}, pagePlace) |
		record.Flag(p.Original != 0, pageOriginal) | record.Flag(p.Target != "", pageTarget) |
		record.Flag(!math.IsNaN(float64(p.Importance)), pageWeight) | record.Flag(p.Rank != 0, pageScore) | record.Flag(p.Cash != 0, pageCash) |
		record.Flag(p.Status != 0 || p.Latency != 0 || p.Took != 0, pageAnswer) | record.Flag(p.Missed > 0, pageMissed) |
		record.Flag(!p.missing.IsZero(), pageMissing) | record.Flag(!h.Modified.IsZero(), pageFresh) | record.Flag(!p.said.IsZero(), pageSaid) |
		record.Flag(p.Value != 0, pageValue) | record.Flag(!h.Confirmed.IsZero(), pageSure) |
		record.Flag(!h.Belief.None(), pageBelief) | record.Flag(h.Notices > 0 || !h.Heard.IsZero(), pageNotices) |
		record.Flag(p.FetchURL != "", pageAsk) | record.Flag(p.Listed, pageListed) | record.Flag(p.Cut, pageCut) | record.Flag(p.Unstable != Stable, pageUnstable) |
		record.Flag(!p.DebtText.IsZero(), pageDebtText) | record.Flag(p.DebtLength > 0, pageDebtSize) | record.Flag(p.NoFollow, pageNoFollow)
	b = append(b, byte(p.State), p.Signal.code())
	b = binary.AppendUvarint(b, f)
	b = binary.AppendUvarint(b, uint64(max(0, p.Depth)))
	b = record.AppendTime(b, p.At)
	b = record.AppendFloat(b, p.rank)
	if f&pageValue != 0 {
		b = record.AppendFloat(b, p.Value)
	}
	if f&pageClaim != 0 {
		b = append(record.AppendTime(b, p.claimed), p.claim[:]...)
	}
	if f&pageSaid != 0 {
		b = record.AppendDuration(record.AppendTime(b, p.said), p.span)
	}
	if f&pageMissed != 0 {
		b = binary.AppendUvarint(b, uint64(p.Missed))
	}
	if f&pageMissing != 0 {
		b = record.AppendTime(b, p.missing)
	}
	if f&pageFailed != 0 {
		b = binary.AppendUvarint(b, uint64(p.Fails))
		b = record.AppendTime(record.AppendString(b, clip(p.Fault, maxField)), p.Failed)
	}
	if f&pageWhy != 0 {
		b = record.AppendString(b, clip(p.Why, maxField))
	}
	if f&pageHistory != 0 {
		b = record.AppendTime(record.AppendTime(b, h.First), h.Last)
		b = binary.AppendUvarint(b, uint64(h.Visits))
		b = binary.AppendUvarint(b, uint64(h.Changes))
		b = record.AppendDuration(b, h.Unchanged)
	}
	if f&pageFresh != 0 {
		b = record.AppendTime(b, h.Modified)
	}
	if f&pageSure != 0 {
		b = record.AppendTime(b, h.Confirmed)
	}
	if f&pageBelief != 0 {
		b = h.Belief.Append(b)
	}
	if f&pageNotices != 0 {
		b = record.AppendTime(binary.AppendUvarint(b, uint64(h.Notices)), h.Noticed)
		b = record.AppendFloat(record.AppendFloat(record.AppendFloat(record.AppendTime(b, h.Heard), h.Said), h.SaidQuiet), h.SaidSeen)
	}
	if f&pageContent != 0 {
		b = append(b, p.Digest[:]...)
		b = binary.AppendVarint(b, p.Length)
		b = record.AppendString(b, fit(p.Type, maxField))
	}
	if f&pageParsed != 0 {
		b = append(b, p.Parsed[:]...)
	}
	if f&pageText != 0 {
		b = append(b, p.Text[:]...)
	}
	if f&pageNames != 0 {
		b = record.AppendString(b, clip(p.Title, maxTitle))
		b = record.AppendString(b, fit(p.Language, maxField))
		b = record.AppendString(b, fit(p.Canonical, 8*maxTitle))
	}
	if f&pageMarks != 0 {
		b = record.AppendString(record.AppendString(b, fit(p.ETag, maxMark)), fit(p.LastModified, maxMark))
	}
	if f&pagePlace != 0 {
		b = record.AppendString(b, p.Stored.File)
		b = binary.AppendVarint(binary.AppendVarint(b, p.Stored.Offset), p.Stored.Length)
	}
	if f&pageOriginal != 0 {
		b = binary.AppendUvarint(b, uint64(p.Original))
	}
	if f&pageTarget != 0 {
		b = record.AppendString(b, p.Target)
	}
	if f&pageWeight != 0 {
		b = record.AppendFloat(b, p.Importance)
	}
	if f&pageScore != 0 {
		b = record.AppendFloat(b, p.Rank)
	}
	if f&pageCash != 0 {
		b = record.AppendFloat(b, p.Cash)
	}
	if f&pageAnswer != 0 {
		b = binary.AppendUvarint(b, uint64(max(0, p.Status)))
		b = record.AppendDuration(record.AppendDuration(b, p.Latency), p.Took)
	}
	if f&pageAsk != 0 {
		b = record.AppendString(b, p.FetchURL)
	}
	if f&pageUnstable != 0 {
		b = append(b, byte(p.Unstable))
	}
	if f&pageDebtText != 0 {
		b = append(b, p.DebtText[:]...)
	}
	if f&pageDebtSize != 0 {
		b = binary.AppendUvarint(b, uint64(p.DebtLength))
	}
	return record.Seal(b, key[:], from)
}

// parsePage adds a record to p, which holds what the urls bucket has. The strings of p share one piece of memory.
func parsePage(raw []byte, p *Page) bool {
	key := record.PageKey(p.ID)
	body, ok := record.Unseal(key[:], raw)
	if !ok {
		return false
	}
	d := record.Decoder{B: body}
	whole := ""
	str := func() string {
		s := d.Bytes()
		if len(s) == 0 {
			return ""
		}
		if whole == "" {
			whole = string(body)
		}
		end := len(body) - len(d.B)
		return whole[end-len(s) : end]
	}
	p.State, p.Signal = State(d.Byte()), signalOf(d.Byte())
	f := d.Uint()
	p.Depth = d.Count()
	p.At, p.rank = d.Time(), d.Float()
	p.Told, p.NoIndex, p.NoFollow, p.Listed, p.Cut = f&pageTold != 0, f&pageNoIndex != 0, f&pageNoFollow != 0, f&pageListed != 0, f&pageCut != 0
	h := &p.History
	h.Notified = p.Told
	p.Value = 0
	if f&pageValue != 0 {
		p.Value = d.Float()
	}
	if f&pageClaim != 0 {
		p.claimed = d.Time()
		d.Digest(&p.claim)
		if p.Told {
			p.Debt = p.claim
		}
	}
	if f&pageSaid != 0 {
		p.said, p.span = d.Time(), d.Duration()
	}
	if f&pageMissed != 0 {
		p.Missed = d.Count()
	}
	if f&pageMissing != 0 {
		p.missing = d.Time()
	}
	if f&pageFailed != 0 {
		p.Fails, p.Fault, p.Failed = d.Count(), str(), d.Time()
	}
	if f&pageWhy != 0 {
		p.Why = str()
	}
	if f&pageHistory != 0 {
		h.First, h.Last, h.Visits, h.Changes, h.Unchanged = d.Time(), d.Time(), d.Count(), d.Count(), d.Duration()
	}
	if f&pageFresh != 0 {
		h.Modified = d.Time()
	}
	if f&pageSure != 0 {
		h.Confirmed = d.Time()
	}
	if f&pageBelief != 0 {
		var n int
		if h.Belief, n = fresh.ParseBelief(d.B); n == 0 {
			d.Fail()
		} else {
			d.B = d.B[n:]
		}
	}
	if f&pageNotices != 0 {
		h.Notices, h.Noticed, h.Heard = d.Count(), d.Time(), d.Time()
		h.Said, h.SaidQuiet, h.SaidSeen = d.Float(), d.Float(), d.Float()
	}
	if f&pageContent != 0 {
		d.Digest(&p.Digest)
		p.Length, p.Type = d.Int(), str()
	}
	if f&pageParsed != 0 {
		d.Digest(&p.Parsed)
	}
	if f&pageText != 0 {
		d.Digest(&p.Text)
	}
	if f&pageNames != 0 {
		p.Title, p.Language, p.Canonical = str(), str(), str()
	}
	if f&pageMarks != 0 {
		p.ETag, p.LastModified = str(), str()
	}
	if f&pagePlace != 0 {
		p.Stored = contents.Place{File: str(), Offset: d.Int(), Length: d.Int()}
	}
	if f&pageOriginal != 0 {
		p.Original = frontier.PageID(d.Uint())
	}
	if f&pageTarget != 0 {
		p.Target = str()
	}
	if f&pageWeight != 0 {
		p.Importance = d.Float()
	}
	if f&pageScore != 0 {
		p.Rank = d.Float()
	}
	if f&pageCash != 0 {
		p.Cash = d.Float()
	}
	if f&pageAnswer != 0 {
		p.Status, p.Latency, p.Took = d.Count(), d.Duration(), d.Duration()
	}
	if f&pageAsk != 0 {
		p.FetchURL = str()
	}
	if f&pageUnstable != 0 {
		p.Unstable = min(Unstable(d.Byte()), UnstableText)
	}
	if f&pageDebtText != 0 {
		d.Digest(&p.DebtText)
	}
	if f&pageDebtSize != 0 {
		p.DebtLength = int64(min(d.Uint(), math.MaxInt64))
	}
	return !d.Bad && len(d.B) == 0
}

// clip shortens text for people to at most n bytes, at a rune's end.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n]
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return strings.Clone(s)
}

// fit returns s, or nothing if it is longer than n: a part of it would mean nothing.
func fit(s string, n int) string {
	if len(s) > n {
		return ""
	}
	return s
}

// A view reads pages in one transaction. It is for one goroutine.
type view struct {
	c     *Collection
	sites *sites
	last  frontier.PageID // the last that is published: the transaction may know of more, on sites not published yet
	urls  *bbolt.Bucket
	pages *bbolt.Bucket
	block urls.Block
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
		p.Value = v.c.worth(p, v.sites.at(k.Site), p.Found)
		return nil
	}
	if !parsePage(raw, p) {
		key := record.PageKey(k.ID)
		return record.Damaged(queue.Pages, key[:])
	}
	return nil
}

// unknown is the Importance of a page for which none was stated.
var unknown = float32(math.NaN())
