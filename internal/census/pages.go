package census

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A book has the counts of pages, and what is remembered of each page of the census. These are numbered from 0, in the order of their IDs.
type book struct {
	number []uint32 // by page ID: the page's number in the census + 1; 0: none
	site   []uint32 // by number: its site, numbered from 0
	length []uint32 // in bytes
	depth  []uint8  // until the links are read: as the collection stores it
	spoken []uint16 // index in languages of the language that the page declares, if it has words; with isDynamic for a dynamic page
	fresh  []freshness
	homes  []uint32 // numbers of pages from which depths are counted

	languages []string // by index; "" for pages without words
	index     map[string]uint16
	count     pageCounts
}

// pageCounts are the counts of pages.
type pageCounts struct {
	states, types, typeBytes, technologies map[string]int64
	status, months, years                  map[int]int64
	lengths                                histogram
	dynamic, static                        [256]int64 // by depth
	declared                               map[byDepth]int64
	total                                  totals
}

// byDepth is a language at a depth.
type byDepth struct {
	depth uint8
	name  string
}

const isDynamic = 1 << 15

// totals are sums over the pages of the census.
type totals struct {
	pages, dynamic, duplicates, cut, dated int64
	bytes                                  int64
	days                                   float64 // sum of ages
	newest                                 time.Time
}

func newBook(known int) *book {
	return &book{number: make([]uint32, known+1), languages: []string{""}, index: map[string]uint16{"": 0}, count: pageCounts{
		states: map[string]int64{}, types: map[string]int64{}, typeBytes: map[string]int64{}, technologies: map[string]int64{},
		status: map[int]int64{}, months: map[int]int64{}, years: map[int]int64{}, lengths: histogram{}, declared: map[byDepth]int64{}}}
}

const (
	year  = 36525 * 24 * time.Hour / 100
	month = year / 12
)

// readPages counts all pages.
func (t *taking) readPages() error {
	for p, err := range t.col.Pages(t.ctx) {
		if err != nil {
			return err
		}
		if p.ID >= frontier.PageID(len(t.book.number)) {
			break // somebody writes to the collection
		}
		t.book.count.states[p.State.String()]++
		if p.Status != 0 || p.Fails > 0 {
			t.book.count.status[p.Status]++
		}
		if p.Last.After(t.book.count.total.newest) {
			t.book.count.total.newest = p.Last
		}
		s := t.sites.of(&p)
		t.times.add(&p, s)
		t.saved.add(&p)
		if p.State != collection.Held {
			if p.State == collection.Moved {
				t.book.number[p.ID] = redirects
			}
			continue
		}
		t.book.add(&p, t.sites.numberOf(s))
		if page := t.book.number[p.ID] - 1; p.Depth == 0 || p.URL == protocol.Origin(p.URL)+"/" {
			t.book.homes = append(t.book.homes, page)
			s.hasHome = true
		} else if s.pages == 0 || p.Depth < s.least {
			s.least, s.entry = p.Depth, page
		}
		age := t.ageOf(&p)
		s.add(&p, age)
		t.book.age(age)
		if isText(p.Type) && p.Stored.File != "" {
			t.sample.add(&p, t.book.number[p.ID]-1)
		}
	}
	return nil
}

// noAge is the age of a page without a credible date.
const noAge = time.Duration(math.MinInt64)

// ageOf returns a page's age at its last visit (F03, P13).
func (t *taking) ageOf(p *collection.Page) time.Duration {
	stated, err := http.ParseTime(p.LastModified)
	if err != nil {
		return noAge
	}
	modified, ok := protocol.SaneModified(stated, p.Last, t.opts.Dates)
	if !ok {
		return noAge
	}
	return p.Last.Sub(modified)
}

// add counts a page of the census, on a site.
func (b *book) add(p *collection.Page, site uint32) {
	b.site, b.depth = append(b.site, site), append(b.depth, uint8(min(max(p.Depth, 0), math.MaxUint8)))
	b.fresh = append(b.fresh, freshnessOf(p))
	b.length = append(b.length, uint32(min(max(p.Length, 0), math.MaxUint32)))
	b.number[p.ID] = uint32(len(b.site))
	t := &b.count.total
	t.pages++
	t.bytes += p.Length
	if p.Original != 0 {
		t.duplicates++
	}
	if p.Cut {
		t.cut++
	}
	if p.Dynamic {
		t.dynamic++
		b.count.technologies[among(b.count.technologies, extensionOf(p.URL))]++
	}
	mediaType := among(b.count.types, cmp.Or(p.Type, "none"))
	b.count.types[mediaType]++
	b.count.typeBytes[mediaType] += p.Length
	b.count.lengths.add(p.Length)
	b.speaks(p)
}

// among returns a name, or "other" if too many others have a count: a hostile site may have a media type for each page.
func among(counts map[string]int64, name string) string {
	if _, ok := counts[name]; !ok && len(counts) >= mostNames {
		return "other"
	}
	return name
}

