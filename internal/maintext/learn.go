package maintext

import (
	"bytes"
	"cmp"
	"iter"
	"regexp"
	"slices"
	"strings"
)

const (
	maxStudied    = 20_000  // pages from which patterns are derived; all are counted
	maxStretches  = 64      // of one page
	maxCandidates = 200_000 // patterns
	maxPattern    = 500     // bytes of one
	maxProposals  = 50
	maxLine       = 2000    // bytes of a line that is examined
	maxAlign      = 4 << 20 // pairs of lines that are compared
	nearly        = 0.9     // a narrow pattern is preferred to a broad one if it matches on this share of its pages
)

// A Learner proposes masks from two builds of one site.
type Learner struct {
	// Masks are known already: the text that they match is ignored.
	Masks Masks

	// MinShare is the share of the changed pages on which a proposal must appear, 0 to 1; default 0.02. It
	// must appear on at least two pages in any case.
	MinShare float64
}

// A Lesson is the result of a Learner.
type Lesson struct {
	Changed   int        // pairs of texts that differ by more than the known masks
	Left      int        // pairs that still differ with all proposals
	Proposals []Proposal // the one that explains most pairs first
}

// A Proposal is a pattern that may become a mask.
type Proposal struct {
	Pattern   string
	Pages     int    // pairs in which it matches a difference
	Explained int    // pairs that differ no more with this proposal and those before it
	Before    string // a match in one of the pairs
	After     string
}

// Learn reads the main texts of each page in two builds, and proposes masks for text that a build seems to
// have written, not a person: dates, times, numbers, versions, hashes and random words that differ between
// the builds, in the same context on many pages. It never proposes to mask a word. Only a person can tell
// whether such a number is news all the same.
//
// Pairs is iterated several times, and must yield the same pairs each time. A text must be valid only until
// the next.
func (l *Learner) Learn(pairs iter.Seq2[[]byte, []byte]) Lesson {
	var s study
	for before, after := range l.changed(pairs) {
		s.changed++
		if len(s.pages) < maxStudied {
			s.add(l.blank(before), l.blank(after))
		}
	}
	share := l.MinShare
	if share <= 0 {
		share = 0.02
	}
	lesson := Lesson{Changed: s.changed}
	patterns := s.choose(share)
	for len(patterns) > 0 {
		lesson.Proposals, lesson.Left = nil, 0
		for _, p := range patterns {
			lesson.Proposals = append(lesson.Proposals, Proposal{Pattern: p})
		}
		l.try(&lesson, pairs)
		// A pattern matches the text that it was made for, unless an earlier match of it overlaps that text. Patterns that explain
		// nothing on a second page are dropped, and the others are tried again.
		patterns = nil
		for _, p := range lesson.Proposals {
			if p.Pages >= 2 {
				patterns = append(patterns, p.Pattern)
			}
		}
		if len(patterns) == len(lesson.Proposals) {
			return lesson
		}
	}
	lesson.Proposals, lesson.Left = nil, lesson.Changed
	return lesson
}

// blank replaces the matches of the known masks by a character that is no context.
func (l *Learner) blank(text []byte) string {
	var b strings.Builder
	at := 0
	for _, s := range l.Masks.spans(text) {
		b.Write(text[at:s[0]])
		b.WriteString(blank)
		at = s[1]
	}
	b.Write(text[at:])
	return b.String()
}

const blank = "\uFFFC"

// try counts the effect of the proposals on all pairs.
func (l *Learner) try(lesson *Lesson, pairs iter.Seq2[[]byte, []byte]) {
	var masks Masks
	for _, p := range lesson.Proposals {
		masks = append(masks, regexp.MustCompile("(?m)"+p.Pattern))
	}
	for before, after := range l.changed(pairs) {
		known, explained := slices.Clone(l.Masks), false
		for i, m := range masks {
			p := &lesson.Proposals[i]
			a, b := m.FindAll(before, -1), m.FindAll(after, -1)
			if !slices.EqualFunc(a, b, bytes.Equal) {
				if p.Pages++; p.Pages == 1 {
					p.Before, p.After = firstDifference(a, b)
				}
			}
			if !explained && len(a)+len(b) > 0 {
				known = append(known, m)
				explained = bytes.Equal(known.Apply(before), known.Apply(after))
			}
			if explained {
				p.Explained++
			}
		}
		if !explained {
			lesson.Left++
		}
	}
}

