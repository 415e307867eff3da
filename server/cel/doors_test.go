package cel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/cel"
	"github.com/parleyweb/parley/server/doors"
)

const base = "https://www.example.org/"

var (
	firstTime = time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)

	somePaths = []string{"/", "/a.html", "/docs/", "/docs/a.html", "/docs/b.html?p=1", "/docs/deep/a.html", "/docs/deep/er/x.pdf",
		"/news/", "/news/2026/a.html", "/news/2026/11/b.html", "/private/a.html", "/private/b/c.html", "/img/a.png", "/img/b.png?q=/docs/"}
	someTypes     = []string{"text/html", "text/plain", "image/png", "application/pdf"}
	someLanguages = []string{"en", "en-GB", "pt-BR", "de"}
	someTitles    = []string{"Release notes", "News of the day", "Café déjà vu", "a"}
	patterns      = []string{"/docs/*", "/docs/**", "/**/a.html", "**/*.p??", "/news/2026/**/b.html", "/*", "/?*/*.html"}
)

// A history is a journal with a brute-force record of it.
type history struct {
	r       *rand.Rand
	journal *journal.Journal
	now     time.Time
	first   []protocol.Item // items of the epoch's first manifest
	present map[string]bool // as the random steps assume
	onto    bool            // pages may also be moved onto existing ones
}

func newHistory(t *testing.T, r *rand.Rand) *history {
	t.Helper()
	h := &history{r: r, now: firstTime, present: map[string]bool{}, onto: r.IntN(2) == 0}
	h.journal = must.Get(journal.Open(filepath.Join(t.TempDir(), "journal"), &journal.Options{Now: func() time.Time {
		h.now = h.now.Add(time.Duration(r.IntN(1_200_000)) * time.Millisecond)
		return h.now
	}}))
	t.Cleanup(func() { h.journal.Close() })
	var steps []journal.Step
	for _, p := range somePaths {
		if r.IntN(3) > 0 {
			i := h.item(p)
			h.present[p] = true
			h.first = append(h.first, i)
			steps = append(steps, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: i}})
		}
	}
	must.Get(h.journal.Append(t.Context(), steps))
	must.OK(t, h.journal.EndBaseline())
	return h
}

// item draws a random item for a path, with many fields unknown.
func (h *history) item(path string) protocol.Item {
	i := protocol.Item{URL: base + path[1:], Length: -1}
	perhaps := func() bool { return h.r.IntN(3) > 0 }
	if perhaps() {
		i.Length = int64(h.r.IntN(1000))
	}
	if perhaps() {
		i.Type = oneOf(h.r, someTypes)
	}
	if perhaps() {
		i.Language = oneOf(h.r, someLanguages)
	}
	if perhaps() {
		i.Title = oneOf(h.r, someTitles)
	}
	if perhaps() {
		i.Modified = firstTime.Add(time.Duration(h.r.IntN(300)) * time.Minute)
	}
	if perhaps() {
		i.Digest = protocol.Sum([]byte{byte(h.r.IntN(256)), byte(h.r.IntN(256))})
	}
	if perhaps() {
		i.Importance = protocol.Importance(1 + h.r.IntN(100))
	}
	if !perhaps() {
		i.Canonical = base + "canonical.html"
	}
	return i
}

// grow appends n more random steps.
func (h *history) grow(t *testing.T, n int) protocol.Cursor {
	t.Helper()
	var head protocol.Cursor
	var steps []journal.Step
	for left := n; left > 0; left-- {
		p := oneOf(h.r, somePaths)
		s := journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: h.item(p)}}
		switch from := oneOf(h.r, somePaths); {
		case h.r.IntN(3) == 0 && h.present[from] && from != p && (h.onto || !h.present[p]):
			s.Op, s.From = protocol.Move, base+from[1:]
			delete(h.present, from)
			h.present[p] = true
		case h.present[p] && h.r.IntN(3) == 0:
			s.Op = protocol.Delete
			delete(h.present, p)
		case h.present[p]:
			s.Op = protocol.Update
		default:
			h.present[p] = true
		}
		if h.r.IntN(3) > 0 && (s.Op == protocol.Update || s.Op == protocol.Move) {
			s.Significance = protocol.Significance(1 + h.r.IntN(1001))
		}
		if steps = append(steps, s); left > 1 && h.r.IntN(4) > 0 {
			continue
		}
		var err error
		if head, err = h.journal.Append(t.Context(), steps); err != nil {
			t.Fatal(err)
		}
		steps = nil
	}
	return head
}

func (h *history) changes(t *testing.T) []protocol.Change {
	t.Helper()
	return must.Get(h.journal.Read(t.Context(), h.journal.Floor(), protocol.MaxBatch))
}

// items and graves return the items and tombstones that remain after all changes.
func (h *history) items(changes []protocol.Change) []protocol.Item {
	m := map[string]protocol.Item{}
	for _, i := range h.first {
		m[i.URL] = i
	}
	for _, c := range changes {
		delete(m, c.From)
		if m[c.Item.URL] = c.Item; c.Op == protocol.Delete {
			delete(m, c.Item.URL)
		}
	}
	var list []protocol.Item
	for _, i := range m {
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b protocol.Item) int { return protocol.Compare(a.URL, b.URL) })
	return list
}

