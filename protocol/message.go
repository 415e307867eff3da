package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The WebSocket subprotocols of the stream. They carry the same messages.
const (
	Subprotocol     = "parley.v1.json" // JSON in text messages
	SubprotocolZstd = "parley.v1.zstd" // the same JSON, one Zstandard frame per binary message
)

// Subprotocols returns the subprotocols of the stream, the preferred one first.
func Subprotocols() []string { return []string{SubprotocolZstd, Subprotocol} }

// MaxMessage bounds one message of the stream, and one response of the changes
// door, in bytes. A writer splits longer messages; a reader refuses them.
const MaxMessage = 4 << 20

// MaxBatch bounds the changes in one message.
const MaxBatch = 1000

// A Kind names a message of the stream: its member "t".
type Kind string

// The messages of the stream, all from the site to the crawler. A reader
// ignores kinds and members that it does not know.
const (
	Hello Kind = "hello" // always first: the position of the stream
	Ev    Kind = "ev"    // one change
	Batch Kind = "batch" // the changes in (From, To]
	Mark  Kind = "mark"  // nothing more up to To; also the heartbeat
	Gap   Kind = "gap"   // the changes in (From, To] are not available: read the manifest
	Bye   Kind = "bye"   // always last: why, and from where to resume

	Bundle  Kind = "bundle" // the pages that changed in (From, To], each once
	Archive Kind = "site"   // the whole site, as it is at To
)

// A Message is one message of the stream. Which fields are set depends on Kind.
type Message struct {
	Kind Kind

	// To is the watermark of every message but Hello and Bye: the reader's cursor
	// after this message, which may be later than the last change in it.
	To Cursor

	// From is the position before the message, exclusive: a reader whose cursor differs
	// has missed a message. It is optional in Ev and Mark.
	// Hello: the effective start. Bye: where to resume.
	From  Cursor
	Head  Cursor // Hello, Mark, and Batch from the changes door: the newest change of the site.
	Floor Cursor // Hello: the oldest cursor that can be resumed from.

	At        time.Time     // Hello, Mark: the site's clock.
	Heartbeat time.Duration // Hello: the longest silence, whole seconds.
	Changes   []Change      // Ev: exactly one. Batch: any number, in order.
	Bodies    []Body        // Ev, Batch: none, or one for each change, zero for a change without a body.

	N    int  // Bundle: changes in it. Archive: pages in it.
	Body Body // Bundle: of CodingArchive. Archive: with Href.

	Code     int           // Bye: the close code.
	Reason   string        // Gap, Bye: text for people.
	Retry    time.Duration // Bye: how long to wait before the next attempt, to the millisecond.
	Manifest string        // Hello, Gap: URL of the manifest.
}

// Close codes of the stream. A reader reconnects, with backoff, after 4000 to
// 4499; after 4500 to 4999 it does not.
const (
	CloseShutdown = 4001 // the site stops or restarts
	CloseSlow     = 4002 // the reader did not keep up
	CloseEpoch    = 4003 // the reader's epoch has ended
	ClosePolicy   = 4502 // the site will not serve this reader
)