// changed yields the pairs that differ by more than the known masks.
func (l *Learner) changed(pairs iter.Seq2[[]byte, []byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(before, after []byte) bool) {
		for before, after := range pairs {
			if !bytes.Equal(before, after) && !bytes.Equal(l.Masks.Apply(before), l.Masks.Apply(after)) && !yield(before, after) {
				return
			}
		}
	}
}

func firstDifference(a, b [][]byte) (before, after string) {
	for i := range max(len(a), len(b)) {
		before, after = "", ""
		if i < len(a) {
			before = string(a[i])
		}
		if i < len(b) {
			after = string(b[i])
		}
		if before != after {
			break
		}
	}
	return before, after
}

// A study is the data collected from the pages of two builds.
type study struct {
	changed int
	pages   [][]stretch
	numbers map[string]uint32 // of candidates
	names   []candidate
}

// A stretch is a differing part of a line, as the candidates that match it, the narrowest first.
type stretch []uint32

// A candidate is a pattern that may be proposed.
type candidate struct {
	pattern string
	level   int // its breadth: 0 is the narrowest
}

// add studies a page. Lines whose words differ are ignored.
func (s *study) add(before, after string) {
	var page []stretch
	for _, pair := range align(strings.Split(before, "\n"), strings.Split(after, "\n")) {
		if pair[0] == pair[1] || len(pair[0]) > maxLine || len(pair[1]) > maxLine {
			continue
		}
		a, b := lex(pair[0]), lex(pair[1])
		if len(a) != len(b) {
			continue
		}
		for _, st := range s.stretches(a, b) {
			if len(st) > 0 && len(page) < maxStretches {
				page = append(page, st)
			}
		}
	}
	s.pages = append(s.pages, page)
}

// differing returns the spans in which tokens differ. Spans without a word between them are one.
func differing(a, b []token) (spans [][2]int) {
	for i := range a {
		if a[i].text == b[i].text {
			continue
		}
		if n := len(spans) - 1; n >= 0 && i-spans[n][1] <= 3 && !slices.ContainsFunc(a[spans[n][1]:i], token.parts) {
			spans[n][1] = i + 1
		} else {
			spans = append(spans, [2]int{i, i + 1})
		}
	}
	return spans
}

// contexts are the numbers of words to the left and the right in a candidate, the narrowest first. If a line
// has fewer, its end is the context.
var contexts = [][2]int{{3, 2}, {2, 1}, {2, 0}, {1, 1}, {1, 0}, {0, 1}}

// stretches returns the stretches of a line in two builds.
func (s *study) stretches(a, b []token) []stretch {
	spans := differing(a, b)
	found := make([]stretch, len(spans))
	for _, span := range spans {
		for level, c := range contexts {
			from, words, begin := context(a[:span[0]], c[0], true)
			to, more, end := context(a[span[1]:], c[1], false)
			if words+more == 0 && !(begin && end) {
				continue // too broad
			}
			from, to = span[0]-from, span[1]+to
			n, ok := s.number(pattern(a[from:to], b[from:to], begin, end), level)
			for i, other := range spans { // it may match several
				if ok && from <= other[0] && other[1] <= to && !slices.Contains(found[i], n) {
					found[i] = append(found[i], n)
				}
			}
		}
	}
	return found
}

// context returns how many tokens beside a stretch contain up to n words, the number of these words, and
// whether the line has no more tokens there.
func context(tokens []token, n int, left bool) (size, words int, all bool) {
	at := func(i int) token {
		if left {
			i = len(tokens) - 1 - i
		}
		return tokens[i]
	}
	for size < len(tokens) && words < n && at(size).text != blank {
		if at(size).isWord() {
			words++
		}
		size++
	}
	all = size == len(tokens) && (words < n || n == 0)
	for size > 0 && at(size-1).text == " " { // it is no context
		size--
	}
	return size, words, all
}

