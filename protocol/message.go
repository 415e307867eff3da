package protocol

import (
	"encoding/json"
	"fmt"
	"time"
)

// Subprotocol is the WebSocket subprotocol of the stream.
const Subprotocol = "parley.v1.json"

// MaxMessage bounds one message of the stream, and one answer of the changes
// door, in bytes. A writer splits before it; a reader refuses beyond it.
const MaxMessage = 4 << 20

// MaxBatch bounds the changes in one message.
const MaxBatch = 1000

// A Kind names a message of the stream: its member "t".
type Kind string

// The messages of the stream, all from the site to the crawler. A reader
// ignores kinds and members that it does not know, but for the watermark To.
const (
	Hello Kind = "hello" // always first: where the stream stands
	Ev    Kind = "ev"    // one change
	Batch Kind = "batch" // the changes in (From, To]
	Mark  Kind = "mark"  // nothing more up to To; also the heartbeat
	Gap   Kind = "gap"   // (From, To] cannot be told: read the manifest
	Bye   Kind = "bye"   // always last: why, and from where to resume
)

// A Message is one message of the stream. Which fields are set depends on Kind.
type Message struct {
	Kind Kind

	// To is the watermark of every message but Hello and Bye: having taken in
	// this message, a reader stands at To. It is the reader's cursor, not
	// the number of the last change it was shown.
	To Cursor

	From  Cursor // Hello: effective start, exclusive. Batch, Gap: exclusive start. Bye: where to resume.
	Head  Cursor // Hello, Mark, and Batch from the changes door: the newest change of the site.
	Floor Cursor // Hello: the oldest cursor that can be resumed from.

	At        time.Time     // Hello, Mark: the site's clock.
	Heartbeat time.Duration // Hello: the longest silence, whole seconds.
	Changes   []Change      // Ev: exactly one. Batch: any number, in order.

	Code     int           // Bye: the close code.
	Reason   string        // Gap, Bye: for a person to read.
	Retry    time.Duration // Bye: how long to wait before the next attempt, to the millisecond.
	Manifest string        // Hello, Gap: URL of the manifest.
}

// Close codes of the stream. A reader comes again, with back-off, after
// 4000 to 4499; it does not after 4500 to 4999.
const (
	CloseShutdown = 4001 // the site stops or restarts
	CloseSlow     = 4002 // the reader did not read
	CloseEpoch    = 4003 // the reader's epoch has ended
	ClosePolicy   = 4502 // the site will not serve this reader
)

