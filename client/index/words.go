package index

import (
	"iter"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/html"
)

// Words yields the words of a text in their order: runs of letters, marks and digits, in lower case. In
// scripts without spaces between words each character is a word. Words of more than maxTerm bytes are
// skipped.
func Words(text []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		var word []byte
		long := false
		flush := func() bool {
			ok := len(word) == 0 || long || yield(string(word))
			word, long = word[:0], false
			return ok
		}
		for len(text) > 0 {
			r, size := utf8.DecodeRune(text)
			text = text[size:]
			alone := unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
			joins := unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
			if (alone || !joins) && !flush() {
				return
			}
			switch {
			case !joins || r == utf8.RuneError:
			case len(word)+utf8.UTFMax > maxTerm+utf8.UTFMax:
				long = true
			default:
				word = utf8.AppendRune(word, unicode.ToLower(r))
				long = long || len(word) > maxTerm
			}
			if alone && !flush() {
				return
			}
		}
		flush()
	}
}

// Text returns the part of a page that is indexed, in UTF-8: the main text of HTML, plain text as it is, and nothing of
// other types. The media type may have a charset.
func Text(url, mediaType string, content []byte) []byte {
	t, _, err := mime.ParseMediaType(mediaType)
	switch {
	case mediaType == "" || err == nil && (t == "text/html" || t == "application/xhtml+xml"):
		return html.Read(url, html.Decode(content, mediaType), html.Options{Text: true}).Text
	case strings.HasPrefix(t, "text/"):
		return html.Decode(content, mediaType)
	}
	return nil
}

// count returns the count of each word in a text, and the number of all words.
func count(text []byte) (terms map[string]uint32, words uint64) {
	terms = make(map[string]uint32)
	for w := range Words(text) {
		terms[w]++
		words++
	}
	return terms, words
}
