package html

// What the reader of the tests shares with the one it is compared with: all that neither tokens nor elements matter for.
var (
	ToUTF8       = toUTF8
	Plain        = plain
	HasWord      = hasWord
	LanguageTag  = language
	Soonest      = soonest
	BaseOf       = baseOf
	CanonicalURL = canonicalURL
	LinksOf      = linksOf
)

// Titled returns the title of a page, in UTF-8.
func Titled(text []byte, declared string, page []byte) []byte {
	return (&served{page: page, declared: declared}).toUTF8(text)
}

// Torn says that a quote was never closed.
func (s *Scanner) Torn() bool { return s.page.noQuote[0] || s.page.noQuote[1] }
