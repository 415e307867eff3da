package feed

import (
	"unicode/utf8"
)

const (
	maxTitle   = 1024 // bytes
	maxSummary = 8192
)

// clean returns a text that every form can carry and every reader shows unchanged: each run of white space
// and control characters becomes one space, invalid UTF-8 becomes U+FFFD, and characters that change the text
// direction are dropped. It is cut at max bytes.
func clean(s string, max int) string {
	b := make([]byte, 0, min(len(s), max))
	space := false
	for _, c := range s {
		switch {
		case c <= ' ' || 0x7f <= c && c <= 0xa0 || c == 0x2028 || c == 0x2029:
			space = len(b) > 0
			continue
		case 0x202a <= c && c <= 0x202e || 0x2066 <= c && c <= 0x2069, // embeddings, overrides, isolates
			c&0xfffe == 0xfffe || 0xfdd0 <= c && c <= 0xfdef: // no characters
			continue
		}
		n := utf8.RuneLen(c)
		if space {
			n++
		}
		if len(b)+n > max {
			break
		}
		if space {
			b, space = append(b, ' '), false
		}
		b = utf8.AppendRune(b, c)
	}
	return string(b)
}