// speaks remembers the language that a page declares, and whether it is dynamic.
func (b *book) speaks(p *collection.Page) {
	language := ""
	if isText(p.Type) {
		language = primary(p.Language)
	}
	i, ok := b.index[language]
	if !ok { // there are no more than 26*26*27 of them
		i = uint16(len(b.languages))
		b.index[language], b.languages = i, append(b.languages, language)
	}
	if p.Dynamic {
		i |= isDynamic
	}
	b.spoken = append(b.spoken, i)
}

// countDepths counts pages by their depths, when these are known.
func (b *book) countDepths(s *sites) {
	for page, depth := range b.depth {
		if b.spoken[page]&isDynamic != 0 {
			b.count.dynamic[depth]++
		} else {
			b.count.static[depth]++
		}
		if language := b.languages[b.spoken[page]&^isDynamic]; language != "" {
			b.count.declared[byDepth{depth, language}]++
		}
		of := s.counts[b.site[page]]
		of.depth = max(of.depth, depth)
	}
}

// age counts a page's age.
func (b *book) age(age time.Duration) {
	if age == noAge {
		return
	}
	b.count.total.dated++
	b.count.total.days += age.Hours() / 24
	b.count.months[int(age/month)]++
	b.count.years[int(age/year)]++
}

// isText reports whether pages of a media type have words: HTML and plain text.
func isText(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml" || mediaType == "text/plain"
}

// primary returns the language of a tag, such as "pt" of "pt-BR"; "none" without one, "other" for what is none.
func primary(tag string) string {
	if tag == "" {
		return "none"
	}
	tag, _, _ = strings.Cut(strings.ToLower(tag), "-")
	if len(tag) < 2 || len(tag) > 3 || strings.Trim(tag, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "other"
	}
	return tag
}

// extensionOf returns what follows the dot in the last part of a URL's path, in lower case; "" if that is not 1 to 8 letters or digits.
func extensionOf(url string) string {
	path := strings.TrimPrefix(url, protocol.Origin(url))
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	path = path[strings.LastIndexByte(path, '/')+1:]
	dot := strings.LastIndexByte(path, '.')
	ext := strings.ToLower(path[dot+1:])
	if dot < 0 || len(ext) < 1 || len(ext) > 8 || strings.Trim(ext, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return ext
}

// technologies are those of dynamic pages, by their extensions; pages without one are dynamic by their query.
const technologies = `
PHP php php3 php4 php5 php7 phtml
ASP asp aspx ashx
Java jsp jspx jspa jhtml do action
ColdFusion cfm cfml
CGI cgi fcgi pcgi pl
Python py
Ruby rb
SSI shtm shtml`

// groupOf returns the first word of the line that has a word, "other" if none has.
func groupOf(lines, word string) string {
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		if words := strings.Fields(line); slices.Contains(words[1:], word) {
			return words[0]
		}
	}
	return "other"
}

// classOfStatus returns the class of an answer, by Castillo 8.3.1 (R02).
func (o *Options) classOfStatus(code int) string {
	switch {
	case code == 0:
		return "no answer"
	case code == http.StatusNoContent && o.EmptyIsError:
		return "server error"
	case code >= 200 && code <= 299, code == http.StatusNotModified:
		return "ok"
	case code >= 300 && code <= 399:
		return "moved"
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusNotAcceptable:
		return "forbidden"
	case code == http.StatusNotFound, code == http.StatusGone:
		return "not found"
	case code >= 500 && code <= 599:
		return "server error"
	}
	return "other"
}

// pageTables are the tables of pages.
func (t *taking) pageTables() []Table {
	b := t.book
	states := table("states", "Castillo 7.3.3", 1, "state", "pages")
	counts(&states, b.count.states)

	status := table("status", "R02, Castillo 8.3.1", 2, "code", "class", "pages")
	for _, code := range sorted(b.count.status) {
		status.row(code, t.opts.classOfStatus(code), b.count.status[code])
	}
	types := table("types", "Castillo 8.3.7", 1, "type", "pages", "bytes")
	for _, name := range sorted(b.count.types) {
		types.row(name, b.count.types[name], b.count.typeBytes[name])
	}
	lengths := table("lengths", "R03, Castillo 8.3.2", 2, "from", "to", "pages")
	lengths.classes(b.count.lengths)

	months, years := table("ages_months", "R04, Castillo 8.3.3", 1, "months", "pages"), table("ages_years", "R04, Castillo 8.3.3", 1, "years", "pages")
	counts(&months, b.count.months)
	counts(&years, b.count.years)

	depths := table("depths", "R05, R27, Castillo 8.3.4 and 5.1", 1, "depth", "static", "dynamic", "dynamic_share")
	for d := range b.count.static {
		if all := b.count.static[d] + b.count.dynamic[d]; all > 0 {
			depths.row(d, b.count.static[d], b.count.dynamic[d], per(b.count.dynamic[d], all))
		}
	}
	dynamic := table("technologies", "R07, Castillo 8.3.6", 2, "technology", "extension", "pages")
	for _, ext := range sorted(b.count.technologies) {
		name := groupOf(technologies, ext)
		if ext == "" {
			name = "query"
		}
		dynamic.row(name, ext, b.count.technologies[ext])
	}
	return []Table{states, status, types, lengths, months, years, depths, t.languageTable(), t.sample.dataTable(), dynamic}
}
