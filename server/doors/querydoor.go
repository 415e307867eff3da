package doors

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

// Bounds of the query door.
const (
	mostQueried = 50_000 // the largest limit of items, and of tombstones
	fewQueried  = 10_000 // the limit if the request has none

	// A query that takes more work to answer, or an answer that takes longer to
	// read, is cut: the journal's file cannot shrink meanwhile. Even at half speed, in
	// slots that pause, so much work is done well within mostWork.
	queryWork = 10 * time.Second
	queryRead = 60 * time.Second

	queriesAtOnce, queriesEach = 32, 4
)

// A queryDoor answers queries about what is offered now.
type queryDoor struct {
	*site
	readers  *readers
	items    func(context.Context) (*content.Moment, error)
	pullOnly bool
	admitted limit.Admission
}

// serve answers with a manifest of the items that are offered now and match
// a [protocol.Filter], with the present cursor (C13). It is never complete: absence from
// it means nothing. The parameters are those of a filter except op, minsig and
// agent, which apply to changes only, and
//
//   - since: as in a filter; the answer then also has the tombstones of pages
//     deleted since, if they match the conditions on URLs;
//   - limit: the largest number of items, 1 to 50,000, and of tombstones; by default 10,000;
//   - past: the URL after which to begin, in the order of [protocol.Compare].
//
// The expression where is evaluated for each item as if it had just been created: a
// create, without number and time. For a tombstone it is evaluated for the delete. If
// limit cut something off, the header Parley-More lists it ("items", "gone"); for
// more items, Link has the next page as rel="next". A client that goes on to follow
// changes after several pages must do so from the cursor of the first.
//
// With QUERY and POST the parameters are in the body, as a form. The header
// Content-Location then has the URL for the same query by GET, unless it would be
// too long; after QUERY so has Location.
func (d *queryDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	known := slices.DeleteFunc(protocol.FilterNames(), func(name string) bool { return ofChanges(name) || name == "agent" })
	known = append(known, "limit", "past")
	q, p := web.Parameters(w, r, known...)
	if p != nil {
		return p
	}
	sel, p := d.readers.selection(r, q)
	if p != nil {
		return p
	}
	a := &answer{door: d, sel: sel, past: q.Get("past"), unsaid: make(map[uint64]bool)}
	if a.limit, p = web.Number(q, "limit", 1, mostQueried, fewQueried); p != nil {
		return p
	}
	if q.Has("past") {
		if u, err := protocol.CanonicalURL("", a.past); err != nil || u != a.past {
			return web.BadParameter("past", fmt.Sprintf("%.200q is not a canonical URL, as in this site's manifest", a.past))
		}
	}
	if p := d.scanning(); p != nil {
		return p
	}
	leave, p := d.admitted.Enter("questions", sel.addr, queriesAtOnce, queriesEach)
	if p != nil {
		return p
	}
	defer leave()
	offer, err := d.items(r.Context())
	if err != nil {
		return d.failed(r, protocol.Cursor{}, err)
	}
	defer offer.Close()
	a.offer = offer
	return a.write(w, r)
}

// ofChanges reports whether a condition of a filter applies to changes only, and so
// cannot be applied to items.
func ofChanges(name string) bool { return name == "op" || name == "minsig" }

// An answer is a request at the query door, and its result.
type answer struct {
	door  *queryDoor
	sel   *selection
	past  string
	limit int
	offer *content.Moment

	items, gone finding
	last        string          // the URL of the last selected item
	unsaid      map[uint64]bool // by Seq: tombstones whose To is withheld
	sum         hash.Hash       // of the result
}

// A finding records which elements of a sequence are selected, in one bit each, so that
// each is evaluated only once, however often the sequence is read.
type finding struct {
	bits  []uint64
	seen  int
	count int
	more  bool // there are more beyond the limit
}

// take records the next element, and returns false when the limit is exceeded.
func (f *finding) take(told bool, limit int) bool {
	if told && f.count == limit {
		f.more = true
		return false
	}
	if f.seen%64 == 0 {
		f.bits = append(f.bits, 0)
	}
	if told {
		f.bits[f.seen/64] |= 1 << (f.seen % 64)
		f.count++
	}
	f.seen++
	return true
}

// told yields the selected elements of the sequence.
func told[T any](f *finding, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left, i := f.count, 0
		if left == 0 {
			return
		}
		for t, err := range all {
			if err != nil {
				yield(t, err)
				return
			}
			if f.bits[i/64]&(1<<(i%64)) != 0 {
				if left--; !yield(t, nil) || left == 0 {
					return
				}
			}
			i++
		}
	}
}

