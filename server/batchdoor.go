package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/protocol"
)

// Bounds of the batch door.
const (
	askBytes = 8 << 20          // of a question
	askPages = 10_000           // pages that one question names
	askWait  = 30 * time.Second // how long a question may take to arrive

	// askedBytes bounds the questions that are held until they are answered, in all.
	askedBytes = 2 * askBytes

	// Bundles that are being answered at a time, in all and to one address.
	// Each takes some megabytes.
	bundlesAtOnce, bundlesEach = 64, 4

	// pieceBytes is how much of an answer a reader is given the WriteWait for.
	pieceBytes = 64 << 10
)

// problemOrigin is of a question about pages of other sites.
const problemOrigin = "urn:parley:problem:origin"

// serveBatch answers with a bundle: by GET of what follows a cursor, by QUERY
// or POST of what a question in JSON asks for:
//
//	{"after": "EPOCH:7", "to": "EPOCH:9", "have": {"https://www.example.org/a": "sha-256=:BASE64:"}}
//	{"pages": [{"url": "https://www.example.org/a", "hash": "sha-256=:BASE64:"}, {"url": "https://www.example.org/b"}]}
//
// The first form is the GET, but that pages of which the reader holds what
// they are now are stated and not sent. The second states for each page what
// it is now, or that it is gone, and sends those of other bytes than are held.
// Of what is not public nothing is said but that it is gone.
func (n *Notifier) serveBatch(w http.ResponseWriter, r *http.Request) *problem {
	w.Header().Set("Accept-Query", `"application/json"`)
	known := slices.DeleteFunc(protocol.FilterNames(), func(name string) bool { return name == "agent" })
	q, p := query(r, append(known, "after", "to")...)
	if p != nil {
		return p
	}
	q.Set("as", string(protocol.AsBatch))
	sel, p := n.selectionOf(r, q)
	if p != nil {
		return p
	}
	leave, ok := n.bundles.enter(clientAddress(r), bundlesAtOnce, bundlesEach)
	if !ok {
		return &problem{Type: problemLimit, Title: "too many bundles at a time", Status: http.StatusTooManyRequests,
			Detail: fmt.Sprintf("at most %d bundles are answered at a time, and %d to one address", bundlesAtOnce, bundlesEach), retry: 2 * time.Second}
	}
	defer leave()
	var ask question
	if r.Method == methodQuery || r.Method == http.MethodPost {
		body := &askBody{n: n, ctx: r.Context(), sel: sel, in: http.MaxBytesReader(w, r.Body, askBytes)}
		defer body.release()
		if p := n.readQuestion(w, r, body, &ask); p != nil {
			return p
		}
	}
	if p := n.scanning(); p != nil {
		return p
	}
	if ask.Pages != nil {
		return n.answerPages(w, r, sel, &ask)
	}
	if ask.After == nil {
		after, p := cursorOf(q)
		if p != nil {
			return p
		}
		ask.After = &after
	}
	if ask.To == nil && q.Has("to") {
		to, err := protocol.ParseCursor(q.Get("to"))
		if err != nil {
			return badParameter("to", err.Error())
		}
		ask.To = &to
	}
	return n.answerAfter(w, r, sel, &ask)
}

// A question is the body of a request for a batch.
type question struct {
	After *protocol.Cursor
	To    *protocol.Cursor
	Have  map[string]protocol.Digest
	Pages []askedPage
}

type askedPage struct {
	URL  string          `json:"url"`
	Hash protocol.Digest `json:"hash"`
}

var errManyPages = fmt.Errorf("more than %d pages", askPages)

// parse reads a question as it arrives, and stops at what is too much.
func (q *question) parse(r io.Reader) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	named := 0
	one := func() error {
		if named++; named > askPages {
			return errManyPages
		}
		return nil
	}
	err := inside(d, '{', "the question is no object", func() error {
		name, err := d.Token()
		if err != nil {
			return err
		}
		switch name {
		case "after":
			return d.Decode(&q.After)
		case "to":
			return d.Decode(&q.To)
		case "have":
			q.Have = map[string]protocol.Digest{}
			return inside(d, '{', "have is not an object", func() error {
				url, err := d.Token()
				if err != nil {
					return err
				}
				var digest protocol.Digest
				if err := d.Decode(&digest); err != nil {
					return err
				}
				q.Have[url.(string)] = digest // a key is a string
				return one()
			})
		case "pages":
			q.Pages = []askedPage{}
			return inside(d, '[', "pages is not a list", func() error {
				var p askedPage
				if err := d.Decode(&p); err != nil {
					return err
				}
				q.Pages = append(q.Pages, p)
				return one()
			})
		}
		return fmt.Errorf("%.100q is nothing that can be asked", name)
	})
	if err != nil {
		return err
	}
	if _, err := d.Token(); err == nil {
		return new(json.SyntaxError) // more than one question
	} else if err != io.EOF {
		return err
	}
	return nil
}

