package main

import (
	"bufio"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/parleyweb/parley/protocol"
)

const base = "https://docs.example.com/"

var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func head(n int) protocol.Manifest {
	return protocol.Manifest{
		URL: base + "robots.rdf", Base: base, Title: "Documentation",
		Modified: epoch.AddDate(1, 0, 0), Cursor: protocol.Cursor{Epoch: "k3v7q2m4x5n6p2aa", Seq: uint64(n)},
		Complete: true, Items: n,
		Stream: "wss://docs.example.com/parley/stream", Changes: base + "parley/changes",
	}
}

// items yields n items in order, the same at every iteration and every run. It is fast, since both sides of
// every comparison include its time.
func items(n int) iter.Seq2[protocol.Item, error] {
	return func(yield func(protocol.Item, error) bool) {
		r := rand.NewPCG(1, 2)
		url := []byte(base + "reference/chapter-00000000/index.en.html")
		number := url[len(base+"reference/chapter-"):][:8]
		title := []byte("Chapter 00000000: of reading & writing")
		for i := range n {
			for j, v := len(number)-1, i; j >= 0; j, v = j-1, v/10 {
				number[j] = byte('0' + v%10)
			}
			item := protocol.Item{
				URL:      string(url),
				Modified: epoch.Add(time.Duration(r.Uint64()%31_536_000) * time.Second),
				Length:   int64(r.Uint64() % 100_000),
				Type:     "text/html",
			}
			if i%2 == 0 {
				copy(title[len("Chapter "):], number)
				item.Title = string(title)
			}
			for j := 0; j < len(item.Digest); j += 8 {
				binary.LittleEndian.PutUint64(item.Digest[j:], r.Uint64())
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

func writeOurs(w io.Writer, n int) error {
	return protocol.WriteManifest(w, head(n), items(n), nil)
}

// These types have the same content for encoding/xml. Their names include prefixes, so that it need not invent any.
type (
	xmlItem struct {
		XMLName  struct{} `xml:"item"`
		About    string   `xml:"rdf:about,attr"`
		Title    string   `xml:"title"`
		Link     string   `xml:"link"`
		Date     string   `xml:"dc:date"`
		Modified string   `xml:"dcterms:modified"`
		Format   string   `xml:"dc:format"`
		Extent   int64    `xml:"dcterms:extent"`
		Digest   string   `xml:"p:digest"`
	}
	xmlLi struct {
		XMLName  struct{} `xml:"rdf:li"`
		Resource string   `xml:"rdf:resource,attr"`
	}
)

func writeTheirs(w io.Writer, n int) error {
	b := bufio.NewWriterSize(w, 96<<10)
	e := xml.NewEncoder(b)
	e.Indent("", "  ")
	open := func(name string, attrs ...xml.Attr) error {
		return e.EncodeToken(xml.StartElement{Name: xml.Name{Local: name}, Attr: attrs})
	}
	if err := open("rdf:RDF",
		xml.Attr{Name: xml.Name{Local: "xmlns:rdf"}, Value: "http://www.w3.org/1999/02/22-rdf-syntax-ns#"},
		xml.Attr{Name: xml.Name{Local: "xmlns"}, Value: "http://purl.org/rss/1.0/"}); err != nil {
		return err
	}
	for _, name := range []string{"channel", "items", "rdf:Seq"} {
		if err := open(name); err != nil {
			return err
		}
	}
	for i := range items(n) {
		if err := e.Encode(xmlLi{Resource: i.URL}); err != nil {
			return err
		}
	}
	for _, name := range []string{"rdf:Seq", "items", "channel"} {
		if err := e.EncodeToken(xml.EndElement{Name: xml.Name{Local: name}}); err != nil {
			return err
		}
	}
	for i := range items(n) {
		date := protocol.FormatDate(i.Modified)
		x := xmlItem{About: i.URL, Title: i.Title, Link: i.URL, Date: date, Modified: date,
			Format: i.Type, Extent: i.Length, Digest: i.Digest.String()}
		if x.Title == "" {
			x.Title = i.URL[len(base)-1:]
		}
		if err := e.Encode(x); err != nil {
			return err
		}
	}
	if err := e.EncodeToken(xml.EndElement{Name: xml.Name{Local: "rdf:RDF"}}); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	return b.Flush()
}

func readOurs(r io.Reader) (n int, err error) {
	m := protocol.NewManifestReader(r, protocol.ManifestOptions{URL: base + "robots.rdf", Origin: protocol.Origin(base)})
	for ; ; n++ {
		if _, err := m.Next(); err == io.EOF {
			if skipped, first := m.Skipped(); skipped > 0 {
				return n, fmt.Errorf("%d entries skipped: %w", skipped, first[0])
			}
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

// readTheirs only reads every token: encoding/xml has no stream of items, and decoding into structs is slower
// still.
func readTheirs(r io.Reader) (n int, err error) {
	d := xml.NewDecoder(bufio.NewReaderSize(r, 64<<10))
	for {
		t, err := d.Token()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if s, ok := t.(xml.StartElement); ok && s.Name.Local == "item" {
			n++
		}
	}
}
