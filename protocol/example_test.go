package protocol_test

import (
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A site of one page, written to standard output. A real site yields its items from its storage, in the order
// of Compare, each time it is ranged over.
func ExampleWriteManifest() {
	page := protocol.Item{
		URL: "https://h/a.html", Title: "A", Length: 14, Type: "text/html",
		Modified: time.Date(2026, 11, 20, 1, 2, 3, 0, time.UTC),
	}
	var items iter.Seq2[protocol.Item, error] = func(yield func(protocol.Item, error) bool) { yield(page, nil) }
	head := protocol.Manifest{URL: "https://h/robots.rdf", Base: "https://h/", Complete: true, Items: 1}
	var b strings.Builder
	if err := protocol.WriteManifest(&b, head, items, nil); err != nil {
		fmt.Println(err)
	}
	_, item, _ := strings.Cut(b.String(), "</channel>\n")
	fmt.Print(item)
	// Output:
	//   <item rdf:about="https://h/a.html">
	//     <title>A</title>
	//     <link>https://h/a.html</link>
	//     <dc:date>2026-11-20T01:02:03Z</dc:date>
	//     <dcterms:modified>2026-11-20T01:02:03Z</dcterms:modified>
	//     <dc:format>text/html</dc:format>
	//     <dcterms:extent>14</dcterms:extent>
	//   </item>
	// </rdf:RDF>
}

func ExampleManifestReader() {
	f, err := os.Open("testdata/golden-site.rdf")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	r := protocol.NewManifestReader(f, protocol.ManifestOptions{URL: "https://www.example.com/robots.rdf"})
	for {
		record, err := r.Next()
		if err == io.EOF {
			fmt.Println("stands at", r.Head().Cursor)
			return
		} else if err != nil {
			fmt.Println(err) // draw no conclusions from the unread part
			return
		}
		if gone := record.Gone; gone != nil {
			fmt.Println("gone", gone.URL)
		} else {
			fmt.Println("have", record.Item.URL)
		}
	}
	// Output:
	// have https://www.example.com/
	// have https://www.example.com/a&b.html?x=1&y='2'
	// have https://www.example.com/caf%C3%A9.html
	// have https://www.example.com/old.html
	// have https://www.example.com/docs/
	// have https://www.example.com/docs/a.html
	// have https://www.example.com/docs/b.html
	// gone https://www.example.com/was.html
	// gone https://www.example.com/gone.html?a=1&b=2
	// gone https://www.example.com/nothing.known
	// stands at k3v7q2m4x5n6p2aa:48213
}

func ExampleParseMessage() {
	m, err := protocol.ParseMessage([]byte(`{"t":"ev","to":"e:7","seq":7,"op":"move","url":"/new.html","from":"/old.html"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range m.Changes {
		fmt.Println(c.Op, c.From, "to", c.Item.URL)
	}
	fmt.Println("now at", m.To)
	// Output:
	// move /old.html to /new.html
	// now at e:7
}

func ExampleParseDate() {
	d, err := protocol.ParseDate("2004-10-01T12:05+02:00")
	fmt.Println(d, d.Span, err)
	// Output: 2004-10-01T10:05Z 1m0s <nil>
}

func ExampleCanonicalURL() {
	fmt.Println(protocol.CanonicalURL("https://h/docs/robots.rdf", "../caf\u00e9 2.html#menu"))
	// Output: https://h/caf%C3%A9%202.html <nil>
}