// wireMessage is every message but Ev in JSON.
type wireMessage struct {
	T        Kind         `json:"t"`
	V        int          `json:"v,omitempty"`
	From     *Cursor      `json:"from,omitempty"`
	To       *Cursor      `json:"to,omitempty"`
	Head     *Cursor      `json:"head,omitempty"`
	Floor    *Cursor      `json:"floor,omitempty"`
	Resume   *Cursor      `json:"resume,omitempty"`
	At       string       `json:"at,omitempty"`
	HB       int64        `json:"hb,omitempty"`
	N        *int         `json:"n,omitempty"`
	Ev       []wireChange `json:"ev,omitempty"`
	Code     int          `json:"code,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	RetryMS  int64        `json:"retry_ms,omitempty"`
	Manifest string       `json:"manifest,omitempty"`
}

// wireEv is an Ev message: the members of its change stand in the message itself.
type wireEv struct {
	T  Kind    `json:"t"`
	To *Cursor `json:"to"`
	wireChange
}

type wireChange struct {
	Seq  uint64 `json:"seq"`
	At   string `json:"at"`
	Op   Op     `json:"op"`
	URL  string `json:"url"`
	From string `json:"from,omitempty"`
	Mod  string `json:"mod,omitempty"`
	Len  *int64 `json:"len,omitempty"`
	Type string `json:"type,omitempty"`
	Hash Digest `json:"hash,omitzero"`
	Prev Digest `json:"prev,omitzero"`
}

// version is the version of the stream that Hello names.
const version = 1

// Encode returns the message as one line of JSON without the line's end.
// It panics on a Kind that is none of this package's: that is a bug of the caller.
func (m Message) Encode() []byte {
	var v any
	switch m.Kind {
	case Ev:
		v = wireEv{T: Ev, To: &m.To, wireChange: toWire(m.Changes[0])}
	case Hello:
		v = wireMessage{T: Hello, V: version, From: &m.From, Head: &m.Head, Floor: &m.Floor,
			At: FormatDate(m.At), HB: int64(m.Heartbeat / time.Second), Manifest: m.Manifest}
	case Batch:
		n := len(m.Changes)
		w := wireMessage{T: Batch, From: &m.From, To: &m.To, N: &n, Ev: make([]wireChange, n)}
		if !m.Head.IsZero() {
			w.Head = &m.Head
		}
		for i, c := range m.Changes {
			w.Ev[i] = toWire(c)
		}
		v = w
	case Mark:
		v = wireMessage{T: Mark, To: &m.To, Head: &m.Head, At: FormatDate(m.At)}
	case Gap:
		v = wireMessage{T: Gap, From: &m.From, To: &m.To, Reason: m.Reason, Manifest: m.Manifest}
	case Bye:
		v = wireMessage{T: Bye, Code: m.Code, Reason: m.Reason, RetryMS: m.Retry.Milliseconds(), Resume: &m.From}
	default:
		panic("protocol: encode message of unknown kind " + string(m.Kind))
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("protocol: encode message: " + err.Error()) // plain values always encode
	}
	return b
}

func toWire(c Change) wireChange {
	w := wireChange{Seq: c.Seq, At: FormatDate(c.At), Op: c.Op, URL: c.Item.URL, From: c.From, Prev: c.Prev}
	if c.Op != Delete {
		w.Mod, w.Type, w.Hash = FormatDate(c.Item.Modified), c.Item.Type, c.Item.Digest
		if c.Item.Length >= 0 {
			w.Len = &c.Item.Length
		}
	}
	return w
}

// ParseMessage reads one message. Members it does not know are ignored; so is
// the content of a message whose Kind it does not know, which the caller sees
// by its Kind. A message that breaks the protocol is an error: changes out of
// order or outside (From, To], a missing watermark, a malformed cursor.
// ParseMessage refuses more than MaxMessage bytes or MaxBatch changes.
//
// URLs are not judged: whoever takes a change in resolves its URL against the
// site and refuses another origin.
func ParseMessage(b []byte) (Message, error) {
	m, err := parseMessage(b)
	if err != nil {
		return Message{}, fmt.Errorf("parse message: %w", err)
	}
	return m, nil
}

func parseMessage(b []byte) (Message, error) {
	if len(b) > MaxMessage {
		return Message{}, fmt.Errorf("%d bytes, more than %d", len(b), MaxMessage)
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
	case Hello, Batch, Mark, Gap, Bye:
	case "":
		return Message{}, fmt.Errorf("no member t")
	default:
		return Message{Kind: head.T}, nil
	}
	var w wireMessage
	if err := json.Unmarshal(b, &w); err != nil {
		return Message{}, err
	}
	m := Message{Kind: w.T, Code: w.Code, Reason: w.Reason, Manifest: w.Manifest}
	for _, f := range []struct {
		dst *Cursor
		src *Cursor
	}{{&m.To, w.To}, {&m.From, w.From}, {&m.Head, w.Head}, {&m.Floor, w.Floor}} {
		if f.src != nil {
			*f.dst = *f.src
		}
	}
	if w.Resume != nil {
		m.From = *w.Resume
	}
	if w.To == nil && (w.T == Batch || w.T == Mark || w.T == Gap) {
		return Message{}, fmt.Errorf("%s without its watermark to", w.T)
	}
	if w.HB < 0 || w.HB > 86400 || w.RetryMS < 0 || w.RetryMS > 86400_000 {
		return Message{}, fmt.Errorf("%s with a time out of range", w.T)
	}
	m.Heartbeat, m.Retry = time.Duration(w.HB)*time.Second, time.Duration(w.RetryMS)*time.Millisecond
	var err error
	if m.At, err = parseInstant(w.At); err != nil {
		return Message{}, err
	}
	if w.T != Batch {
		return m, nil
	}
	if len(w.Ev) > MaxBatch {
		return Message{}, fmt.Errorf("batch of %d changes, more than %d", len(w.Ev), MaxBatch)
	}
	if w.From == nil || m.From.Epoch != m.To.Epoch || m.From.Seq > m.To.Seq {
		return Message{}, fmt.Errorf("batch from %v to %v", m.From, m.To)
	}
	last := m.From.Seq
	for _, e := range w.Ev {
		c, err := fromWire(e)
		if err != nil {
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

func parseEv(b []byte) (Message, error) {
	var w wireEv
	if err := json.Unmarshal(b, &w); err != nil {
		return Message{}, err
	}
	if w.To == nil {
		return Message{}, fmt.Errorf("ev without its watermark to")
	}
	c, err := fromWire(w.wireChange)
	if err != nil {
		return Message{}, err
	}
	if c.Seq > w.To.Seq {
		return Message{}, fmt.Errorf("change %d after its watermark %v", c.Seq, *w.To)
	}
	return Message{Kind: Ev, To: *w.To, Changes: []Change{c}}, nil
}

func fromWire(w wireChange) (Change, error) {
	c := Change{Seq: w.Seq, Op: w.Op, From: w.From, Prev: w.Prev,
		Item: Item{URL: w.URL, Length: -1, Type: w.Type, Digest: w.Hash}}
	if w.Seq == 0 || w.URL == "" || w.Op == "" {
		return Change{}, fmt.Errorf("change %d lacks its seq, op or url", w.Seq)
	}
	if (w.Op == Move) != (w.From != "") {
		return Change{}, fmt.Errorf("change %d: %s with from %.200q", w.Seq, w.Op, w.From)
	}
	if w.Len != nil {
		c.Item.Length = max(-1, *w.Len)
	}
	var err error
	if c.At, err = parseInstant(w.At); err != nil {
		return Change{}, err
	}
	if w.Mod != "" {
		d, err := ParseDate(w.Mod)
		if err != nil {
			return Change{}, err
		}
		c.Item.Modified, c.Item.Span = d.Time, d.Span
	}
	switch w.Op {
	case Create, Update, Move:
	case Delete:
		c.Item = Item{URL: w.URL, Length: -1}
	default:
		c.Op = Update
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
