package jetlog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/protocol"
)

// The contents of a site's pages have a stream beside its log. Of each subject it has the last message:
//
//	NAME-pages.shown.ID          until when anybody may have which bytes of a page, and which earlier ones are there; empty if nobody may
//	NAME-pages.body.ID.DIGEST.N  part N of the bytes of that page that have a digest
//	NAME-pages.archives          which archives of the whole site anybody may have, and until when
//	NAME-pages.at                up to which change of the log all of this is complete
//	NAME-pages.ask.DOOR          a word of a door, which has everything before it once it reads the word
//
// The writer stores messages in atomic batches. The last of a batch is "at", and the first names the "at" before it: of two
// writers the stream refuses one.
const contentsSuffix = "-pages"

// contents returns the stream of the pages' contents.
func (s *Stream) contents() *Stream {
	c := &Stream{nc: s.nc, js: s.js, name: s.name + contentsSuffix, options: s.options}
	c.config = jetstream.StreamConfig{Subjects: []string{c.name + ".>"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true}
	return c
}

// A pageID stands for the URL of a page in subjects.
type pageID [16]byte

func idOf(url string) pageID {
	sum := protocol.Sum([]byte(url))
	return pageID(sum[:16])
}

func (id pageID) String() string { return hex.EncodeToString(id[:]) }

// shown says which bytes of a page anybody may have, and until when; and which earlier ones are there, for differences. Without a digest
// nobody may have any now.
type shown struct {
	version
	Until time.Time `json:"until"`
	Old   []version `json:"old,omitempty"` // the newest first
}

// isNone reports whether nothing is there of a page.
func (s *shown) isNone() bool { return s.Digest.IsZero() && len(s.Old) == 0 }

// earlier returns how many bytes the earlier versions have.
func (s *shown) earlier() (n int64) {
	for _, v := range s.Old {
		n += v.Length
	}
	return n
}

// all returns the versions that are there.
func (s *shown) all() []version {
	if s.Digest.IsZero() {
		return s.Old
	}
	return append([]version{s.version}, s.Old...)
}

// A version is bytes of a page that are there.
type version struct {
	Digest   protocol.Digest `json:"digest"`
	Length   int64           `json:"length"`
	Replaced time.Time       `json:"replaced,omitzero"` // of an earlier one: when another one came
}

// parts returns in how many parts it is stored.
func (v *version) parts() int { return int((v.Length + partBytes - 1) / partBytes) }

// A mark says how far the contents are complete.
type mark struct {
	Cursor protocol.Cursor `json:"cursor"`
	Closed bool            `json:"closed,omitempty"` // no bytes may be delivered
	Word   string          `json:"word"`             // of the writer, another one each time
}

// A book is a copy of what the stream says of all pages, without their bytes.
type book struct {
	stream *Stream // of the contents
	name   string  // of this copy, in its questions

	watched // guards the fields below
	pages   map[pageID]shown
	named   []named // archives, the newest first
	at      mark
	fence   uint64 // the message of at: the book has all up to there
	word    string // the last word of this copy that has come back
	stuck   bool   // words do not come back: another consumer may help
}

func (s *Stream) book() *book { return &book{stream: s.contents(), name: rand.Text()} }

// follow copies the stream, from its beginning, until ctx ends or something fails.
func (b *book) follow(ctx context.Context) error {
	if _, err := b.stream.open(ctx); err != nil {
		return b.stream.fail("open", err)
	}
	name := b.stream.name
	came, end, err := b.stream.consume(ctx, &jetstream.ConsumerConfig{FilterSubjects: []string{name + ".shown.*", name + ".archives", name + ".at", name + ".ask.*"}})
	if err != nil {
		return err
	}
	defer end()
	b.change(func() { b.pages, b.named, b.at, b.fence, b.stuck = map[pageID]shown{}, nil, mark{}, 0, false })
	for {
		late := time.NewTimer(5 * silence)
		select {
		case m := <-came:
			err = b.read(m)
		case <-late.C:
			b.mu.Lock()
			if b.stuck {
				err = errors.New("its messages do not come")
			}
			b.mu.Unlock()
		case <-ctx.Done():
			return ctx.Err()
		}
		if late.Stop(); err != nil {
			return b.stream.fail("follow", err)
		}
	}
}

// read enters one message, unless it was stored from here.
func (b *book) read(m jetstream.Msg) error {
	meta, err := m.Metadata()
	kind, of, _ := strings.Cut(strings.TrimPrefix(m.Subject(), b.stream.name+"."), ".")
	switch {
	case err != nil:
	case kind == "ask" && of == b.name:
		b.change(func() { b.word, b.stuck = string(m.Data()), false })
	case kind == "ask":
	case meta.Sequence.Stream <= b.last():
	case kind == "archives":
		var list []named
		if list, err = parseNamed(m.Data()); err == nil {
			b.change(func() { b.named = list })
		}
	case kind == "at":
		var at mark
		if err = json.Unmarshal(m.Data(), &at); err == nil {
			b.change(func() { b.at, b.fence = at, meta.Sequence.Stream })
		}
	default:
		var id pageID
		var is shown
		if id, is, err = parseShown(of, m.Data()); err == nil {
			b.enter(map[pageID]shown{id: is})
		}
	}
	if err != nil {
		err = fmt.Errorf("message of %.200s: %w", m.Subject(), err)
	}
	return err
}

// parseShown reads what a message says of a page: nothing is shown of it, if data is empty. What no writer stores is an error.
func parseShown(name string, data []byte) (id pageID, is shown, err error) {
	raw, err := hex.DecodeString(name)
	if err != nil || len(raw) != len(id) {
		return id, is, errors.New("it is none of a site's contents")
	}
	if len(data) > 0 {
		err = json.Unmarshal(data, &is)
	}
	if len(is.Old) > mostEarlier || slices.ContainsFunc(is.all(), func(v version) bool { return v.Length < 0 || v.Length > mostPage }) {
		err = fmt.Errorf("want at most %d earlier versions, each version of 0 to %d bytes", mostEarlier, mostPage)
	}
	return pageID(raw), is, err
}

// last returns up to which message the book has all.
func (b *book) last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fence
}

// enter records what is shown of pages.
func (b *book) enter(pages map[pageID]shown) {
	b.change(func() {
		for id, is := range pages {
			if b.pages[id] = is; is.isNone() {
				delete(b.pages, id)
			}
		}
	})
}

// page returns what is shown of a page.
func (b *book) page(id pageID) shown {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pages[id]
}

// ask stores a word in the stream, and waits until it comes back: then the book has everything from before. The stream, and not
// one server that may have been left behind, has accepted it by then.
func (b *book) ask(ctx context.Context) error {
	word := rand.Text()
	m := &nats.Msg{Subject: b.stream.name + ".ask." + b.name, Data: []byte(word), Header: nats.Header{jetstream.MsgTTLHeader: {askedFor.String()}}}
	if _, err := Publish(ctx, b.stream.nc, []*nats.Msg{m}); err != nil {
		return b.stream.fail("ask", err)
	}
	if err := b.await(ctx, func() bool { return b.word == word }); err != nil {
		b.change(func() { b.stuck = true })
		return b.stream.fail("ask", err)
	}
	return nil
}

// askedFor is how long the stream keeps a word.
const askedFor = time.Minute

func (b *book) subject(kind string, id pageID) string {
	return b.stream.name + "." + kind + "." + id.String()
}

func (b *book) bodySubject(id pageID, d protocol.Digest, part int) string {
	return b.subject("body", id) + "." + hex.EncodeToString(d[:]) + "." + strconv.Itoa(part)
}