// wireMessage is every message but Ev in JSON.
type wireMessage struct {
	T        Kind        `json:"t"`
	V        int         `json:"v,omitempty"`
	After    *Cursor     `json:"after,omitempty"`
	From     *Cursor     `json:"from,omitempty"`
	To       *Cursor     `json:"to,omitempty"`
	Head     *Cursor     `json:"head,omitempty"`
	Floor    *Cursor     `json:"floor,omitempty"`
	Resume   *Cursor     `json:"resume,omitempty"`
	At       string      `json:"at,omitempty"`
	HB       int64       `json:"hb,omitempty"`
	N        *int        `json:"n,omitempty"`
	Ev       wireChanges `json:"ev,omitempty"`
	Body     *wireBody   `json:"body,omitempty"`
	Code     int         `json:"code,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	RetryMS  int64       `json:"retry_ms,omitempty"`
	Manifest string      `json:"manifest,omitempty"`
}

// wireEv is an Ev message: the members of its change stand in the message itself.
type wireEv struct {
	T     Kind    `json:"t"`
	After *Cursor `json:"after,omitempty"`
	To    *Cursor `json:"to"`
	wireChange
}

type wireChange struct {
	Seq  uint64 `json:"seq"`
	At   string `json:"at,omitempty"`
	Op   Op     `json:"op"`
	URL  string `json:"url"`
	From string `json:"from,omitempty"`
	Mod  string `json:"mod,omitempty"`
	Len  *int64 `json:"len,omitempty"`
	Type string `json:"type,omitempty"`
	Hash string `json:"hash,omitempty"`
	Prev string `json:"prev,omitempty"`

	Sig       *float64 `json:"sig,omitempty"`
	Text      string   `json:"text,omitempty"`
	Lang      string   `json:"lang,omitempty"`
	Canonical string   `json:"canonical,omitempty"`
	Imp       *float64 `json:"imp,omitempty"`

	Body *wireBody `json:"body,omitempty"`
}

// wireChanges is the changes of a batch. It stops reading at MaxBatch, so that
// a message of many empty objects does not take a hundred times its size in memory.
type wireChanges []wireChange

func (w *wireChanges) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); t == nil || err != nil {
		return err // null is none
	} else if t != json.Delim('[') {
		return errors.New("ev is not a list")
	}
	for d.More() {
		if len(*w) == MaxBatch {
			return fmt.Errorf("batch of more than %d changes", MaxBatch)
		}
		var c wireChange
		if err := d.Decode(&c); err != nil {
			return err
		}
		*w = append(*w, c)
	}
	return nil
}

// version is the version of the stream that Hello names.
const version = 1

// Encode returns the message as one line of JSON without a line feed.
// It panics on an unknown Kind: that is a bug of the caller.
func (m Message) Encode() []byte {
	var v any
	switch m.Kind {
	case Ev:
		w := wireEv{T: Ev, After: known(&m.From), To: &m.To, wireChange: toWire(m.Changes[0], bodyAt(m.Bodies, 0))}
		if q := (fastCodec{b: make([]byte, 0, 512)}); q.ev(&w) {
			return q.b
		}
		v = w
	case Hello:
		v = wireMessage{T: Hello, V: version, From: &m.From, Head: &m.Head, Floor: &m.Floor,
			At: FormatDate(m.At), HB: int64(m.Heartbeat / time.Second), Manifest: m.Manifest}
	case Batch:
		n := len(m.Changes)
		w := wireMessage{T: Batch, From: &m.From, To: &m.To, N: &n, Ev: make(wireChanges, n)}
		if !m.Head.IsZero() {
			w.Head = &m.Head
		}
		for i, c := range m.Changes {
			w.Ev[i] = toWire(c, bodyAt(m.Bodies, i))
		}
		v = w
	case Bundle, Archive:
		w := wireMessage{T: m.Kind, From: &m.From, To: &m.To, N: &m.N, Body: toWireBody(&m.Body)}
		if !m.Head.IsZero() {
			w.Head = &m.Head
		}
		v = w
	case Mark:
		v = wireMessage{T: Mark, After: known(&m.From), To: &m.To, Head: &m.Head, At: FormatDate(m.At)}
	case Gap:
		v = wireMessage{T: Gap, From: &m.From, To: &m.To, Reason: m.Reason, Manifest: m.Manifest}
	case Bye:
		v = wireMessage{T: Bye, Code: m.Code, Reason: m.Reason, RetryMS: m.Retry.Milliseconds(), Resume: &m.From}
	default:
		panic("protocol: encode message of unknown kind " + string(m.Kind))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // URLs stay readable
	if err := e.Encode(v); err != nil {
		panic("protocol: encode message: " + err.Error()) // plain values always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// ChangeCount returns the number of changes in a message; for an Archive, of pages.
func (m *Message) ChangeCount() int { return max(len(m.Changes), m.N) }

// messageFixed bounds the bytes of a Batch without its changes.
const messageFixed = 640

// Weight returns an upper bound of the bytes that a change and its body, which
// may be nil, take in a message. A message whose changes together weigh MaxRoom
// has at most MaxMessage bytes.
func Weight(c *Change, body *Body) int {
	const fixed, escaped = 640, 6 // bytes without the strings; bytes that one byte of a string can take
	n := fixed + escaped*(len(c.Item.URL)+len(c.From)+len(c.Item.Type)+len(c.Item.Canonical))
	if body != nil && !body.IsZero() {
		n += body.weight()
	}
	return n
}

// MaxRoom is what the changes of one message may weigh together.
const MaxRoom = MaxMessage - messageFixed

// Fit returns how many changes, from the first, certainly fit in one Batch:
// at least one, unless there is none, and at most MaxBatch.
func Fit(changes []Change) int {
	size := 0
	for i := range changes {
		size += Weight(&changes[i], nil)
		if i == MaxBatch || i > 0 && size > MaxRoom {
			return i
		}
	}
	return len(changes)
}

// bodyAt returns the body of change i, nil if there is none.
func bodyAt(list []Body, i int) *Body {
	if i < len(list) && !list[i].IsZero() {
		return &list[i]
	}
	return nil
}

func toWire(c Change, b *Body) wireChange {
	w := wireChange{Seq: c.Seq, At: FormatDate(c.At), Op: c.Op, URL: c.Item.URL, From: c.From, Prev: c.Prev.String()}
	if c.Op == Delete {
		return w
	}
	if b != nil {
		w.Body = toWireBody(b)
	}
	w.Mod, w.Type, w.Hash = Date{c.Item.Modified, c.Item.Span}.String(), c.Item.Type, c.Item.Digest.String()
	if c.Item.Length >= 0 {
		w.Len = &c.Item.Length
	}
	if share, known := c.Significance.Share(); known && c.significant() {
		w.Sig = &share
	}
	w.Text, w.Lang = c.Item.Text.String(), languageTag(c.Item.Language)
	w.Canonical = new(resolver).other(c.Item.URL, c.Item.Canonical)
	if share, known := c.Item.Importance.Share(); known {
		w.Imp = &share
	}
	return w
}

// significant reports whether the change may have a Significance.
func (c *Change) significant() bool { return c.Op == Update || c.Op == Move }

// ParseMessage parses one message. It ignores unknown members, and the content of
// a message of unknown Kind, for which only Kind is set. A message that breaks
// the protocol is an error: changes out of order or outside (From, To], a missing
// watermark, a malformed cursor, a batch whose count is wrong. A property of a
// resource that cannot be parsed, such as a date or a digest of a future
// algorithm, is unknown. ParseMessage refuses more than MaxMessage bytes or
// MaxBatch changes.
//
// It does not check URLs: the caller resolves the URL of a change against the
// site and refuses another origin.
func ParseMessage(b []byte) (Message, error) {
	m, err := parseMessage(b)
	if err != nil {
		return Message{}, fmt.Errorf("parse message: %w", err)
	}
	return m, nil
}

// beginsEv is the beginning of an encoded Ev, the most frequent message: parsing
// then needs no first pass for its kind.
const beginsEv = `{"t":"ev",`

func parseMessage(b []byte) (Message, error) {
	if len(b) > MaxMessage {
		return Message{}, fmt.Errorf("%d bytes, more than %d", len(b), MaxMessage)
	}
	if bytes.HasPrefix(b, []byte(beginsEv)) {
		return parseEv(b)
	}
	var head struct {
		T Kind `json:"t"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return Message{}, err
	}
	switch head.T {
	case Ev:
		return parseEv(b)
	case Hello, Batch, Mark, Gap, Bye, Bundle, Archive:
	case "":
		return Message{}, fmt.Errorf("no member t")
	default:
		return Message{Kind: head.T}, nil
	}
	var w wireMessage
	if err := json.Unmarshal(b, &w); err != nil {
		return Message{}, err
	}
	at, err := parseInstant(w.At)
	if err != nil {
		return Message{}, err
	}
	if w.HB < 0 || w.HB > 86400 || w.RetryMS < 0 || w.RetryMS > 86400_000 {
		return Message{}, fmt.Errorf("%s with hb or retry_ms out of range", w.T)
	}
	if w.To == nil && (w.T == Batch || w.T == Mark || w.T == Gap || w.T == Bundle || w.T == Archive) {
		return Message{}, fmt.Errorf("%s without the watermark \"to\"", w.T)
	}
	switch w.T { // members of other kinds are ignored
	case Hello:
		return Message{Kind: Hello, From: orZero(w.From), Head: orZero(w.Head), Floor: orZero(w.Floor),
			At: at, Heartbeat: time.Duration(w.HB) * time.Second, Manifest: w.Manifest}, nil
	case Mark:
		return Message{Kind: Mark, From: orZero(w.After), To: *w.To, Head: orZero(w.Head), At: at}, nil
	case Gap:
		return Message{Kind: Gap, From: orZero(w.From), To: *w.To, Reason: w.Reason, Manifest: w.Manifest}, nil
	case Bye:
		return Message{Kind: Bye, From: orZero(w.Resume), Code: w.Code, Reason: w.Reason,
			Retry: time.Duration(w.RetryMS) * time.Millisecond}, nil
	case Bundle, Archive:
		return parsePacked(w)
	}
	return parseBatch(w)
}

