package maintext

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
)

const (
	maxMasks = 1000
	maxMask  = 4 << 10 // bytes of a pattern
)

// Masks are patterns of volatile parts of main texts: build stamps, version strings, counters. The text that
// they match is ignored, with the space around it: a line of nothing else counts as missing. Every mask is
// matched against the original text, so their order does not matter. Masks are safe for concurrent use.
type Masks []*regexp.Regexp

// ParseMasks parses patterns in the syntax of package regexp (RE2). ^ and $ are the ends of a line.
func ParseMasks(patterns []string) (Masks, error) {
	if len(patterns) > maxMasks {
		return nil, fmt.Errorf("%d masks: at most %d are allowed", len(patterns), maxMasks)
	}
	var m Masks
	for _, p := range patterns {
		if len(p) > maxMask {
			return nil, fmt.Errorf("mask %.80q: longer than %d bytes", p, maxMask)
		}
		re, err := regexp.Compile("(?m)" + p)
		if err != nil {
			return nil, fmt.Errorf("mask %q: %w", p, err)
		}
		if re.MatchString("") {
			return nil, fmt.Errorf("mask %q: matches the empty string; it must require at least one character", p)
		}
		m = append(m, re)
	}
	return m, nil
}

// Apply returns a text without the matches of the masks, or the text itself if there are none.
func (m Masks) Apply(text []byte) []byte {
	spans := m.spans(text)
	if len(spans) == 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	var gap byte
	keep := func(part []byte) {
		for _, c := range part {
			switch {
			case c == '\n':
				gap = c
			case c == ' ' && gap == 0:
				gap = c
			case c == ' ':
			default:
				if gap != 0 && len(out) > 0 {
					out = append(out, gap)
				}
				out, gap = append(out, c), 0
			}
		}
	}
	at := 0
	for _, s := range spans {
		keep(text[at:s[0]])
		at = s[1]
	}
	keep(text[at:])
	return out
}

// spans returns the matches of the masks, in order and without overlaps.
func (m Masks) spans(text []byte) [][]int {
	var all [][]int
	for _, re := range m {
		for _, s := range re.FindAllIndex(text, -1) {
			if s[0] < s[1] {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	n := 0
	for _, s := range all {
		if n > 0 && s[0] <= all[n-1][1] {
			all[n-1][1] = max(all[n-1][1], s[1])
			continue
		}
		all[n] = s
		n++
	}
	return all[:n]
}