func (h *history) graves(changes []protocol.Change) []protocol.Tombstone {
	there := map[string]bool{}
	for _, i := range h.items(changes) {
		there[i.URL] = true
	}
	var list []protocol.Tombstone
	for _, c := range slices.Backward(changes) {
		t := protocol.Tombstone{URL: c.Item.URL, At: c.At, Seq: c.Seq, Prev: c.Prev}
		if c.Op == protocol.Move {
			t.URL, t.To = c.From, c.Item.URL
		} else if c.Op != protocol.Delete {
			continue
		}
		if !there[t.URL] {
			there[t.URL] = true
			list = append(list, t)
		}
	}
	return list
}

// ask sends a query by a random method.
func ask(r *rand.Rand, n http.Handler, path string, v url.Values) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path+"?"+v.Encode(), nil)
	if method := oneOf(r, []string{"GET", "QUERY", "POST"}); method != "GET" {
		req = httptest.NewRequest(method, path, strings.NewReader(v.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	n.ServeHTTP(w, req)
	return w
}

// pull reads the changes door from a cursor to the head.
func pull(t *testing.T, r *rand.Rand, n http.Handler, q *question, at, head protocol.Cursor) (list []protocol.Change) {
	t.Helper()
	v := q.parameters()
	for at != head {
		v.Set("after", at.String())
		v.Set("limit", strconv.Itoa(1+r.IntN(protocol.MaxBatch)))
		w := ask(r, n, "/parley/changes", v)
		if w.Code != http.StatusOK {
			t.Fatalf("changes: %d %s", w.Code, w.Body)
		}
		m, err := protocol.ParseMessage(w.Body.Bytes())
		if err != nil || m.To == at {
			t.Fatalf("changes: %s, %v", w.Body, err)
		}
		list, at = append(list, m.Changes...), m.To
	}
	return list
}

// listen opens a stream and returns a function that reads it up to a cursor. A reader that is cut off for not
// answering reconnects and continues from its cursor.
func listen(t *testing.T, addr string, q *question, at protocol.Cursor) func(head protocol.Cursor) []protocol.Change {
	t.Helper()
	v := q.parameters()
	v.Set("after", at.String())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	conn := must.Get(wsconn.Dial(ctx, "ws"+strings.TrimPrefix(addr, "http")+"/parley/stream?"+v.Encode(), nil, nil,
		wsconn.Options{Subprotocols: []string{protocol.Subprotocol}, MaxMessage: protocol.MaxMessage}))
	heard := make(chan []byte, 1000)
	var why error // valid once heard is closed
	go func() {   // until the stream ends; it also answers pings
		defer close(heard)
		for {
			b, err := conn.Read(ctx)
			if err != nil {
				why = err
				return
			}
			select {
			case heard <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func(head protocol.Cursor) (list []protocol.Change) {
		t.Helper()
		for at != head {
			b, ok := <-heard
			if !ok {
				// On a busy machine a ping may be answered too late.
				var cut *wsconn.CloseError
				if !errors.As(why, &cut) || cut.Code != 1000 {
					t.Fatalf("stream of %s ended at %v: %v", v.Encode(), at, why)
				}
				return append(list, listen(t, addr, q, at)(head)...)
			}
			m, err := protocol.ParseMessage(b)
			switch {
			case err != nil:
				t.Fatal(err)
			case m.Kind == protocol.Bye || m.Kind == protocol.Gap:
				t.Fatalf("stream at %v says %+v", at, m)
			case m.Kind != protocol.Hello:
				list, at = append(list, m.Changes...), m.To
			}
		}
		conn.Close(1000, "")
		for range heard {
		}
		return list
	}
}

// query reads the query door, page by page.
func query(t *testing.T, r *rand.Rand, n http.Handler, q *question, head protocol.Cursor) (items []protocol.Item, gone []protocol.Tombstone) {
	t.Helper()
	v := q.parameters()
	v.Del("op") // these concern changes
	v.Del("minsig")
	if r.IntN(2) == 0 {
		v.Set("limit", strconv.Itoa(1+r.IntN(8)))
	}
	for {
		w := ask(r, n, "/parley/query", v)
		if w.Code != http.StatusOK {
			t.Fatalf("query: %d %s", w.Code, w.Body)
		}
		m := protocol.NewManifestReader(w.Body, protocol.ManifestOptions{URL: base + "parley/query"})
		told, buried := 0, 0
		for {
			rec, err := m.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("query: %v", err)
			}
			switch {
			case rec.Gone != nil:
				gone, buried = append(gone, *rec.Gone), buried+1
			default:
				items, told = append(items, rec.Item), told+1
			}
		}
		if limit, err := strconv.Atoi(v.Get("limit")); err == nil && (told > limit || buried > limit) {
			t.Fatalf("query: %d items and %d tombstones, of at most %d", told, buried, limit)
		}
		if h := m.Head(); h.Cursor != head || h.Complete || h.Items != told {
			t.Fatalf("query: %d items in %+v", told, h)
		}
		if strings.Contains(w.Header().Get("Parley-More"), "gone") { // only the newest tombstones fit
			v.Del("limit")
			items, gone = nil, nil
			continue
		}
		next, more := strings.CutSuffix(w.Header().Get("Link"), `>; rel="next"`)
		if more != (w.Header().Get("Parley-More") != "") {
			t.Fatalf("query: %v", w.Header())
		}
		if !more {
			return items, gone
		}
		u := must.Get(url.Parse(strings.TrimPrefix(next, "<")))
		v = u.Query()
	}
}

// The answer of every door is what brute force finds in the journal (C13): over random histories and queries,
// with deletions, moves, and pages that the site's rules forbid; by polling, by push while the history grows,
// and by queries of the current pages.
func TestAnswersEqualBruteForce(t *testing.T) {
	histories, questions := 5, 150
	if testing.Short() {
		histories, questions = 2, 40
	}
	told, changed, found, buried, refused, folded := 0, 0, 0, 0, 0, 0
	for seed := range histories {
		r := rand.New(rand.NewPCG(uint64(seed), 13))
		h := newHistory(t, r)
		hidden := oneOf(r, []string{"", base + "private/", base + "docs/deep/"})
		n := &doors.Notifier{Log: h.journal, Base: base,
			Content: doors.Content{Items: server.Moments(h.journal)},
			Clients: doors.Clients{Where: new(cel.Expressions).Compile},
			Limits:  doors.Limits{Heartbeat: 500 * time.Millisecond}, // a filtering subscriber learns its cursor by it
			Public:  func(u string) bool { return hidden == "" || !strings.HasPrefix(u, hidden) }}
		web := httptest.NewServer(n)
		from := h.journal.Head()
		h.grow(t, 20+r.IntN(100))
		asked := make([]*question, questions)
		hear := make([]func(protocol.Cursor) []protocol.Change, questions)
		for i := range asked {
			asked[i] = drawQuestion(r, hidden)
			if e := asked[i].where; e != nil {
				if _, err := n.Clients.Where(e.text); err != nil {
					if !strings.Contains(err.Error(), "may cost") {
						t.Fatalf("seed %d: %s: %v", seed, e.text, err)
					}
					refused++
					asked[i].where = nil
				}
			}
			hear[i] = listen(t, web.URL, asked[i], from)
		}
		head := h.grow(t, 20+r.IntN(100))
		changes := h.changes(t)
		items, graves := h.items(changes), h.graves(changes)
		for i, q := range asked {
			want := q.told(t, h.first, changes)
			for how, got := range map[string][]protocol.Change{"pulled": pull(t, r, n, q, from, head), "pushed": hear[i](head)} {
				if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
					t.Fatalf("seed %d, question %d, %s: %s\n%s\nwant\n%s", seed, i, how, q.parameters().Encode(), lines(got), lines(want))
				}
			}
			wantItems, wantGone := q.offered(items, graves)
			gotItems, gotGone := query(t, r, n, q, head)
			if !slices.EqualFunc(gotItems, wantItems, sameItem) || !slices.EqualFunc(gotGone, wantGone, sameGrave) {
				t.Fatalf("seed %d, question %d: %s\n%+v\n%+v\nwant\n%+v\n%+v", seed, i, q.parameters().Encode(), gotItems, gotGone, wantItems, wantGone)
			}
			if got, ok := q.fold(h.first, changes, want); ok {
				folded++
				if want := urlsOf(wantItems); !slices.Equal(got, want) {
					t.Fatalf("seed %d, question %d: %s: the delivered changes give\n%v\nwant\n%v", seed, i, q.parameters().Encode(), got, want)
				}
			}
			told, changed, found, buried = told+len(want), changed+len(changes), found+len(wantItems), buried+len(wantGone)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		must.OK(t, n.Close(ctx))
		cancel()
		web.Close()
	}
	t.Logf("%d questions to %d histories: %d of %d changes told, %d items and %d tombstones; %d expressions were too dear; %d folded",
		histories*questions, histories, told, changed, found, buried, refused, folded)
	if folded < histories*questions/20 || told < changed/20 || told > changed*19/20 || found == 0 || buried == 0 || refused > histories*questions/20 {
		t.Error("the queries match too little to test anything")
	}
}

func sameItem(a, b protocol.Item) bool { return a.Equal(b) && a.Importance == b.Importance }

func sameGrave(a, b protocol.Tombstone) bool {
	at := a.At.Equal(b.At)
	a.At, b.At = time.Time{}, time.Time{}
	return at && a == b
}

func lines(changes []protocol.Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%d %s %s from %s %+v %d\n", c.Seq, c.Op, c.Item.URL, c.From, c.Item, c.Significance)
	}
	return b.String()
}
