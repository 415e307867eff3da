package html

import (
	"bytes"
)

// reads reports whether text at this point is part of the content.
func (s *Scanner) reads() bool {
	return s.Contents && s.templates == 0 && !s.noscript && s.mute == 0
}

// text handles the text at i, and returns its end.
func (s *Scanner) text(i int) int {
	p := s.page
	if s.MainText && !s.noscript {
		end := bytes.IndexByte(p[i:], '<')
		if end < 0 {
			end = len(p) - i
		}
		if end > 0 {
			s.main.words(s.decode(p[i:i+end], inText))
		}
	}
	if !s.reads() {
		if j := bytes.IndexByte(p[i:], '<'); j >= 0 {
			return i + j
		}
		return len(p)
	}
	out, gap := s.Content, s.gap
	for i < len(p) {
		from := i
		for i < len(p) && byteClass[p[i]]&noWord == 0 {
			i++
		}
		if i > from {
			if gap && len(out) > 0 {
				out = append(out, ' ')
			}
			gap = false
			out = append(out, p[from:i]...)
			if i == len(p) {
				break
			}
		}
		if c := p[i]; c == '<' {
			break
		} else if c == '&' {
			n := entityEnd(p[i:])
			s.Content, s.gap = out, gap
			s.entity(p[i : i+n])
			out, gap = s.Content, s.gap
			i += n
		} else {
			gap = true
			i++
		}
	}
	s.Content, s.gap = out, gap
	return i
}

// words adds text without markup.
func (s *Scanner) words(b []byte, entities bool) {
	for i := 0; i < len(b); {
		from := i
		for i < len(b) && (byteClass[b[i]]&noWord == 0 || b[i] == '<' || b[i] == '&' && !entities) {
			i++
		}
		if i > from {
			s.word(b[from:i])
			continue
		}
		if b[i] == '&' {
			n := entityEnd(b[i:])
			s.entity(b[i : i+n])
			i += n
			continue
		}
		s.gap = true
		i++
	}
}

func (s *Scanner) word(w []byte) {
	if s.gap && len(s.Content) > 0 {
		s.Content = append(s.Content, ' ')
	}
	s.gap = false
	s.Content = append(s.Content, w...)
}

// entity adds the text of an entity, or of what only looks like one.
func (s *Scanner) entity(b []byte) {
	var buf [16]byte
	s.words(appendDecoded(buf[:0], b, inText), false)
}

// content adds the target of a link or an image.
func (s *Scanner) content(ref []byte) {
	if i := bytes.IndexByte(ref, '#'); i >= 0 {
		ref = ref[:i]
	}
	if len(ref) > 0 {
		s.Content = append(append(append(s.Content, 1), ref...), 1)
	}
}
