package protocol

import (
	"slices"
	"strings"
)

// Apply returns the change as a reader with this filter receives it, and false
// if the reader does not receive it. The change keeps its number and time.
// For an update of a page that does not match it returns false; the caller uses
// Wants of Change.Before to see whether the page matched before.
func (f *Filter) Apply(c Change) (Change, bool) {
	switch {
	case c.Op == Move:
		from, to := f.WantsURL(c.From), f.WantsURL(c.Item.URL)
		switch {
		case from && (!to || !f.wantsPage(&c.Item) || !f.significant(&c)):
			c = c.Departure()
		case from:
		case to:
			c = c.arrival()
		default:
			return c, false
		}
	case !f.WantsURL(c.Item.URL):
		return c, false
	}
	if c.Op != Delete && (!f.wantsPage(&c.Item) || !f.significant(&c)) {
		return c, false
	}
	return c, len(f.Ops) == 0 || slices.Contains(f.Ops, c.Op)
}

// arrival returns a Move as a Create of its new URL.
func (c Change) arrival() Change {
	return Change{Seq: c.Seq, At: c.At, Op: Create, Item: c.Item}
}

// Wants reports whether an item matches the filter. It ignores Ops and
// MinSignificance, which are conditions on a change.
func (f *Filter) Wants(i *Item) bool { return f.WantsURL(i.URL) && f.wantsPage(i) }

// WantsGone reports whether a tombstone matches the filter: the conditions on
// the URL hold, and the deletion is not older than Since.
func (f *Filter) WantsGone(t *Tombstone) bool {
	return f.WantsURL(t.URL) && (f.Since.IsZero() || !t.At.Before(f.Since))
}

// WantsURL reports whether a URL fulfils the conditions on the URL: Prefixes, Match and MaxDepth.
func (f *Filter) WantsURL(url string) bool {
	if len(f.Prefixes)+len(f.Match) == 0 {
		return f.MaxDepth <= 0 || Depth(url) <= f.MaxDepth
	}
	local := url[len(Origin(url)):]
	fits := func(prefix string) bool {
		if strings.HasPrefix(prefix, "/") {
			return strings.HasPrefix(local, prefix)
		}
		return strings.HasPrefix(url, prefix)
	}
	if len(f.Prefixes) > 0 && !slices.ContainsFunc(f.Prefixes, fits) {
		return false
	}
	path, _, _ := strings.Cut(local, "?")
	if len(f.Match) > 0 && !slices.ContainsFunc(f.Match, func(pattern string) bool { return matchPath(pattern, path) }) {
		return false
	}
	return f.MaxDepth <= 0 || Depth(url) <= f.MaxDepth
}

// wantsPage reports whether a page fulfils the conditions on it.
func (f *Filter) wantsPage(i *Item) bool {
	if len(f.Types) > 0 && !wantsType(f.Types, mediaType(i.Type)) {
		return false
	}
	if len(f.Languages) > 0 && !wantsLanguage(f.Languages, languageTag(i.Language)) {
		return false
	}
	if (f.MinLength > 0 || f.MaxLength > 0) && (i.Length < 0 || i.Length < f.MinLength || f.MaxLength > 0 && i.Length > f.MaxLength) {
		return false
	}
	if f.MinImportance > 0 {
		if share, known := i.Importance.Share(); !known || share < f.MinImportance {
			return false
		}
	}
	if f.Since.IsZero() {
		return true
	}
	// A date that names only a day may mean any time of that day.
	return !i.Modified.IsZero() && (!i.Modified.Before(f.Since) || i.Modified.Add(i.Span).After(f.Since))
}

// significant reports whether a change may have at least MinSignificance.
func (f *Filter) significant(c *Change) bool {
	if !(f.MinSignificance > 0) || c.Op == Create || c.Op == Delete {
		return true
	}
	share, known := c.Significance.Share()
	return !known || share >= f.MinSignificance
}

func wantsType(ranges []string, t string) bool {
	if t == "" {
		return false
	}
	main, _, _ := strings.Cut(t, "/")
	return slices.ContainsFunc(ranges, func(r string) bool {
		if m, ok := strings.CutSuffix(r, "/*"); ok {
			return m == "*" || strings.EqualFold(m, main)
		}
		return strings.EqualFold(r, t)
	})
}

func wantsLanguage(ranges []string, tag string) bool {
	if tag == "" {
		return false
	}
	return slices.ContainsFunc(ranges, func(r string) bool {
		return r == "*" || len(tag) >= len(r) && strings.EqualFold(r, tag[:len(r)]) && (len(tag) == len(r) || tag[len(r)] == '-')
	})
}

// matchPath reports whether a path matches a pattern: "?" is any byte but "/",
// "*" any number of such bytes, "**" any number of any bytes; "**/" at the
// beginning or after a "/" is any number of whole segments, or none.
//
// It follows all possible matches at once (an NFA), so that a path of n bytes
// never takes more than n times the length of the pattern. A pattern longer
// than maxPattern matches nothing.
func matchPath(pattern, path string) bool {
	if len(pattern) > maxPattern {
		return false
	}
	if literal := strings.IndexAny(pattern, "*?"); literal < 0 {
		return pattern == path
	} else if !strings.HasPrefix(path, pattern[:literal]) {
		return false
	}
	var a, b places
	now, next := &a, &b
	now.add(pattern, 0)
	for i := 0; i < len(path) && now.n > 0; i++ {
		c := path[i]
		next.clear()
		for _, at := range now.list[:now.n] {
			if int(at) == len(pattern) {
				continue // the pattern ends before the path
			}
			switch p := pattern[at]; {
			case isWide(pattern, int(at)):
				next.mark(int(at))
				switch {
				case !isSegments(pattern, int(at)):
					next.add(pattern, int(at)+2)
				case c == '/':
					next.add(pattern, int(at)+3)
				}
			case p == '*' && c != '/':
				next.add(pattern, int(at))
			case p == '?' && c != '/', p == c && p != '*' && p != '?':
				next.add(pattern, int(at)+1)
			}
		}
		now, next = next, now
	}
	return now.seen[len(pattern)]
}

// isWide reports whether a pattern has "**" at position at, and isSegments
// whether it stands for any number of whole segments.
func isWide(pattern string, at int) bool { return strings.HasPrefix(pattern[at:], "**") }

func isSegments(pattern string, at int) bool {
	return strings.HasPrefix(pattern[at:], "**/") && (at == 0 || pattern[at-1] == '/')
}

// places are the positions in a pattern that the path read so far can reach.
type places struct {
	seen [maxPattern + 1]bool
	list [maxPattern + 1]uint16
	n    int
}

func (s *places) clear() {
	for _, at := range s.list[:s.n] {
		s.seen[at] = false
	}
	s.n = 0
}

func (s *places) mark(at int) {
	if !s.seen[at] {
		s.seen[at] = true
		s.list[s.n] = uint16(at)
		s.n++
	}
}

// add marks a position and those after it that are reached without reading a byte.
// A "**/" of whole segments can be left only at its beginning and after a slash; in
// the middle of a segment matchPath calls mark alone.
func (s *places) add(pattern string, at int) {
	for !s.seen[at] {
		s.mark(at)
		switch {
		case at == len(pattern) || pattern[at] != '*':
			return
		case isSegments(pattern, at):
			at += 3
		case isWide(pattern, at):
			at += 2
		default:
			at++
		}
	}
}
