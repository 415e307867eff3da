// Package html reads what a page says of itself in its head.
package html

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/net/html"
)

const (
	// MaxBytes is how much of a page is read.
	MaxBytes = 256 << 10

	// MaxTitle is the longest title, in bytes.
	MaxTitle = 1 << 10

	// maxToken bounds one tag or text. MaxBytes of UTF-16 are fewer as UTF-8.
	maxToken = 2 * MaxBytes
)

// A Head is what a page says of itself.
type Head struct {
	// Title is plain text: entities are decoded, and white space and control
	// characters are single spaces. It is empty if there is none, or if it
	// is not UTF-8.
	Title string

	// NoIndex says that <meta name="robots"> or <meta name="parley"> has
	// "noindex" or "none" among its content.
	NoIndex bool
}

// ReadHead reads the head of a page, which ends at <body>, or after MaxBytes.
// Pages are UTF-8 or something else that has ASCII in it, or UTF-16 with a
// byte order mark. No page is too broken; an error is one of reading r.
func ReadHead(r io.Reader) (Head, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxBytes))
	if err != nil {
		return Head{}, fmt.Errorf("read head of page: %w", err)
	}
	z := html.NewTokenizer(bytes.NewReader(toUTF8(b)))
	z.SetMaxBuf(maxToken)
	var h Head
	titled := false // there was one, or there can be none any more
	for {
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return Head{}, fmt.Errorf("read head of page: %w", err)
			}
			return h, nil
		case html.SelfClosingTagToken:
			// In XHTML, <script/> and <title/> are closed. Taking them so in
			// HTML too reads more of a page, never less.
			z.NextIsNotRawText()
			if name, more := z.TagName(); string(name) == "meta" && more {
				h.NoIndex = noIndex(z) || h.NoIndex
			}
		case html.StartTagToken:
			name, more := z.TagName()
			switch string(name) {
			case "body", "frameset":
				return h, nil
			case "meta":
				if more {
					h.NoIndex = noIndex(z) || h.NoIndex
				}
			case "title":
				if !titled && z.Next() == html.TextToken {
					h.Title = plain(z.Text())
				}
				titled = true
			case "html", "head", "base", "link", "script", "style", "noscript", "template":
			default:
				titled = true // the body has begun without saying so: a drawing in it may have a title
			}
		}
	}
}

// noIndex reads the attributes of a meta tag. Of two with the same name the first counts.
func noIndex(z *html.Tokenizer) bool {
	var name, content *string
	for more := true; more; {
		var key, val []byte
		key, val, more = z.TagAttr()
		s := string(val)
		switch {
		case string(key) == "name" && name == nil:
			name = &s
		case string(key) == "content" && content == nil:
			content = &s
		}
	}
	if name == nil || content == nil {
		return false
	}
	if n := strings.TrimSpace(*name); !strings.EqualFold(n, "robots") && !strings.EqualFold(n, "parley") {
		return false
	}
	for _, word := range strings.FieldsFunc(*content, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		if strings.EqualFold(word, "noindex") || strings.EqualFold(word, "none") {
			return true
		}
	}
	return false
}

// plain makes one line of text, of at most MaxTitle bytes.
func plain(text []byte) string {
	if !utf8.Valid(text) {
		return ""
	}
	s := strings.Join(strings.FieldsFunc(string(text), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) <= MaxTitle {
		return s
	}
	n := MaxTitle
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimSpace(s[:n])
}

// toUTF8 decodes UTF-16 that has a byte order mark, and returns anything else as it is.
func toUTF8(b []byte) []byte {
	little := bytes.HasPrefix(b, []byte{0xff, 0xfe})
	if !little && !bytes.HasPrefix(b, []byte{0xfe, 0xff}) {
		return b
	}
	units := make([]uint16, 0, len(b)/2)
	for ; len(b) >= 2; b = b[2:] {
		if little {
			units = append(units, uint16(b[0])|uint16(b[1])<<8)
		} else {
			units = append(units, uint16(b[0])<<8|uint16(b[1]))
		}
	}
	return []byte(string(utf16.Decode(units)))
}
