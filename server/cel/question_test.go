package cel_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A question is a random filter in the form it was drawn, which brute force evaluates on its own.
type question struct {
	prefix, match, types, ops, langs []string

	minlen, maxlen, maxdepth int
	minimp, minsig           float64
	since                    time.Time
	where                    *expression
	hidden                   string // prefix of the URLs that the site's rules forbid
}

func drawQuestion(r *rand.Rand, hidden string) *question {
	q := &question{hidden: hidden}
	some := func(list []string) (drawn []string) {
		for range 1 + r.IntN(2) {
			drawn = append(drawn, oneOf(r, list))
		}
		return drawn
	}
	for range r.IntN(4) {
		switch r.IntN(10) {
		case 0:
			q.prefix = append(some([]string{"/docs/", "/news/2026/", "/img", "/"}), base+"docs/deep")
		case 1:
			q.match = some(patterns)
		case 2:
			q.types = some(append([]string{"text/*", "*/*", "IMAGE/png"}, someTypes...))
		case 3:
			q.ops = some([]string{"create", "update", "delete", "move"})
		case 4:
			q.langs = some([]string{"en", "PT", "de-CH", "*"})
		case 5:
			q.minlen = 1 + r.IntN(500)
		case 6:
			q.maxlen = 500 + r.IntN(500)
		case 7:
			q.maxdepth = 1 + r.IntN(3)
		case 8:
			q.minimp = float64(1+r.IntN(100)) / 100
			q.minsig = float64(1+r.IntN(1000)) / 1000
		case 9:
			q.since = firstTime.Add(time.Duration(r.IntN(300*60_000)) * time.Millisecond)
		}
	}
	if len(q.prefix)+len(q.types) == 0 || r.IntN(2) == 0 {
		e := anExpression(r, 1+r.IntN(4))
		q.where = &e
	}
	return q
}

// parameters encodes the question as query parameters.
func (q *question) parameters() url.Values {
	v := url.Values{}
	for name, list := range map[string][]string{"prefix": q.prefix, "match": q.match, "type": q.types, "op": q.ops, "lang": q.langs} {
		for _, s := range list {
			v.Add(name, s)
		}
	}
	for name, n := range map[string]int{"minlen": q.minlen, "maxlen": q.maxlen, "maxdepth": q.maxdepth} {
		if n > 0 {
			v.Set(name, strconv.Itoa(n))
		}
	}
	for name, f := range map[string]float64{"minimp": q.minimp, "minsig": q.minsig} {
		if f > 0 {
			v.Set(name, fmt.Sprint(f))
		}
	}
	if !q.since.IsZero() {
		v.Set("since", q.since.Format("2006-01-02T15:04:05.000Z"))
	}
	if q.where != nil {
		v.Set("where", q.where.text)
	}
	return v
}

// covers, wants and tell are brute force: the documented behavior, implemented a second time.
func (q *question) covers(u string) bool {
	ok := len(q.prefix) == 0
	for _, p := range q.prefix {
		if p[0] == '/' {
			p = base + p[1:]
		}
		ok = ok || strings.HasPrefix(u, p)
	}
	fits := len(q.match) == 0
	for _, p := range q.match {
		e := regexp.QuoteMeta(p)
		for _, as := range [][2]string{{`/\*\*/`, `/(.*/)?`}, {`^\*\*/`, `(.*/)?`}, {`\*\*`, `.*`}, {`\*`, `[^/]*`}, {`\?`, `[^/]`}} {
			if as[0][0] == '^' {
				if strings.HasPrefix(e, as[0][1:]) {
					e = as[1] + e[len(as[0])-1:]
				}
				continue
			}
			e = strings.ReplaceAll(e, as[0], strings.NewReplacer("*", "\x01", "?", "\x02").Replace(as[1]))
		}
		e = strings.NewReplacer("\x01", "*", "\x02", "?").Replace(e)
		fits = fits || regexp.MustCompile("^"+e+"$").MatchString(pathOf(u))
	}
	return ok && fits && (q.maxdepth == 0 || strings.Count(pathOf(u), "/") <= q.maxdepth)
}

func (q *question) wants(i protocol.Item) bool {
	typed, spoken := len(q.types) == 0, len(q.langs) == 0
	for _, t := range q.types {
		t = strings.ToLower(t)
		typed = typed || i.Type != "" && (t == i.Type || t == "*/*" || strings.HasSuffix(t, "*") && strings.HasPrefix(i.Type, strings.TrimSuffix(t, "*")))
	}
	for _, l := range q.langs {
		l = strings.ToLower(l)
		spoken = spoken || i.Language != "" && (l == "*" || strings.HasPrefix(strings.ToLower(i.Language)+"-", l+"-"))
	}
	return typed && spoken &&
		(q.minlen == 0 || i.Length >= int64(q.minlen)) &&
		(q.maxlen == 0 || i.Length >= 0 && i.Length <= int64(q.maxlen)) &&
		(q.minimp == 0 || float64(i.Importance)/100 >= q.minimp) &&
		(q.since.IsZero() || !i.Modified.IsZero() && i.Modified.Compare(q.since) >= 0)
}

func (q *question) public(u string) bool { return q.hidden == "" || !strings.HasPrefix(u, q.hidden) }

func (q *question) asks(c *protocol.Change) bool {
	return (len(q.ops) == 0 || slices.Contains(q.ops, string(c.Op))) && (q.where == nil || q.where.tells(c))
}

