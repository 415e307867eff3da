package doors

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

// Bounds of the batch door.
const (
	askWait  = 30 * time.Second // how long a question (the body of a request) may take to arrive
	askPiece = 8 << 10          // how much of it is read in one slot

	// askedBytes bounds the questions that are in memory until they are answered, in all.
	askedBytes = 2 * protocol.MaxQuestion

	// Bundles in progress at a time, in all and per address. Each takes some megabytes.
	bundlesAtOnce, bundlesEach = 64, 4

	lookUpPages = 512 // pages looked up between two checks of the slot

	// pieceBytes is how much of a response a client must read within WriteWait.
	pieceBytes = 64 << 10
)

// problemOrigin is the type of a problem about a page of another site.
const problemOrigin = "urn:parley:problem:origin"

// A batchDoor sends many pages in one answer.
type batchDoor struct {
	*site
	readers  *readers
	bundles  *bundles
	item     func(url string) (protocol.Item, bool, error) // nil: pages cannot be requested by URL
	admitted *limit.Admission                              // with siteDoor: both send much
	asked    atomic.Int64                                  // bytes of questions held in memory
	counts   *counters
}

// serve answers with a bundle: of what follows a cursor (GET), or of what a
// question in the body asks for (QUERY, POST). A question without pages is like the GET,
// except that pages whose present version the reader already has come without content. A
// question with pages gets for each its present state, or that it is gone, and the
// content if it differs from the reader's. A page that is not public is reported as gone.
func (d *batchDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	w.Header().Set("Accept-Query", `"application/json"`)
	known := slices.DeleteFunc(protocol.FilterNames(), func(name string) bool { return name == "agent" })
	q, p := web.Query(r, append(known, "after", "to")...)
	if p != nil {
		return p
	}
	q.Set("as", string(protocol.AsBatch))
	sel, p := d.readers.selection(r, q)
	if p != nil {
		return p
	}
	leave, p := d.admitted.Enter("bundles and archives", sel.addr, bundlesAtOnce, bundlesEach)
	if p != nil {
		return p
	}
	defer leave()
	ask := &protocol.Question{}
	if r.Method == web.MethodQuery || r.Method == http.MethodPost {
		body := &askBody{door: d, ctx: r.Context(), sel: sel, in: r.Body}
		defer body.release()
		if ask, p = d.readQuestion(w, r, body); p != nil {
			return p
		}
	}
	if p := d.scanning(); p != nil {
		return p
	}
	if ask.Pages != nil {
		return d.answerPages(w, r, sel, ask.Pages)
	}
	if ask.After == nil {
		after, p := web.Cursor(q)
		if p != nil {
			return p
		}
		ask.After = &after
	}
	if ask.To == nil && q.Has("to") {
		to, err := protocol.ParseCursor(q.Get("to"))
		if err != nil {
			return web.BadParameter("to", err.Error())
		}
		ask.To = &to
	}
	return d.answerAfter(w, r, sel, ask)
}

// An askBody is the body of a question. Its bytes count against askedBytes until
// release, since the parsed question stays in memory; beyond that Read returns
// limit.ErrBusy.
type askBody struct {
	door *batchDoor
	ctx  context.Context
	sel  *selection
	in   io.Reader
	slot *limit.Slot // the slot for reading what has arrived; none while it waits for more
	took int64
	err  error // why the body is incomplete
}

