package server

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
)

// Bounds of the query door.
const (
	mostQueried = 50_000 // items that are told at once, and tombstones
	fewQueried  = 10_000 // where limit says nothing

	// A question that takes more work to answer, or an answer that takes longer
	// to read, is cut: the journal's file cannot shrink meanwhile. At half speed,
	// as turns are that pause, so much work is done well within mostWork.
	queryWork = 10 * time.Second
	queryRead = 60 * time.Second

	queriesAtOnce, queriesEach = 32, 4
)

// A Moment is what a site offers at one moment. Whoever has one closes it soon,
// and waits for nothing that changes the journal meanwhile.
type Moment struct {
	Cursor   protocol.Cursor
	Modified time.Time // when the site last changed
	Revision uint64    // differs from that of every other Moment with other items

	// Items yields what comes after a URL, in the order of protocol.Compare;
	// after "" everything. Gone yields the tombstones, newest first.
	Items func(after string) iter.Seq2[protocol.Item, error]
	Gone  iter.Seq2[protocol.Tombstone, error]

	Close func()
}

// Moments returns what a journal holds, for [Notifier.Items].
func Moments(j *Journal) func(context.Context) (*Moment, error) {
	return func(context.Context) (*Moment, error) {
		v, err := j.View()
		if err != nil {
			return nil, err
		}
		items := func(after string) iter.Seq2[protocol.Item, error] {
			return func(yield func(protocol.Item, error) bool) {
				for r := v.Reader("", true, after); ; {
					e, more, err := r.Next()
					if err == nil && !more || !yield(e.Item, err) || err != nil {
						return
					}
				}
			}
		}
		return &Moment{Cursor: v.Head(), Modified: v.Modified(), Revision: v.Revision(), Items: items, Gone: v.Tombstones(), Close: v.Close}, nil
	}
}

// serveQuery answers with a manifest of what is offered now and fulfils the
// conditions of a [protocol.Filter], standing at its cursor (C13). It is never
// complete: absence from it says nothing. The parameters are those of a filter
// but op, minsig and agent, which are asked of changes, and
//
//   - since: as of a filter; and the tombstones of what went since then are
//     in the answer, if the conditions on their URL hold;
//   - limit: how many items at most, 1 to 50,000, and tombstones; without it 10,000;
//   - past: the URL after which to begin, in the order of [protocol.Compare].
//
// The expression where sees each item as it is to whoever has nothing yet: a
// create, without number and time. Of a tombstone it sees the delete. What is left out because of
// limit is said in the header Parley-More, a list of "items" and "gone"; for
// more items, Link names the next answer as rel="next". Whoever follows on from
// several answers does so from the cursor of the first.
//
// By QUERY and POST the parameters come in the body, as a form has them. The
// header Content-Location then is the URL at which a GET asks the same, unless
// that would be too long; after QUERY so is Location.
func (n *Notifier) serveQuery(w http.ResponseWriter, r *http.Request) *problem {
	known := slices.DeleteFunc(protocol.FilterNames(), func(name string) bool { return ofChanges(name) || name == "agent" })
	known = append(known, "limit", "past")
	q, p := questionOf(w, r, known...)
	if p != nil {
		return p
	}
	sel, p := n.selectionOf(r, q)
	if p != nil {
		return p
	}
	a := &answer{n: n, sel: sel, past: q.Get("past"), unsaid: make(map[uint64]bool)}
	if a.limit, p = numberOf(q, "limit", 1, mostQueried, fewQueried); p != nil {
		return p
	}
	if q.Has("past") {
		if u, err := protocol.CanonicalURL("", a.past); err != nil || u != a.past {
			return badParameter("past", fmt.Sprintf("%.200q is no URL as this site's manifest writes them", a.past))
		}
	}
	if p := n.scanning(); p != nil {
		return p
	}
	leave, p := n.queries.enter("questions", sel.addr, queriesAtOnce, queriesEach)
	if p != nil {
		return p
	}
	defer leave()
	offer, err := n.Items(r.Context())
	if err != nil {
		return n.failed(r, protocol.Cursor{}, err)
	}
	defer offer.Close()
	a.offer = offer
	return a.write(w, r)
}

// ofChanges reports whether a condition of a filter asks what happened, and so
// cannot be asked of what is there.
func ofChanges(name string) bool { return name == "op" || name == "minsig" }

// An answer is a question at the query door, and what is found.
type answer struct {
	n     *Notifier
	sel   *selection
	past  string
	limit int
	offer *Moment

	items, gone finding
	last        string          // the URL of the last item that is told
	unsaid      map[uint64]bool // tombstones that do not say where their page went, by their number
	sum         hash.Hash       // of what is found
}

// A finding says which of a sequence are told: one bit each, so that they need
// be judged only once, however often they are read.
type finding struct {
	bits  []uint64
	seen  int
	count int
	more  bool // there are others beyond the limit
}

// take notes the next one, and returns false when there are enough.
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

// told yields what was found of the sequence.
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

