package census

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/protocol"
)

// A sample is of the pages that are read. Which ones depends on their IDs alone.
type sample struct {
	most    int
	list    []drawn
	highest uint64 // lots that are not lower need not be kept

	spoken map[byDepth]int64
	forms  map[string]int64 // how they came: values of formHeader, "" for a request of its own
	copied int64            // bytes of those that are copies of equal pages
	pages  int64            // of HTML, and those with data for programs, by what that is
	data   [len(dataKinds)]int64
}

// dataKinds is what data for programs pages have.
var dataKinds = [...]string{"JSON-LD", "microdata or RDFa", "a link to a feed", "a link to RDF"}

// A drawn page is one that is in the sample, unless pages that are read later have lower lots.
type drawn struct {
	lot      uint64
	page     uint32 // number
	url      string
	stored   contents.Place
	length   int64
	textOnly bool // it is plain text
}

// add draws a lot for a page with a number.
func (s *sample) add(p *collection.Page, page uint32) {
	lot := uint64(p.ID) + 0x9e3779b97f4a7c15 // the mixing function of SplitMix64
	lot = (lot ^ lot>>30) * 0xbf58476d1ce4e5b9
	lot = (lot ^ lot>>27) * 0x94d049bb133111eb
	lot ^= lot >> 31
	if lot > s.highest {
		return
	}
	s.list = append(s.list, drawn{lot, page, p.URL, p.Stored, p.Length, p.Type == "text/plain"})
	if len(s.list) >= 2*s.most+1000 {
		s.draw()
	}
}

// draw keeps the pages with the lowest lots, in the order of their IDs.
func (s *sample) draw() {
	slices.SortFunc(s.list, func(a, b drawn) int { return cmp.Compare(a.lot, b.lot) })
	if len(s.list) > s.most {
		s.highest = s.list[s.most].lot
		clear(s.list[s.most:])
		s.list = s.list[:s.most]
	}
	slices.SortFunc(s.list, func(a, b drawn) int { return cmp.Compare(a.page, b.page) })
}

// formHeader is a header of the stored record of a page that came without a request of its own, see client/crawl.
const formHeader = "X-Parley-Form"

// readSample finds out the languages of the pages in the sample (R06), their data for programs (O24), and how they came.
func (t *taking) readSample() error {
	s := &t.sample
	s.draw()
	for i := range s.list {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		s.read(t.col, &s.list[i], t.book.depth[s.list[i].page])
	}
	return nil
}

// read reads a page of the sample, which has that depth.
func (s *sample) read(col *collection.Collection, p *drawn, depth uint8) {
	const most = 256 << 10 // bytes of a page: enough to know a language by
	var body []byte
	content, err := col.Contents().Content(p.url, p.stored)
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(content, most))
		content.Close()
	}
	if err != nil { // it is left out
		return
	}
	form := content.Header.Get(formHeader)
	if s.forms[form]++; form == string(protocol.AsMeta) {
		s.copied += p.length
	}
	text := html.Decode(body, content.Header.Get("Content-Type"))
	if !p.textOnly {
		page := html.Read(p.url, text, html.Options{Text: true, Data: true})
		text = page.Text
		s.pages++
		for i, has := range [len(dataKinds)]bool{page.Data.JSONLD, page.Data.Items, page.Data.Feed, page.Data.RDF} {
			if has {
				s.data[i]++
			}
		}
	}
	s.spoken[byDepth{depth, languageOf(text)}]++
}

// stopWords are frequent words of languages. Related languages share some, which count for each of them.
const stopWords = `
en the of and to in is that for it with
es el los las que una por con para es del
fr le les des est une dans que pour et du
de der die und das ist nicht ein mit von den
it il di che la per non una sono con del
pt o os as não uma para com que do da em
nl de het een van en dat niet voor zijn met
sv och att det som en på är av för med
da og det af til ikke er på en som med
pl i w nie na się że do to jest z
ru и в не на что с по как это для
tr ve bir bu için ile da de olarak çok ne
id yang dan di dengan untuk dari ini tidak dalam pada`

// languageOf returns the language in which a text has most stop words; Japanese, Chinese and Korean are known by their letters. It
// returns "unknown" for a text with fewer than 3 stop words.
func languageOf(text []byte) string {
	var letters, kana, han, hangul int
	words := map[string]int{}
	for word := range bytes.FieldsFuncSeq(bytes.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		words[string(word)]++
	}
	for word, n := range words {
		for _, r := range word {
			letters += n
			switch {
			case r < 0x3000: // none of these
			case unicode.In(r, unicode.Hiragana, unicode.Katakana):
				kana += n
			case unicode.Is(unicode.Han, r):
				han += n
			case unicode.Is(unicode.Hangul, r):
				hangul += n
			}
		}
	}
	const share = 10 // a tenth of the letters: the rest may be names, commands and examples
	switch {
	case share*kana > letters:
		return "ja"
	case share*hangul > letters:
		return "ko"
	case share*han > letters:
		return "zh"
	}
	best, most := "unknown", 2
	for line := range strings.Lines(strings.TrimSpace(stopWords)) {
		list := strings.Fields(line)
		hits := 0
		for _, word := range list[1:] {
			hits += words[word]
		}
		if hits > most {
			best, most = list[0], hits
		}
	}
	return best
}

// dataTable is the table of data for programs.
func (s *sample) dataTable() Table {
	t := table("data", "O24, Castillo 8.3.7 and 9.3", 1, "kind", "pages", "share")
	for i, kind := range dataKinds {
		if s.data[i] > 0 {
			t.row(kind, s.data[i], per(s.data[i], s.pages))
		}
	}
	return t
}

// languageTable is the table of languages.
func (t *taking) languageTable() Table {
	languages := table("languages", "R06, Castillo 8.3.5", 2, "depth", "language", "declared", "sampled")
	all := maps.Clone(t.book.count.declared)
	maps.Copy(all, t.sample.spoken)
	inOrder := func(a, b byDepth) int { return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.name, b.name)) }
	for _, l := range slices.SortedFunc(maps.Keys(all), inOrder) {
		languages.row(int(l.depth), l.name, t.book.count.declared[l], t.sample.spoken[l])
	}
	return languages
}