// known returns c, or nil if it is the zero Cursor.
func known(c *Cursor) *Cursor {
	if c.IsZero() {
		return nil
	}
	return c
}

func orZero(c *Cursor) Cursor {
	if c == nil {
		return Cursor{}
	}
	return *c
}

func parseBatch(w wireMessage) (Message, error) {
	m := Message{Kind: Batch, From: orZero(w.From), To: *w.To, Head: orZero(w.Head)}
	if w.From == nil || m.From.Epoch != m.To.Epoch || m.From.Seq > m.To.Seq {
		return Message{}, fmt.Errorf("batch from %v to %v: not a valid range", m.From, m.To)
	}
	if w.N == nil || *w.N != len(w.Ev) {
		return Message{}, fmt.Errorf("batch from %v to %v: number of changes differs from \"n\"", m.From, m.To)
	}
	last := m.From.Seq
	for _, e := range w.Ev {
		c, err := fromWire(e)
		if err != nil {
			return Message{}, err
		}
		if err := m.addBody(len(m.Changes), len(w.Ev), &e); err != nil {
			return Message{}, err
		}
		if c.Seq <= last || c.Seq > m.To.Seq {
			return Message{}, fmt.Errorf("change %d out of order in batch from %v to %v", c.Seq, m.From, m.To)
		}
		last = c.Seq
		m.Changes = append(m.Changes, c)
	}
	return m, nil
}