// pattern generalises tokens. Tokens that are equal here may differ on other pages.
func pattern(a, b []token, begin, end bool) string {
	var p strings.Builder
	if begin {
		p.WriteByte('^')
	}
	for i := range a {
		p.WriteString(generalise(a[i], b[i]))
	}
	if end {
		p.WriteByte('$')
	}
	return p.String()
}

func (s *study) number(pattern string, level int) (n uint32, ok bool) {
	if n, ok = s.numbers[pattern]; ok {
		return n, true
	}
	if len(s.names) >= maxCandidates || len(pattern) > maxPattern {
		return 0, false
	}
	if s.numbers == nil {
		s.numbers = make(map[string]uint32)
	}
	n = uint32(len(s.names))
	s.numbers[pattern] = n
	s.names = append(s.names, candidate{pattern, level})
	return n, true
}

// choose returns patterns, the one on most pages first, each of which matches, on a share of the changed
// pages, stretches that those before it do not match. Among patterns that match on nearly as many pages it
// chooses the narrowest.
func (s *study) choose(share float64) (patterns []string) {
	least := max(2, int(share*float64(len(s.pages))+0.999))
	count, seen := make([]int, len(s.names)), make([]int, len(s.names))
	for len(patterns) < maxProposals {
		clear(count)
		clear(seen)
		for i, page := range s.pages {
			for _, st := range page {
				for _, c := range st {
					if seen[c] != i+1 {
						count[c]++
						seen[c] = i + 1
					}
				}
			}
		}
		most := 0
		for _, n := range count {
			most = max(most, n)
		}
		if most < least {
			break
		}
		best := -1
		for c, n := range count {
			if n < least || float64(n) < nearly*float64(most) {
				continue
			}
			if best < 0 || cmp.Or(cmp.Compare(s.names[c].level, s.names[best].level), cmp.Compare(count[best], n),
				cmp.Compare(s.names[c].pattern, s.names[best].pattern)) < 0 {
				best = c
			}
		}
		patterns = append(patterns, s.names[best].pattern)
		for i, page := range s.pages {
			s.pages[i] = slices.DeleteFunc(page, func(st stretch) bool { return slices.Contains(st, uint32(best)) })
		}
	}
	return patterns
}

// align pairs the lines of two texts that have the same shape, in order.
func align(a, b []string) (pairs [][2]string) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	// A line that is in both texts is its own shape: most are, and need no lexing.
	balance := make(map[string]int)
	for _, s := range a {
		balance[s]++
	}
	for _, s := range b {
		balance[s]--
	}
	shapes := func(lines []string) []string {
		out := make([]string, len(lines))
		for i, s := range lines {
			if out[i] = s; balance[s] != 0 && len(s) <= maxLine {
				out[i] = shape(lex(s))
			}
		}
		return out
	}
	as, bs := shapes(a), shapes(b)
	for len(as) > 0 && len(bs) > 0 && as[0] == bs[0] {
		pairs = append(pairs, [2]string{a[0], b[0]})
		a, b, as, bs = a[1:], b[1:], as[1:], bs[1:]
	}
	for len(as) > 0 && len(bs) > 0 && as[len(as)-1] == bs[len(bs)-1] {
		n, m := len(as)-1, len(bs)-1
		pairs = append(pairs, [2]string{a[n], b[m]})
		a, b, as, bs = a[:n], b[:m], as[:n], bs[:m]
	}
	if len(as)*len(bs) > maxAlign {
		return pairs
	}
	// The longest common subsequence: best[i][j] is its length from i and j on.
	width := len(bs) + 1
	best := make([]uint32, (len(as)+1)*width)
	for i := len(as) - 1; i >= 0; i-- {
		for j := len(bs) - 1; j >= 0; j-- {
			if as[i] == bs[j] {
				best[i*width+j] = best[(i+1)*width+j+1] + 1
			} else {
				best[i*width+j] = max(best[(i+1)*width+j], best[i*width+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(as) && j < len(bs); {
		switch {
		case as[i] == bs[j]:
			pairs = append(pairs, [2]string{a[i], b[j]})
			i, j = i+1, j+1
		case best[(i+1)*width+j] >= best[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}
