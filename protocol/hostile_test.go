package protocol_test

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyweb/parley/protocol"
)

// repeat yields s n times while holding only a piece of it.
func repeat(s string, n int) io.Reader {
	per := max(1, 64<<10/len(s))
	return &repeated{piece: strings.Repeat(s, per), left: n * len(s)}
}

type repeated struct {
	piece string
	at    int
	left  int
}

func (r *repeated) Read(b []byte) (n int, err error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n = copy(b[:min(len(b), r.left)], r.piece[r.at:])
	r.at, r.left = (r.at+n)%len(r.piece), r.left-n
	return n, nil
}

// A watched reader samples the heap size as it is read from.
type watched struct {
	r    io.Reader
	left int // bytes until the next sample

	alloc, sys uint64 // the most seen
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if w.left -= n; w.left <= 0 || err != nil {
		w.left = 1 << 20
		w.look()
	}
	return n, err
}

func (w *watched) look() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.alloc, w.sys = max(w.alloc, m.HeapAlloc), max(w.sys, m.HeapSys)
}

const (
	hostileHead = `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"` +
		` xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" xmlns:p="urn:parley:1#">`
	hostileItem = hostileHead + `<item rdf:about="https://h/a">`
	hostileEnd  = `</item></rdf:RDF>`
)

