package protocol

import (
	"encoding/base64"
	"fmt"
	"unicode/utf8"
)

// The codings of a Body.
const (
	// CodingDelta is "dcz" of RFC 9842: 40 bytes that name the base by its
	// SHA-256, and a Zstandard frame made with the base as a raw dictionary.
	CodingDelta = "dcz"

	// CodingArchive is a WARC file, each record a gzip member of its own.
	CodingArchive = "warc.gz"

	// CodingAgent is what a program of the reader's own made of the page.
	CodingAgent = "agent"
)

// MaxInline is how many bytes a Body has at most within a message. What is
// larger is named by Href. In a message it takes a third more at most.
const MaxInline = 256 << 10

// A Body is what a message brings of a page, or of many. Decoded it is exactly
// the bytes whose digest the change beside it has; a body that is not is as
// none at all. The zero Body says nothing: ask the URL.
type Body struct {
	Coding string // empty: the bytes as they are served, without content coding
	Base   Digest // of CodingDelta: the version that it is to be applied to
	Bytes  []byte

	// Href is where it is to be asked for where it is not here, of the origin
	// of the site; Length and Digest are then what will be there, -1 and zero
	// where that is not known.
	Href   string
	Length int64
	Digest Digest
}

// IsZero reports whether the body says nothing.
func (b *Body) IsZero() bool { return b.Bytes == nil && b.Href == "" }

// wireBody is a Body in JSON. Text is Bytes where these are UTF-8 and take no
// more room so than in base64: what is text is compressed better as text.
type wireBody struct {
	Enc  string  `json:"enc,omitempty"`
	Base string  `json:"base,omitempty"`
	Text *string `json:"text,omitempty"`
	B64  *string `json:"b64,omitempty"`
	Href string  `json:"href,omitempty"`
	Len  *int64  `json:"len,omitempty"`
	Hash string  `json:"hash,omitempty"`
}

func toWireBody(b *Body) *wireBody {
	if b.IsZero() {
		return nil
	}
	w := &wireBody{Enc: b.Coding}
	if !b.Base.IsZero() {
		w.Base = b.Base.String()
	}
	switch {
	case b.Href != "":
		w.Href = b.Href
		if b.Length >= 0 {
			w.Len = &b.Length
		}
		if !b.Digest.IsZero() {
			w.Hash = b.Digest.String()
		}
	case b.Coding == "" && b.isText():
		text := string(b.Bytes)
		w.Text = &text
	default:
		text := base64.StdEncoding.EncodeToString(b.Bytes)
		w.B64 = &text
	}
	return w
}

// isText reports whether the bytes are said as text. Of text that is full of what
// JSON escapes, base64 is the shorter form.
func (b *Body) isText() bool {
	most := base64.StdEncoding.EncodedLen(len(b.Bytes))
	return escapedLen(b.Bytes, most) <= most && utf8.Valid(b.Bytes)
}

// escapedLen returns how many bytes UTF-8 has within a string of JSON at most,
// or any number beyond most if it has more than that.
func escapedLen(b []byte, most int) int {
	n := 0
	for i := 0; i < len(b) && n <= most; i++ {
		switch c := b[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n += 2
		case c < ' ':
			n += 6
		case c == 0xe2: // may begin U+2028, which is escaped
			n += 4
		default:
			n++
		}
	}
	return n
}

// weight is how many bytes a body takes in a message, at most.
func (b *Body) weight() int {
	const fixed, escaped = 200, 6                          // of the names and digests; of one byte of a string
	content := base64.StdEncoding.EncodedLen(len(b.Bytes)) // text takes no more
	return fixed + escaped*(len(b.Coding)+len(b.Href)) + content
}

// fromWireBody returns the zero Body for what it cannot understand: the page
// itself can always be asked for. Only what is too large is an error.
func fromWireBody(w *wireBody) (Body, error) {
	if w == nil {
		return Body{}, nil
	}
	b := Body{Coding: w.Enc, Length: -1}
	b.Base, _ = parseDigest(w.Base)
	switch {
	case w.Href != "":
		b.Href = w.Href
		if w.Len != nil {
			b.Length = max(-1, *w.Len)
		}
		b.Digest, _ = parseDigest(w.Hash)
		return b, nil
	case w.Text != nil:
		b.Bytes = []byte(*w.Text)
	case w.B64 != nil:
		bytes, err := base64.StdEncoding.DecodeString(*w.B64)
		if err != nil {
			return Body{}, nil
		}
		b.Bytes = bytes
	default:
		return Body{}, nil
	}
	if len(b.Bytes) > MaxInline {
		return Body{}, fmt.Errorf("body of %d bytes, more than %d", len(b.Bytes), MaxInline)
	}
	if b.Bytes == nil {
		b.Bytes = []byte{} // an empty page is a page
	}
	b.Length = int64(len(b.Bytes))
	return b, nil
}