// inside reads an object or a list, each of whose members each reads.
func inside(d *json.Decoder, begin json.Delim, otherwise string, each func() error) error {
	if t, err := d.Token(); err != nil {
		return err
	} else if t != begin {
		return errors.New(otherwise)
	}
	for d.More() {
		if err := each(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// An askBody is a question that arrives. Its bytes count among those of all
// questions until release, since what they say is held: errBusy is that they
// are too many.
type askBody struct {
	n    *Notifier
	ctx  context.Context
	sel  *selection
	in   io.Reader
	turn *turn // in which what has arrived is read; none while more arrives
	took int64
	err  error // why it did not arrive whole
}

func (b *askBody) Read(p []byte) (int, error) {
	b.turn.leave()
	n, err := b.in.Read(p)
	b.took += int64(n)
	if b.n.asked.Add(int64(n)) > askedBytes {
		return 0, errBusy
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	var late error
	if b.turn, late = b.n.turn(b.ctx, b.sel, true); late != nil {
		return 0, late // nobody is there to be answered
	}
	return n, err
}

func (b *askBody) release() {
	b.turn.leave()
	b.n.asked.Add(-b.took)
}

// readQuestion reads the body of QUERY or POST, as RFC 10008 has it refused.
func (n *Notifier) readQuestion(w http.ResponseWriter, r *http.Request, body *askBody, ask *question) *problem {
	const want = "ask with a body of type application/json, without content coding"
	text := r.Header.Get("Content-Type")
	if text == "" {
		return plainProblem(http.StatusBadRequest, want)
	}
	if t, _, err := mime.ParseMediaType(text); err != nil || t != "application/json" {
		return plainProblem(http.StatusUnsupportedMediaType, want)
	}
	if c := r.Header.Get("Content-Encoding"); c != "" && !strings.EqualFold(c, "identity") {
		return plainProblem(http.StatusUnsupportedMediaType, want)
	}
	tooMuch := func() *problem {
		return &problem{Type: problemLimit, Title: "the question is too long", Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("one question has at most %d bytes and names at most %d pages: ask in parts, or with a cursor", askBytes, askPages)}
	}
	if r.ContentLength > askBytes {
		return tooMuch()
	}
	n.deadline(w, askWait)
	defer func() { body.turn.leave() }()
	err := ask.parse(bufio.NewReaderSize(body, pieceBytes))
	if errors.Is(err, errManyPages) || errors.Is(err, errBusy) {
		body.turn.leave()
		io.Copy(io.Discard, body.in) // who is still speaking does not hear the answer
	}
	n.deadline(w, mostWork)
	switch {
	case errors.Is(err, errManyPages), errors.As(err, new(*http.MaxBytesError)):
		return tooMuch()
	case errors.Is(err, errBusy):
		return busy(err)
	case body.err != nil:
		return plainProblem(http.StatusBadRequest, "the body did not arrive whole")
	case errors.As(err, new(*json.SyntaxError)), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return plainProblem(http.StatusBadRequest, "the body is no JSON")
	case err != nil:
		return plainProblem(http.StatusUnprocessableEntity, "the question cannot be understood: "+err.Error())
	case ask.Pages != nil && (ask.After != nil || ask.To != nil || ask.Have != nil):
		return plainProblem(http.StatusUnprocessableEntity, "ask either for pages or for what follows a cursor")
	}
	foreign := ""
	for url := range ask.Have {
		if !n.ours(url) {
			foreign = url
		}
	}
	for i := range ask.Pages {
		if !n.ours(ask.Pages[i].URL) {
			foreign = ask.Pages[i].URL
			break
		}
	}
	if foreign != "" {
		return &problem{Type: problemOrigin, Title: "a page of another site", Status: http.StatusUnprocessableEntity,
			Detail: fmt.Sprintf("%.200q is no canonical URL of %s", foreign, protocol.Origin(n.Base))}
	}
	return nil
}

// answerAfter answers with what follows a cursor.
func (n *Notifier) answerAfter(w http.ResponseWriter, r *http.Request, s *selection, ask *question) *problem {
	after, upTo := *ask.After, protocol.Cursor{}
	if ask.To != nil {
		upTo = *ask.To
		if upTo.Epoch != after.Epoch || upTo.Seq < after.Seq {
			return badParameter("to", fmt.Sprintf("%v does not follow %v", upTo, after))
		}
		if head := n.Log.Head(); upTo.Epoch == head.Epoch && upTo.Seq > head.Seq {
			return n.cursorProblem(upTo, protocol.ErrEpoch)
		}
	}
	// Also where nothing is to be read, the cursor must be one of this log.
	n.deadline(w, mostWork)
	_, err := n.Log.Read(r.Context(), after, 1)
	var p *pack
	if err == nil {
		var t *turn
		if t, err = n.turn(r.Context(), s, false); err == nil {
			p, err = n.packAfter(r.Context(), t, s, after, upTo, s.count)
			t.leave()
		}
	}
	switch {
	case r.Context().Err() != nil:
		return nil // nobody is there to be answered
	case errors.Is(err, errBusy), errors.Is(err, errCrowd):
		return busy(err)
	case err != nil:
		if p := n.cursorProblem(after, err); p != nil {
			return p
		}
		orDiscard(n.Logger).Error("changes could not be read", "after", after.String(), "err", err)
		return plainProblem(http.StatusInternalServerError, "the journal could not be read")
	}
	p.held = ask.Have
	return n.answer(w, r, s, p)
}

// answerPages answers what pages are.
func (n *Notifier) answerPages(w http.ResponseWriter, r *http.Request, s *selection, ask *question) *problem {
	if n.Item == nil {
		return plainProblem(http.StatusNotImplemented, "this site answers by cursor alone")
	}
	if !s.filter.IsZero() {
		return badParameter("", "a question for pages that it names has no filter")
	}
	// What is found afterwards is as it is here, or later.
	p := &pack{to: n.Log.Head(), held: make(map[string]protocol.Digest, len(ask.Pages))}
	n.deadline(w, mostWork)
	t, err := n.turn(r.Context(), s, false)
	if err == nil {
		err = n.lookUp(r.Context(), t, s, p, ask.Pages)
		t.leave()
	}
	switch {
	case r.Context().Err() != nil:
		return nil // nobody is there to be answered
	case errors.Is(err, errBusy), errors.Is(err, errCrowd):
		return busy(err)
	case err != nil:
		orDiscard(n.Logger).Error("pages could not be looked up", "err", err)
		return plainProblem(http.StatusInternalServerError, "the journal could not be read")
	}
	return n.answer(w, r, s, p)
}

// lookUp adds what pages are now. Of what may not be told to the one who asks
// it says what it says of what is not there.
func (n *Notifier) lookUp(ctx context.Context, t *turn, s *selection, p *pack, pages []askedPage) error {
	for i := range pages {
		if err := t.rest(ctx); err != nil {
			return err
		}
		a := &pages[i]
		if _, twice := p.held[a.URL]; twice {
			continue
		}
		p.held[a.URL] = a.Hash
		c := protocol.Change{Seq: p.to.Seq, Op: protocol.Delete, Prev: a.Hash, Item: protocol.Item{URL: a.URL, Length: -1}}
		if n.public(s, a.URL) {
			item, ok, err := n.Item(a.URL)
			if err != nil {
				return err
			}
			if ok {
				c.Item, c.At = item, item.Modified
				if c.Op = protocol.Update; a.Hash.IsZero() {
					c.Op = protocol.Create
				}
			}
		}
		p.changes = append(p.changes, c)
	}
	return nil
}

// answer sends a bundle, as fast as its reader reads.
func (n *Notifier) answer(w http.ResponseWriter, r *http.Request, s *selection, p *pack) *problem {
	h := w.Header()
	h.Set("Content-Type", bundle.MediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Parley-Cursor", p.to.String())
	h.Set("X-Accel-Buffering", "no") // nginx: hand it on as it comes
	h.Add("Vary", "Accept-Encoding")
	coding := bundle.Gzip
	switch {
	case accepted(r.Header) == codingZstd:
		coding = bundle.Zstd
		h.Set("Content-Encoding", codingZstd)
	case acceptsPlain(r.Header):
		coding = bundle.Plain
	}
	n.stats.answered(protocol.AsBatch, len(p.changes), 0)
	if r.Method == http.MethodHead {
		return nil
	}
	out := bufio.NewWriterSize(pieces{metered{patient{w, n}, &n.stats.form(protocol.AsBatch).bytes}}, pieceBytes)
	err := n.writePack(r.Context(), out, p, coding, s)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		if r.Context().Err() == nil {
			orDiscard(n.Logger).Info("bundle cut", "peer", r.RemoteAddr, "to", p.to.String(), "err", err)
		}
		panic(http.ErrAbortHandler) // it has begun: its reader must see that it is not whole
	}
	return nil
}

// pieces writes what is large piece by piece, each of which has its own time.
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