// Any response that a site serves as a manifest is rejected or skipped with a clear reason, without excessive
// memory use.
func TestHostileManifests(t *testing.T) {
	many := 300_000
	if testing.Short() {
		many = 100_000
	}
	str := func(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
	// around yields s n times between a beginning and an end.
	around := func(start, s string, n int, end string) func() io.Reader {
		return func() io.Reader {
			return io.MultiReader(strings.NewReader(start), repeat(s, n), strings.NewReader(end))
		}
	}
	for name, c := range map[string]struct {
		doc     func() io.Reader
		err     string // "": read to its end
		limit   bool   // the error wraps ErrLimit
		skipped int
		o       protocol.ManifestOptions
	}{
		"entity bomb": {doc: str(`<?xml version="1.0"?><!DOCTYPE rdf:RDF [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">` +
			`<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>` + hostileItem + `<title>&c;</title>` + hostileEnd), err: "DOCTYPE"},
		"external entity":         {doc: str(`<!DOCTYPE r SYSTEM "file:///etc/passwd">` + hostileHead + `</rdf:RDF>`), err: "DOCTYPE"},
		"endless DOCTYPE":         {doc: around(`<!DOCTYPE r [`, `<!ENTITY a "b">`, 4*many, `]>`), err: "DOCTYPE"},
		"undefined entity":        {doc: str(hostileItem + `<title>a&nbsp;b</title>` + hostileEnd), err: "reference"},
		"deep in an item":         {doc: around(hostileItem, `<p:a>`, many, ``), err: "over the limit", limit: true},
		"deep in a title":         {doc: around(hostileItem+`<title>`, `<b>`, many, ``), err: "over the limit", limit: true},
		"deep in the head":        {doc: around(hostileHead+`<channel>`, `<p:a>`, many, ``), err: "over the limit", limit: true},
		"deep as a root":          {doc: around(``, `<rdf>`, many, ``), err: "root"},
		"huge title":              {doc: around(hostileItem+`<title>`, `0123456789abcdef`, 16*many, `</title>`+hostileEnd), err: "over the limit", limit: true},
		"huge head title":         {doc: around(hostileHead+`<channel><title>`, `0123456789abcdef`, 16*many, `</title></channel>`+hostileEnd), err: "over the limit", limit: true},
		"huge description":        {doc: around(hostileHead+`<channel><description>`, `0123456789abcdef`, 50_000, `</description></channel></rdf:RDF>`), err: "over the limit", limit: true},
		"title in pieces":         {doc: around(hostileItem+`<title>`, `abc<!-- -->`, 4*many, `</title>`+hostileEnd), err: "over the limit", limit: true},
		"huge comment":            {doc: around(hostileHead+`<!--`, `0123456789abcdef`, 16*many, `--></rdf:RDF>`), err: "over the limit", limit: true},
		"huge CDATA":              {doc: around(hostileItem+`<title><![CDATA[`, `0123456789abcdef`, 16*many, `]]></title>`+hostileEnd), err: "over the limit", limit: true},
		"huge instruction":        {doc: around(hostileHead+`<?x `, `0123456789abcdef`, 16*many, `?></rdf:RDF>`), err: "over the limit", limit: true},
		"huge white space":        {doc: around(hostileHead, ` `, 64*many, `</rdf:RDF>`), err: "over the limit", limit: true},
		"huge attribute":          {doc: around(hostileHead+`<item rdf:about="https://h/`, `0123456789abcdef`, 16*many, `"/></rdf:RDF>`), err: "over the limit", limit: true},
		"huge name":               {doc: around(hostileHead+`<item`, `0123456789abcdef`, 16*many, `/></rdf:RDF>`), err: "over the limit", limit: true},
		"many attributes":         {doc: around(hostileHead+`<item `, `a="" `, many, `/></rdf:RDF>`), err: "over the limit", limit: true},
		"many namespaces":         {doc: around(hostileHead+`<item `, `xmlns:a="b" `, many, `/></rdf:RDF>`), err: "over the limit", limit: true},
		"very many tags":          {doc: around(hostileHead, `<a/>`, 10*many, `</rdf:RDF>`)},
		"very many items":         {doc: around(hostileHead, `<item/>`, 10*many, `</rdf:RDF>`), skipped: 10 * many},
		"more than allowed":       {doc: around(hostileHead, `<item/>`, 10*many, `</rdf:RDF>`), err: "over the limit", limit: true, skipped: 1000, o: protocol.ManifestOptions{MaxItems: 1000}},
		"tags in an item":         {doc: around(hostileItem, `<p:a/>`, 10*many, hostileEnd)},
		"extensions":              {doc: around(hostileItem, `<p:a/>`, many, hostileEnd), o: protocol.ManifestOptions{Extensions: true}},
		"tags in the head":        {doc: around(hostileHead+`<channel>`, `<p:a/>`, 10*many, `</channel></rdf:RDF>`), err: "over the limit", limit: true},
		"tags in a tag":           {doc: around(hostileHead+`<channel><p:a>`, `<p:b/>`, 10*many, `</p:a></channel></rdf:RDF>`), err: "over the limit", limit: true},
		"long contents":           {doc: around(hostileHead+`<channel><items><rdf:Seq>`, `<rdf:li/>`, 10*many, `</rdf:Seq></items></channel></rdf:RDF>`)},
		"many channels":           {doc: around(hostileHead, `<channel><p:a>0123456789</p:a></channel>`, many, `</rdf:RDF>`)},
		"endless":                 {doc: around(hostileHead, `<a/>`, 1<<40, ``), err: "over the limit", limit: true, o: protocol.ManifestOptions{MaxBytes: 32 << 20}},
		"all foreign":             {doc: around(hostileHead, `<item rdf:about="https://elsewhere/a"/>`, many, `</rdf:RDF>`), skipped: many, o: protocol.ManifestOptions{Origin: "https://h"}},
		"all one URL":             {doc: around(hostileHead, `<item rdf:about="https://h/a"/>`, many, `</rdf:RDF>`), skipped: many - 1},
		"duplicate attrs":         {doc: str(hostileHead + `<item rdf:about="https://h/a" rdf:about="https://h/b"/></rdf:RDF>`), err: "attribute"},
		"duplicate by space":      {doc: str(hostileHead + `<item xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" rdf:about="https://h/a" r:about="https://h/b"/></rdf:RDF>`), err: "attribute"},
		"undeclared element":      {doc: str(hostileItem + `<x:a/>` + hostileEnd), err: "prefix"},
		"undeclared attr":         {doc: str(hostileHead + `<item x:about="https://h/a"/></rdf:RDF>`), err: "prefix"},
		"unbound prefix":          {doc: str(hostileHead + `<item xmlns:x=""/></rdf:RDF>`), err: "namespace"},
		"raw control":             {doc: str(hostileItem + "<title>a\x01b</title>" + hostileEnd), err: "character"},
		"NUL":                     {doc: str(hostileItem + "<title>a\x00b</title>" + hostileEnd), err: "character"},
		"referenced control":      {doc: str(hostileItem + "<title>a&#1;b</title>" + hostileEnd), err: "reference"},
		"surrogate":               {doc: str(hostileItem + "<title>a&#xD800;b</title>" + hostileEnd), err: "reference"},
		"invalid UTF-8":           {doc: str(hostileItem + "<title>a\xffb</title>" + hostileEnd), err: "UTF-8"},
		"UTF-16":                  {doc: str("\xff\xfe<\x00a\x00/\x00>\x00"), err: "UTF-16"},
		"Latin-1":                 {doc: str(`<?xml version="1.0" encoding="ISO-8859-1"?>` + hostileHead + `</rdf:RDF>`), err: "only UTF-8"},
		"nothing":                 {doc: str(``), err: "ends"},
		"no root":                 {doc: str(`<?xml version="1.0"?><!-- nothing -->`), err: "ends"},
		"HTML":                    {doc: str(`<html><body>404 <br> not found</body></html>`), err: "root"},
		"HTML 5":                  {doc: str(`<!doctype html><title>404</title>`), err: "line 1"},
		"JSON":                    {doc: str(`{"items":[]}`), err: "line 1"},
		"another root":            {doc: str(`<RDF xmlns="urn:other"/>`), err: "not rdf:RDF"},
		"no namespace":            {doc: str(`<rdf:RDF><item/></rdf:RDF>`), err: "prefix"},
		"two roots":               {doc: str(hostileHead + `</rdf:RDF>` + hostileHead + `</rdf:RDF>`), err: "line 1"},
		"junk after the root":     {doc: str(hostileHead + `</rdf:RDF>junk`), err: "line 1"},
		"wrong nesting":           {doc: str(hostileItem + `<title></item></title></rdf:RDF>`), err: "line 1"},
		"fewer items than stated": {doc: str(hostileHead + `<channel><p:complete>true</p:complete><p:items>5</p:items></channel><item rdf:about="https://h/a"/></rdf:RDF>`), err: "differs from its stated count: 1 items, not 5"},
		"silent":                  {doc: func() io.Reader { return silent{} }, err: "no data"},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			w := &watched{r: c.doc()}
			w.look()
			before := *w
			m := protocol.NewManifestReader(w, c.o)
			var err error
			for err == nil {
				_, err = m.Next()
			}
			w.look()
			if c.err == "" && err != io.EOF || c.err != "" && !strings.Contains(err.Error(), c.err) || errors.Is(err, protocol.ErrLimit) != c.limit {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if n, first := m.Skipped(); n != c.skipped || len(first) != min(n, 20) {
				t.Errorf("skipped %d, want %d; %d errors", n, c.skipped, len(first))
			}
			if w.alloc > 64<<20 || w.sys-before.sys > 64<<20 {
				t.Errorf("heap %d MB, %d MB more from the system", w.alloc>>20, (w.sys-before.sys)>>20)
			}
		})
	}
}

// silent is a connection that sends nothing and does not end.
type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }
