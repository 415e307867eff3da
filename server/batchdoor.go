package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
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
	q, p := query(r, append(selectionNames(), "after", "to")...)
	if p != nil {
		return p
	}
	if as := q.Get("as"); as != "" && as != string(protocol.AsBatch) {
		return badParameter("as", "at this door everything is a batch")
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
		if p := n.readQuestion(w, r, &ask); p != nil {
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
	After *protocol.Cursor `json:"after"`
	To    *protocol.Cursor `json:"to"`
	Have  heldPages        `json:"have"`
	Pages asked            `json:"pages"`
}

// heldPages are what a reader holds: digests by URL.
type heldPages map[string]protocol.Digest

// asked are pages that a reader asks for.
type asked []askedPage

type askedPage struct {
	URL  string          `json:"url"`
	Hash protocol.Digest `json:"hash"`
}

var errManyPages = fmt.Errorf("more than %d pages", askPages)

// UnmarshalJSON stops at what is too much.
func (l *asked) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.New("pages is not a list")
	}
	*l = asked{}
	for d.More() {
		if len(*l) == askPages {
			return errManyPages
		}
		var p askedPage
		if err := d.Decode(&p); err != nil {
			return err
		}
		*l = append(*l, p)
	}
	return nil
}

// UnmarshalJSON stops at what is too much.
func (h *heldPages) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("have is not an object")
	}
	*h = heldPages{}
	for d.More() {
		if len(*h) == askPages {
			return errManyPages
		}
		url, err := d.Token()
		if err != nil {
			return err
		}
		var digest protocol.Digest
		if err := d.Decode(&digest); err != nil {
			return err
		}
		(*h)[url.(string)] = digest // a key is a string
	}
	return nil
}

// readQuestion reads the body of QUERY or POST, as RFC 10008 has it refused.
func (n *Notifier) readQuestion(w http.ResponseWriter, r *http.Request, ask *question) *problem {
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, askBytes))
	if long := new(http.MaxBytesError); errors.As(err, &long) {
		return tooMuch()
	} else if err != nil {
		return plainProblem(http.StatusBadRequest, "the body did not arrive whole")
	}
	n.deadline(w, 0)
	leave, err := n.takeTurn(r.Context())
	if err != nil {
		return unavailable("too much is asked for at the moment")
	}
	defer leave()
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err = d.Decode(ask)
	if err == nil && d.More() {
		err = new(json.SyntaxError) // more than one question
	}
	switch {
	case errors.Is(err, errManyPages):
		return tooMuch()
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
	_, err := n.Log.Read(r.Context(), after, 1)
	var p *pack
	if err == nil {
		var leave func()
		if leave, err = n.takeTurn(r.Context()); err == nil {
			p, err = n.packAfter(r.Context(), s, after, upTo, s.count)
			leave()
		}
	}
	switch {
	case r.Context().Err() != nil:
		return nil // nobody is there to be answered
	case err != nil:
		if p := n.cursorProblem(after, err); p != nil {
			return p
		}
		orDiscard(n.Logger).Error("changes could not be read", "after", after.String(), "err", err)
		return plainProblem(http.StatusInternalServerError, "the journal could not be read")
	}
	p.held = ask.Have
	return n.answer(w, r, p)
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
	for rest := ask.Pages; len(rest) > 0; {
		k := min(len(rest), groupPages)
		leave, err := n.takeTurn(r.Context())
		if err != nil {
			return nil // nobody is there to be answered
		}
		err = n.lookUp(s, p, rest[:k])
		leave()
		if err != nil {
			orDiscard(n.Logger).Error("pages could not be looked up", "err", err)
			return plainProblem(http.StatusInternalServerError, "the journal could not be read")
		}
		rest = rest[k:]
	}
	return n.answer(w, r, p)
}

// lookUp adds what pages are now. Of what may not be told to the one who asks
// it says what it says of what is not there.
func (n *Notifier) lookUp(s *selection, p *pack, pages []askedPage) error {
	for i := range pages {
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
func (n *Notifier) answer(w http.ResponseWriter, r *http.Request, p *pack) *problem {
	h := w.Header()
	h.Set("Content-Type", bundle.MediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Parley-Cursor", p.to.String())
	h.Set("X-Accel-Buffering", "no") // nginx: hand it on as it comes
	h.Add("Vary", "Accept-Encoding")
	coding := bundle.Gzip
	if accepted(r.Header) == codingZstd {
		coding = bundle.Zstd
		h.Set("Content-Encoding", codingZstd)
	}
	n.stats.answered(protocol.AsBatch, len(p.changes), 0)
	if r.Method == http.MethodHead {
		return nil
	}
	out := bufio.NewWriterSize(pieces{metered{patient{w, n}, &n.stats.form(protocol.AsBatch).bytes}}, pieceBytes)
	err := n.writePack(r.Context(), out, p, coding, true)
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