// parsePacked reads a Bundle or an Archive. The From of an Archive may be of
// another epoch or missing: an Archive replaces all that the reader had.
func parsePacked(w wireMessage) (Message, error) {
	m := Message{Kind: w.T, From: orZero(w.From), To: *w.To, Head: orZero(w.Head)}
	if w.N == nil || *w.N < 0 || w.T == Bundle && (m.From.Epoch != m.To.Epoch || m.From.Seq > m.To.Seq) {
		return Message{}, fmt.Errorf("%s from %v to %v: no \"n\", or not a valid range", w.T, m.From, m.To)
	}
	m.N = *w.N
	var err error
	if m.Body, err = fromWireBody(w.Body); err != nil {
		return Message{}, err
	}
	if m.Body.IsZero() || w.T == Archive && m.Body.Href == "" {
		return Message{}, fmt.Errorf("%s from %v to %v has no content", w.T, m.From, m.To)
	}
	return m, nil
}

func parseEv(b []byte) (Message, error) {
	var w wireEv
	if q := (fastCodec{b: b, reading: true}); !q.ev(&w) {
		w = wireEv{}
		if err := json.Unmarshal(b, &w); err != nil {
			return Message{}, err
		}
	}
	if w.To == nil || w.T != Ev {
		return Message{}, fmt.Errorf("ev without the watermark \"to\"")
	}
	c, err := fromWire(w.wireChange)
	if err != nil {
		return Message{}, err
	}
	if c.Seq == 0 && w.To.Seq > 0 { // only what an epoch begins with has no number
		return Message{}, fmt.Errorf("change %d without \"seq\"", c.Seq)
	}
	if c.Seq > w.To.Seq {
		return Message{}, fmt.Errorf("change %d after its watermark %v", c.Seq, *w.To)
	}
	m := Message{Kind: Ev, From: orZero(w.After), To: *w.To, Changes: []Change{c}}
	if err := m.addBody(0, 1, &w.wireChange); err != nil {
		return Message{}, err
	}
	return m, nil
}

// addBody stores the body of change i of n, if it has one. A Delete has none.
func (m *Message) addBody(i, n int, w *wireChange) error {
	b, err := fromWireBody(w.Body)
	if err != nil || b.IsZero() || w.Op == Delete {
		return err
	}
	if m.Bodies == nil {
		m.Bodies = make([]Body, n)
	}
	m.Bodies[i] = b
	return nil
}

func fromWire(w wireChange) (Change, error) {
	c := Change{Seq: w.Seq, Op: w.Op, From: w.From, Item: Item{URL: w.URL, Length: -1}}
	if w.URL == "" || w.Op == "" {
		return Change{}, fmt.Errorf("change %d without \"op\" or \"url\"", w.Seq)
	}
	switch w.Op {
	case Create, Update, Delete, Move:
		if (w.Op == Move) != (w.From != "") {
			return Change{}, fmt.Errorf("change %d: %s with invalid \"from\" %.200q", w.Seq, w.Op, w.From)
		}
	default:
		c.Op, c.From = Update, ""
	}
	var err error
	if c.At, err = parseInstant(w.At); err != nil {
		return Change{}, err
	}
	c.Prev, _ = parseDigest(w.Prev)
	if c.Op == Delete {
		return c, nil
	}
	d, _ := parseDate(w.Mod)
	c.Item.Modified, c.Item.Span = d.Time, d.Span
	c.Item.Type = mediaType(w.Type)
	c.Item.Digest, _ = parseDigest(w.Hash)
	if w.Len != nil {
		c.Item.Length = max(-1, *w.Len)
	}
	if w.Sig != nil && *w.Sig >= 0 && *w.Sig <= 1 && c.significant() {
		c.Significance = SignificanceOf(*w.Sig)
	}
	c.Item.Text, _ = parseDigest(w.Text)
	c.Item.Language = languageTag(w.Lang)
	c.Item.Canonical = new(resolver).other(w.URL, w.Canonical)
	if w.Imp != nil && *w.Imp <= 1 {
		c.Item.Importance = ImportanceOf(*w.Imp)
	}
	return c, nil
}

func parseInstant(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	d, err := ParseDate(s)
	return d.Time, err
}