func (b *askBody) Read(p []byte) (int, error) {
	b.slot.Release()
	n, err := b.in.Read(p)
	b.took += int64(n)
	if b.door.asked.Add(int64(n)) > askedBytes {
		return 0, limit.ErrBusy
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	var late error
	if b.slot, late = b.sel.acquireSlot(b.ctx, true); late != nil {
		return 0, late // the client has gone
	}
	return n, err
}

func (b *askBody) release() {
	b.slot.Release()
	b.door.asked.Add(-b.took)
}

// readQuestion reads the body of QUERY or POST; its errors follow RFC 10008.
func (d *batchDoor) readQuestion(w http.ResponseWriter, r *http.Request, body *askBody) (*protocol.Question, *web.Problem) {
	if _, p := web.BodyType(r.Header, "batch requests", "application/json"); p != nil {
		if r.Header.Get("Content-Type") == "" {
			p.Status, p.Title = http.StatusBadRequest, http.StatusText(http.StatusBadRequest)
		}
		return nil, p
	}
	tooMuch := &web.Problem{Type: web.TypeLimit, Title: "the request is too long", Status: http.StatusRequestEntityTooLarge,
		Detail: fmt.Sprintf("one request has at most %d bytes and names at most %d pages: send several requests, or use a cursor", protocol.MaxQuestion, protocol.MaxQuestionPages)}
	if r.ContentLength > protocol.MaxQuestion {
		return nil, tooMuch
	}
	d.deadline(w, askWait)
	defer func() { body.slot.Release() }()
	ask, err := protocol.ReadQuestion(bufio.NewReaderSize(body, askPiece))
	if errors.Is(err, protocol.ErrLimit) || errors.Is(err, limit.ErrBusy) {
		body.slot.Release()
		io.Copy(io.Discard, io.LimitReader(body.in, protocol.MaxQuestion)) // a client that is still sending would not read the answer
	}
	d.deadline(w, mostWork)
	switch {
	case errors.Is(err, protocol.ErrLimit):
		return nil, tooMuch
	case errors.Is(err, limit.ErrBusy):
		return nil, limit.Busy(err)
	case body.err != nil:
		return nil, web.Plain(http.StatusBadRequest, "the body is incomplete")
	case errors.As(err, new(*json.SyntaxError)), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, web.Plain(http.StatusBadRequest, "the body is not valid JSON")
	case err != nil:
		return nil, web.Plain(http.StatusUnprocessableEntity, "invalid request body: "+err.Error())
	case ask.Pages != nil && (ask.After != nil || ask.To != nil || ask.Have != nil):
		return nil, web.Plain(http.StatusUnprocessableEntity, "pages cannot be combined with after, to or have")
	}
	for url := range ask.Have {
		if body.slot.IsOver(); !d.isOurs(url) { // it pauses, if that is due
			return nil, d.foreign(url)
		}
	}
	return ask, nil
}

// foreign returns the problem for a page of another site.
func (d *batchDoor) foreign(url string) *web.Problem {
	return &web.Problem{Type: problemOrigin, Title: "a page of another site", Status: http.StatusUnprocessableEntity,
		Detail: fmt.Sprintf("%.200q is not a canonical URL of %s", url, protocol.Origin(d.urls.base))}
}

// errForeign is the URL of a requested page that belongs to another site.
type errForeign string

func (e errForeign) Error() string { return "page of another site: " + string(e) }

// answerAfter answers with what follows a cursor.
func (d *batchDoor) answerAfter(w http.ResponseWriter, r *http.Request, s *selection, ask *protocol.Question) *web.Problem {
	after, upTo := *ask.After, protocol.Cursor{}
	if ask.To != nil {
		upTo = *ask.To
		if upTo.Epoch != after.Epoch || upTo.Seq < after.Seq {
			return web.BadParameter("to", fmt.Sprintf("%v does not follow %v", upTo, after))
		}
	}
	d.deadline(w, mostWork)
	last := cmp.Or(upTo, after) // must be of this log, also where nothing is to be read
	if _, err := d.log.Read(r.Context(), last, 1); err != nil {
		return d.failed(r, last, err)
	}
	var p *pack
	t, err := s.acquireSlot(r.Context(), false)
	if err == nil {
		p, err = d.bundles.packAfter(r.Context(), t, s, after, upTo, s.count)
		t.Release()
	}
	if err != nil {
		return d.failed(r, after, err)
	}
	p.held = ask.Have
	return d.answer(w, r, s, p)
}

// answerPages answers with the present state of pages.
func (d *batchDoor) answerPages(w http.ResponseWriter, r *http.Request, s *selection, pages []protocol.RequestedPage) *web.Problem {
	if d.item == nil {
		return web.Plain(http.StatusNotImplemented, "this site answers only requests with a cursor")
	}
	if !s.filter.IsZero() {
		return web.BadParameter("", "a request that names pages cannot have a filter")
	}
	// The pages are read after this, so each is as of this head or later.
	p := &pack{to: d.log.Head(), held: make(map[string]protocol.Digest, len(pages))}
	d.deadline(w, mostWork)
	t, err := s.acquireSlot(r.Context(), false)
	if err == nil {
		err = d.lookUp(r.Context(), t, s, p, pages)
		t.Release()
	}
	var foreign errForeign
	switch {
	case errors.As(err, &foreign):
		return d.foreign(string(foreign))
	case err != nil:
		return d.failed(r, p.to, err)
	}
	return d.answer(w, r, s, p)
}

// lookUp adds the present state of pages. A page that the caller must not know of
// looks the same as one that does not exist.
func (d *batchDoor) lookUp(ctx context.Context, t *limit.Slot, s *selection, p *pack, pages []protocol.RequestedPage) error {
	p.changes = make([]protocol.Change, 0, len(pages))
	for i := range pages {
		a := &pages[i]
		if _, twice := p.held[a.URL]; !twice {
			p.held[a.URL] = a.Hash
			p.changes = append(p.changes, protocol.Change{Seq: p.to.Seq, Op: protocol.Delete, Prev: a.Hash, Item: protocol.Item{URL: a.URL, Length: -1}})
		}
	}
	for rest := p.changes; len(rest) > 0; {
		if err := t.Renew(ctx); err != nil {
			return err
		}
		some := rest[:min(len(rest), lookUpPages)]
		errs := make([]error, workers(len(some)))
		inParts(len(some), func(k, from, to int) {
			for i := from; i < to && errs[k] == nil; i++ {
				errs[k] = d.isNow(s, &some[i])
			}
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		rest = rest[len(some):]
	}
	return nil
}

// isNow turns the change that reports a page as gone into its present state, if the
// page exists. A URL of another site is an error unless the page exists.
func (d *batchDoor) isNow(s *selection, c *protocol.Change) error {
	if s.public(c.Item.URL) {
		item, ok, err := d.item(c.Item.URL)
		if err != nil {
			return err
		}
		if ok {
			if c.Op = protocol.Update; c.Prev.IsZero() {
				c.Op = protocol.Create
			}
			c.Item, c.At = item, item.Modified
			return nil
		}
	}
	if !d.isOurs(c.Item.URL) {
		return errForeign(c.Item.URL)
	}
	return nil
}

// answer sends a bundle, as fast as the client reads.
func (d *batchDoor) answer(w http.ResponseWriter, r *http.Request, s *selection, p *pack) *web.Problem {
	h := web.SetType(w, bundle.MediaType, "no-store")
	h.Set("Parley-Cursor", p.to.String())
	h.Set("X-Accel-Buffering", "no") // nginx: do not buffer the response
	h.Add("Vary", "Accept-Encoding")
	coding := bundle.Gzip
	switch {
	case web.Accepted(r.Header) == web.Zstd:
		coding = bundle.Zstd
		h.Set("Content-Encoding", web.Zstd)
	case web.AcceptsPlain(r.Header):
		coding = bundle.Plain
	}
	d.counts.answered(protocol.AsBatch, len(p.changes), 0)
	if r.Method == http.MethodHead {
		return nil
	}
	out := bufio.NewWriterSize(pieces{metered{d.patient(w), &d.counts.form(protocol.AsBatch).bytes}}, pieceBytes)
	err := d.bundles.writePack(r.Context(), out, p, coding, s)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		if r.Context().Err() == nil {
			d.logger.Info("bundle cut", "peer", r.RemoteAddr, "to", p.to.String(), "err", err)
		}
		panic(http.ErrAbortHandler) // the response has begun: the client must see that it is incomplete
	}
	return nil
}

// pieces splits large writes, so that each piece has its own deadline.
type pieces struct{ w io.Writer }

func (p pieces) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		var m int
		m, err = p.w.Write(b[:min(len(b), pieceBytes)])
		n += m
		b = b[m:]
	}
	return n, err
}
