package protocol

import (
	"strings"
	"unicode/utf8"
)

// maxTitle bounds a title or a description, in bytes.
const maxTitle = 1024

// cleanText returns a title as a manifest carries it: each run of white space
// and of characters that XML cannot hold becomes one space, and is removed at the
// ends; invalid UTF-8 becomes U+FFFD; the result is cut at maxTitle. It is idempotent.
func cleanText(s string) string {
	if plainText(s) {
		return s
	}
	b := make([]byte, 0, min(len(s), maxTitle)+utf8.UTFMax)
	space := false
	for _, c := range s {
		if c <= ' ' || c == 0x7f || c == 0x85 || c == 0xa0 || c == 0x2028 || c == 0x2029 || c == 0xfffe || c == 0xffff {
			space = len(b) > 0
			continue
		}
		n := utf8.RuneLen(c)
		if space {
			n++
		}
		if len(b)+n > maxTitle {
			break
		}
		if space {
			b, space = append(b, ' '), false
		}
		b = utf8.AppendRune(b, c)
	}
	return string(b)
}

// plainText reports whether cleanText would certainly return s unchanged.
func plainText(s string) bool {
	if len(s) > maxTitle || strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == ' ' && s[i-1] == ' ' {
			return false
		}
	}
	return true
}
