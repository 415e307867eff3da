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

	// CodingAgent is the output of the reader's own program for the page.
	CodingAgent = "agent"
)

// MaxInline bounds the bytes of a Body within a message. A larger body is
// referenced by Href. Encoded in a message, the bytes take at most a third more.
const MaxInline = 256 << 10

// A Body is the content of a page, or of many pages, in a message. Decoded, the
// bytes have exactly the digest of the change beside them; a body that does not
// match is treated as missing. The zero Body says nothing: fetch the URL.
type Body struct {
	Coding string // empty: the bytes as they are served, without content coding
	Base   Digest // CodingDelta: the version that the difference applies to
	Bytes  []byte

	// Href is the URL to fetch the body from if it is not in the message; it is of
	// the site's origin. Length and Digest then describe the content at Href, -1 and
	// zero where they are unknown.
	Href   string
	Length int64
	Digest Digest
}

// IsZero reports whether the body says nothing.
func (b *Body) IsZero() bool { return b.Bytes == nil && b.Href == "" }

// wireBody is a Body in JSON. Text holds Bytes if these are UTF-8 and not longer
// as text than in base64: text compresses better as text.
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

// isText reports whether the bytes are sent as text. If the text is full of
// characters that JSON escapes, base64 is shorter.
func (b *Body) isText() bool {
	most := base64.StdEncoding.EncodedLen(len(b.Bytes))
	return escapedLen(b.Bytes, most) <= most && utf8.Valid(b.Bytes)
}

// escapedLen returns an upper bound of the length of UTF-8 within a JSON string,
// or any number above most if the bound exceeds most.
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

// weight returns an upper bound of the bytes that a body takes in a message.
func (b *Body) weight() int {
	const fixed, escaped = 200, 6                          // the names and digests; one byte of a string
	content := base64.StdEncoding.EncodedLen(len(b.Bytes)) // text takes no more
	return fixed + escaped*(len(b.Coding)+len(b.Href)) + content
}

// fromWireBody returns the zero Body for a body that it cannot understand: the
// page itself can always be fetched. Only a body that is too large is an error.
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