func (a *answer) write(w http.ResponseWriter, r *http.Request) *problem {
	a.n.deadline(w, mostWork)
	if err := a.find(r.Context()); errors.Is(err, errMuchWork) {
		return plainProblem(http.StatusUnprocessableEntity,
			fmt.Sprintf("there is more to look at than can be judged in %v: name a part of the site by prefix, or ask for less by limit and go on by past", queryWork))
	} else if err != nil {
		return a.n.failed(r, protocol.Cursor{}, err)
	}
	same, tag := a.url(a.past), a.etag()
	h := w.Header()
	h.Set("Etag", tag)
	h.Set("Cache-Control", "no-cache") // ask again, and be told 304
	if a.n.Identify != nil {
		h.Set("Cache-Control", "private, no-cache")
		h.Set("Vary", "Authorization")
	}
	if (r.Method == methodQuery || r.Method == http.MethodPost) && len(same) <= protocol.MaxURL {
		h.Set("Content-Location", same)
		if r.Method == methodQuery {
			h.Set("Location", same)
		}
	}
	if r.Method != http.MethodPost && noneMatch(r.Header, tag) {
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
	a.n.deadline(w, queryRead)
	m := Describe(a.n.Base)
	if len(same) <= protocol.MaxURL {
		m.URL = same
	} else {
		m.URL = a.n.Base + queryPath
	}
	if a.n.PullOnly {
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
		orDiscard(a.n.Logger).Debug("query answer was cut", "err", err)
		panic(http.ErrAbortHandler) // else it would look like one that ends here
	}
	return nil
}

// errMuchWork is that a question takes more than queryWork.
var errMuchWork = errors.New("there is too much to look at")

// find judges everything once, and sums up what is told.
func (a *answer) find(ctx context.Context) error {
	t, err := a.n.turn(ctx, a.sel, false)
	if err != nil {
		return err
	}
	defer t.leave()
	step := func() error {
		if t.worked() > queryWork {
			return errMuchWork
		}
		return t.rest(ctx)
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
			fmt.Fprintln(a.sum, i.URL)
		}
	}
	if a.sel.filter.Since.IsZero() || a.past != "" {
		return nil // tombstones are not asked for, or were told with the first items
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
			unsaid := g.To != "" && !a.n.public(a.sel, g.To)
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
	if !a.n.public(a.sel, i.URL) || !a.sel.filter.Wants(i) {
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
	if !a.n.public(a.sel, t.URL) || !a.sel.filter.WantsGone(t) {
		return false, nil
	}
	if a.sel.where == nil {
		return true, nil
	}
	return a.sel.where(ctx, &protocol.Change{Seq: t.Seq, At: t.At, Op: protocol.Delete, Item: protocol.Item{URL: t.URL, Length: -1}, Prev: t.Prev})
}

// more says what is left out.
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

// url is where a GET asks the same, from another place on.
func (a *answer) url(past string) string {
	q := a.sel.filter.Query()
	if past != "" {
		q.Set("past", past)
	}
	if a.limit != fewQueried {
		q.Set("limit", strconv.Itoa(a.limit))
	}
	u := a.n.Base + queryPath
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	return u
}

// etag is of what was found, and not only of the journal: what may be told to
// whom changes by rules alone. It is weak, since it says nothing of how that is written.
func (a *answer) etag() string {
	fmt.Fprintf(a.sum, "%s %d\n%s\n%s\n%s", a.offer.Cursor, a.offer.Revision, a.url(a.past), a.more(), a.sel.caller.Name)
	return "W/" + etagOf(a.sum)
}

// asks asks the expression of a change, as told by the rest of the selection.
// A move that it does not want is the delete of the old URL, if it wants that:
// whoever was told of a page must learn that it has gone.
func (s *selection) asks(ctx context.Context, c protocol.Change) (protocol.Change, bool, error) {
	ok, err := s.where(ctx, &c)
	if !ok && err == nil && c.Op == protocol.Move && (len(s.filter.Ops) == 0 || slices.Contains(s.filter.Ops, protocol.Delete)) {
		gone := c.Departure()
		if ok, err = s.where(ctx, &gone); ok {
			c = gone
		}
	}
	if err != nil {
		return c, false, fmt.Errorf("evaluate expression: %w", err)
	}
	return c, ok, nil
}

// leaves returns an update as the delete of its page, if with it the page leaves what is asked
// for: the same update is not wanted of the page as it is, and would be of the page as it was.
// How it was is not known of updates that an older version has noted: any of them may be
// such a one, and a delete of a page that the reader does not hold tells him nothing.
func (s *selection) leaves(ctx context.Context, c protocol.Change) (protocol.Change, bool, error) {
	gone := c.Left()
	if len(s.filter.Ops) > 0 && !slices.Contains(s.filter.Ops, protocol.Delete) {
		return gone, false, nil
	}
	if c.Before == nil {
		if !s.filter.WantsURL(c.Item.URL) {
			return gone, false, nil
		}
	} else if was, err := s.wants(ctx, c, c.Before); !was || err != nil {
		return gone, false, err
	}
	if is, err := s.wants(ctx, c, &c.Item); is || err != nil {
		return gone, false, err
	}
	if s.where == nil {
		return gone, true, nil
	}
	return s.asks(ctx, gone)
}

// wants reports whether a page is what is asked for, as far as the parameters go, and the
// change that led to it by the expression.
func (s *selection) wants(ctx context.Context, c protocol.Change, page *protocol.Item) (bool, error) {
	if !s.filter.Wants(page) {
		return false, nil
	}
	if s.where == nil {
		return true, nil
	}
	c.Item = *page
	_, ok, err := s.asks(ctx, c)
	return ok, err
}