func (a *answer) write(w http.ResponseWriter, r *http.Request) *web.Problem {
	a.door.deadline(w, mostWork)
	if err := a.find(r.Context()); errors.Is(err, errQueryTooSlow) {
		return web.Plain(http.StatusUnprocessableEntity,
			fmt.Sprintf("the query takes more than %v: narrow it with prefix, or lower limit and continue with past", queryWork))
	} else if err != nil {
		return a.door.failed(r, protocol.Cursor{}, err)
	}
	same, tag := a.url(a.past), a.etag()
	h := w.Header()
	h.Set("Etag", tag)
	h.Set("Cache-Control", "no-cache") // revalidate, and get 304
	if a.door.readers.clients.Identify != nil {
		h.Set("Cache-Control", "private, no-cache")
		h.Set("Vary", "Authorization")
	}
	if (r.Method == web.MethodQuery || r.Method == http.MethodPost) && len(same) <= protocol.MaxURL {
		h.Set("Content-Location", same)
		if r.Method == web.MethodQuery {
			h.Set("Location", same)
		}
	}
	if r.Method != http.MethodPost && web.NoneMatch(r.Header, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", protocol.ManifestType)
	h.Set("X-Content-Type-Options", "nosniff")
	if more := a.more(); more != "" {
		h.Set("Parley-More", more)
	}
	if next := a.url(a.last); a.items.more && len(next) <= protocol.MaxURL {
		h.Set("Link", "<"+next+`>; rel="next"`)
	}
	if r.Method == http.MethodHead {
		return nil
	}
	a.door.deadline(w, queryRead)
	m := Describe(a.door.urls.base)
	if len(same) <= protocol.MaxURL {
		m.URL = same
	} else {
		m.URL = a.door.urls.base + queryPath
	}
	if a.door.pullOnly {
		m.Stream = ""
	}
	m.Cursor, m.Modified, m.Items = a.offer.Cursor, a.offer.Modified, a.items.count
	gone := told(&a.gone, a.offer.Gone)
	err := protocol.WriteManifest(w, m, told(&a.items, a.offer.Items(a.past)), func(yield func(protocol.Tombstone, error) bool) {
		for t, err := range gone {
			if a.unsaid[t.Seq] {
				t.To = ""
			}
			if !yield(t, err) {
				return
			}
		}
	})
	if err != nil {
		a.door.logger.Debug("query response aborted", "err", err)
		panic(http.ErrAbortHandler) // else the answer would look complete
	}
	return nil
}

// errQueryTooSlow says that a query takes more than queryWork.
var errQueryTooSlow = errors.New("the query takes too long")

// find judges every element once, and hashes the selected ones.
func (a *answer) find(ctx context.Context) error {
	t, err := a.sel.acquireSlot(ctx, false)
	if err != nil {
		return err
	}
	defer t.Release()
	step := func() error {
		if t.Worked() > queryWork {
			return errQueryTooSlow
		}
		return t.Renew(ctx)
	}
	a.sum = sha256.New()
	for i, err := range a.offer.Items(a.past) {
		var ok bool
		if err == nil {
			err = step()
		}
		if err == nil {
			ok, err = a.wants(ctx, &i)
		}
		if err != nil {
			return err
		}
		if !a.items.take(ok, a.limit) {
			break
		}
		if ok {
			a.last = i.URL
			fmt.Fprintln(a.sum, i.URL, i.Title, i.Text, i.Language, i.Canonical, i.Importance)
		}
	}
	if a.sel.filter.Since.IsZero() || a.past != "" {
		return nil // tombstones are not requested, or were sent with the first page of items
	}
	for g, err := range a.offer.Gone {
		var ok bool
		if err == nil {
			err = step()
		}
		if err == nil {
			ok, err = a.wantsGone(ctx, &g)
		}
		if err != nil {
			return err
		}
		if !a.gone.take(ok, a.limit) {
			break
		}
		if ok {
			unsaid := g.To != "" && !a.sel.public(g.To)
			if unsaid {
				a.unsaid[g.Seq] = true
			}
			fmt.Fprintln(a.sum, g.Seq, unsaid)
		}
	}
	return nil
}

func (a *answer) wants(ctx context.Context, i *protocol.Item) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if !a.sel.public(i.URL) || !a.sel.filter.Wants(i) {
		return false, nil
	}
	if a.sel.where == nil {
		return true, nil
	}
	return a.sel.where(ctx, &protocol.Change{Op: protocol.Create, Item: *i})
}

func (a *answer) wantsGone(ctx context.Context, t *protocol.Tombstone) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if !a.sel.public(t.URL) || !a.sel.filter.WantsGone(t) {
		return false, nil
	}
	if a.sel.where == nil {
		return true, nil
	}
	return a.sel.where(ctx, &protocol.Change{Seq: t.Seq, At: t.At, Op: protocol.Delete, Item: protocol.Item{URL: t.URL, Length: -1}, Prev: t.Prev})
}

// more returns the value of Parley-More.
func (a *answer) more() string {
	var left []string
	if a.items.more {
		left = append(left, "items")
	}
	if a.gone.more {
		left = append(left, "gone")
	}
	return strings.Join(left, ", ")
}

// url returns the URL of a GET with the same query, beginning after past.
func (a *answer) url(past string) string {
	q := a.sel.filter.Query()
	if past != "" {
		q.Set("past", past)
	}
	if a.limit != fewQueried {
		q.Set("limit", strconv.Itoa(a.limit))
	}
	u := a.door.urls.base + queryPath
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	return u
}

// etag covers the result, and not only the cursor: rules alone can change what a caller may be told, and what stands beside
// a page's bytes may change. It is the same at all doors of a site. It is weak, since it does not cover how the result is written.
func (a *answer) etag() string {
	fmt.Fprintf(a.sum, "%s\n%s\n%s\n%s", a.offer.Cursor, a.url(a.past), a.more(), a.sel.caller.Name)
	return "W/" + web.EntityTag(a.sum)
}