// tell returns the change as it should be delivered, or nil if it should not; was is the page before it.
func (q *question) tell(c protocol.Change, was *protocol.Item) *protocol.Change {
	c.Before = nil
	gone := protocol.Change{Seq: c.Seq, At: c.At, Op: protocol.Delete, Item: protocol.Item{URL: c.From, Length: -1}, Prev: c.Prev}
	if c.Op == protocol.Delete {
		gone.Item.URL = c.Item.URL
	}
	goes := c.Op == protocol.Delete || c.Op == protocol.Move && (q.public(c.From) || !q.public(c.Item.URL))
	comes := c.Op != protocol.Delete && q.public(c.Item.URL)
	goes, comes = goes && q.covers(gone.Item.URL), comes && q.covers(c.Item.URL)
	if c.Op == protocol.Move && comes && !goes {
		c = protocol.Change{Seq: c.Seq, At: c.At, Op: protocol.Create, Item: c.Item}
	}
	if comes {
		comes = q.wants(c.Item)
		if (c.Op == protocol.Update || c.Op == protocol.Move) && c.Significance > 0 {
			comes = comes && float64(c.Significance-1)/1000 >= q.minsig
		}
	}
	switch {
	case comes && q.asks(&c):
		return &c
	case comes && c.Op == protocol.Move && len(q.ops) > 0 && !slices.Contains(q.ops, "move"):
		return nil // moves are not selected
	case goes && q.asks(&gone):
		return &gone
	}
	if c.Op != protocol.Update || was == nil || !q.public(c.Item.URL) || !q.covers(c.Item.URL) {
		return nil
	}
	fits := func(i protocol.Item) bool {
		as := c
		as.Item = i
		return q.wants(i) && (q.where == nil || q.where.tells(&as))
	}
	gone.Item.URL = c.Item.URL
	if fits(*was) && !fits(c.Item) && q.asks(&gone) { // the page no longer matches the filter
		return &gone
	}
	return nil
}

// told returns the expected answer for changes that follow the first items, after a wire round trip.
func (q *question) told(t *testing.T, first []protocol.Item, changes []protocol.Change) []protocol.Change {
	t.Helper()
	there := map[string]*protocol.Item{}
	for _, i := range first {
		there[i.URL] = &i
	}
	var list []protocol.Change
	for _, c := range changes {
		if told := q.tell(c, there[c.Item.URL]); told != nil {
			list = append(list, *told)
		}
		delete(there, c.From)
		if there[c.Item.URL] = &c.Item; c.Op == protocol.Delete {
			delete(there, c.Item.URL)
		}
	}
	m := must.Get(protocol.ParseMessage(protocol.Message{Kind: protocol.Batch, From: protocol.Cursor{Epoch: "e"}, To: protocol.Cursor{Epoch: "e", Seq: 1e6}, Changes: list}.Encode()))
	return m.Changes
}

// ofSteps are expression parts that only a change can answer; has queries what no delete can answer.
var ofSteps = []string{"change.op", "change.from", "change.prev", "change.seq", "change.at", "change.significance", "has("}

// fold returns the URLs that a reader has in the end if it began with the matching first items and applied
// the told changes; false if the question depends on changes alone, so that no copy can be kept by it.
func (q *question) fold(first []protocol.Item, changes, told []protocol.Change) ([]string, bool) {
	if len(q.ops) > 0 || q.minsig > 0 || q.where != nil && slices.ContainsFunc(ofSteps, func(s string) bool { return strings.Contains(q.where.text, s) }) {
		return nil, false
	}
	there, has := map[string]bool{}, map[string]bool{}
	for _, i := range first {
		there[i.URL] = true
	}
	for _, c := range changes { // a site moves pages only to new URLs
		if c.Op == protocol.Move && there[c.Item.URL] {
			return nil, false
		}
		delete(there, c.From)
		there[c.Item.URL] = c.Op != protocol.Delete
	}
	items, _ := q.offered(first, nil)
	for _, i := range items {
		has[i.URL] = true
	}
	for _, c := range told {
		delete(has, c.From)
		if has[c.Item.URL] = true; c.Op == protocol.Delete {
			delete(has, c.Item.URL)
		}
	}
	return slices.SortedFunc(maps.Keys(has), protocol.Compare), true
}

func urlsOf(items []protocol.Item) (urls []string) {
	for _, i := range items {
		urls = append(urls, i.URL)
	}
	return urls
}

// offered returns the expected answer of the query door.
func (q *question) offered(items []protocol.Item, graves []protocol.Tombstone) ([]protocol.Item, []protocol.Tombstone) {
	items = slices.DeleteFunc(slices.Clone(items), func(i protocol.Item) bool {
		return !q.public(i.URL) || !q.covers(i.URL) || !q.wants(i) || q.where != nil && !q.where.tells(&protocol.Change{Op: protocol.Create, Item: i})
	})
	if q.since.IsZero() {
		return items, nil
	}
	graves = slices.DeleteFunc(slices.Clone(graves), func(g protocol.Tombstone) bool {
		c := &protocol.Change{Seq: g.Seq, At: g.At, Op: protocol.Delete, Item: protocol.Item{URL: g.URL}, Prev: g.Prev}
		return !q.public(g.URL) || !q.covers(g.URL) || g.At.Before(q.since) || q.where != nil && !q.where.tells(c)
	})
	for i, g := range graves {
		if !q.public(g.To) {
			graves[i].To = ""
		}
	}
	return items, graves
}
