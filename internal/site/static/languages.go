package static

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/sitemap"
	"github.com/parleyweb/parley/protocol"
)

// A listing is an entry of the sitemap, and how it is known that other pages are the same in other languages.
type listing struct {
	page     sitemap.Page
	language string // of the page, if its name has it; else empty
	twins    string // the URL without the language, as in page.html for page.html.en and page.en.html
	group    string // groupOf the URL
}

// groupOf returns a URL up to the first dot of its file name; the whole URL if there is no dot. Pages that differ in their
// language are of one group, and the pages of a group follow each other.
func groupOf(url string) string {
	path, _, _ := strings.Cut(url, "?")
	dir := strings.LastIndexByte(path, '/') + 1
	if i := strings.IndexByte(path[dir:], '.'); i >= 0 {
		return url[:dir+i+1]
	}
	return url
}

// listingOf returns the entry of an item.
func listingOf(it *protocol.Item) listing {
	l := listing{page: sitemap.Page{Loc: it.URL, Modified: it.Modified, Span: it.Span}, group: groupOf(it.URL)}
	after := it.URL[len(l.group):]
	if it.Language == "" || !strings.Contains(after, ".") || strings.Contains(it.URL, "?") {
		return l
	}
	main, _, _ := strings.Cut(it.Language, "-")
	parts := strings.Split(after, ".")
	for i, part := range parts {
		tag := cmp.Or(map[string]string{"cz": "cs", "dk": "da", "po": "pl"}[strings.ToLower(part)], part) // as Apache's own configuration names them
		if strings.EqualFold(tag, it.Language) || strings.EqualFold(tag, main) {
			l.language, l.twins = it.Language, l.group+strings.Join(slices.Delete(parts, i, i+1), ".")
			break
		}
	}
	return l
}

// maxTwins is how many entries of a group are kept until their twins are known.
const maxTwins = 256

// linked yields the pages of a sitemap, those that are in several languages with links to each other, and to themselves, as search engines want
// them (hreflang). Of two pages in one language it is not known which one is meant: then there are no links.
func linked(entries iter.Seq2[listing, error]) iter.Seq2[sitemap.Page, error] {
	return func(yield func(sitemap.Page, error) bool) {
		var run []listing
		more := true
		flush := func() {
			for i := range run {
				if run[i].language != "" {
					run[i].page.Languages = languages(run, run[i].twins)
				}
				if more = more && yield(run[i].page, nil); !more {
					return
				}
			}
			run = run[:0]
		}
		for l, err := range entries {
			if err != nil {
				yield(sitemap.Page{}, err)
				return
			}
			if len(run) > 0 && (run[0].group != l.group || len(run) == maxTwins) {
				if flush(); !more {
					return
				}
			}
			run = append(run, l)
		}
		flush()
	}
}

// languages returns the links among the twins of a URL, nil if there are no others, or two in one language.
func languages(run []listing, of string) (list []sitemap.Language) {
	for _, l := range run {
		if l.language == "" || l.twins != of {
			continue
		}
		if slices.ContainsFunc(list, func(x sitemap.Language) bool { return strings.EqualFold(x.Tag, l.language) }) {
			return nil
		}
		list = append(list, sitemap.Language{Tag: l.language, Loc: l.page.Loc})
	}
	if len(list) < 2 {
		return nil
	}
	return list
}
