package xmlpull_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/xmlpull"
)

// fuzzLimits are low, so that short inputs meet them.
var fuzzLimits = xmlpull.Limits{Bytes: 1 << 20, Depth: 16, Tag: 512, Attrs: 8, Text: 1024, Names: 8}

func addSeeds(f *testing.F) {
	for _, c := range wellFormed {
		f.Add([]byte(c.doc))
	}
	for _, c := range malformed {
		f.Add([]byte(c.doc))
	}
	f.Add([]byte(manifest(1)))
}

// FuzzReader reads anything, checks what holds for every token, and that
// Element's documents are read back.
func FuzzReader(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		r := xmlpull.NewReader(bytes.NewReader(doc), fuzzLimits)
		depth, text := 0, 0
		for {
			k, err := r.Next()
			if err != nil {
				if _, again := r.Next(); again != err {
					t.Fatalf("%v, then %v", err, again)
				}
				return
			}
			switch k {
			case xmlpull.Start:
				depth++
				text = 0
				if r.Attrs() > fuzzLimits.Attrs {
					t.Fatalf("%d attributes", r.Attrs())
				}
			case xmlpull.Text:
				if text += len(r.Text()); len(r.Text()) == 0 || text > fuzzLimits.Text {
					t.Fatalf("text of %d, %d together", len(r.Text()), text)
				}
			}
			if r.Depth() != depth || depth > fuzzLimits.Depth || len(r.Local()) == 0 {
				t.Fatalf("kind %d at depth %d, want %d, name %q", k, r.Depth(), depth, r.Local())
			}
			if r.Offset() > int64(len(doc)) || r.Line() > 1+bytes.Count(doc, []byte("\n")) {
				t.Fatalf("offset %d, line %d of %d bytes", r.Offset(), r.Line(), len(doc))
			}
			if k == xmlpull.End {
				depth--
				text = 0
			}
			if k == xmlpull.Start && len(r.Local()) == 3 { // some, not all
				element(t, r)
				depth--
				text = 0
			}
		}
	})
}

// element takes the present element as a document and reads it.
func element(t *testing.T, r *xmlpull.Reader) {
	doc, err := r.Element(nil, 4096)
	if err != nil {
		if len(doc) != 0 {
			t.Fatalf("%q with %v", doc, err)
		}
		return
	}
	limits := fuzzLimits
	limits.Tag, limits.Attrs, limits.Text = 8192, 2*limits.Attrs, 8192 // it is written longer
	limits.Names = 2 * limits.Depth * limits.Attrs
	if _, err := dump(xmlpull.NewReader(bytes.NewReader(doc), limits)); err != nil {
		t.Fatalf("element written as %q: %v", doc, err)
	}
}

// FuzzSlow reads the same, one byte at a time.
func FuzzSlow(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		want, wantErr := dump(xmlpull.NewReader(bytes.NewReader(doc), fuzzLimits))
		got, err := dump(xmlpull.NewReader(&single{rest: doc}, fuzzLimits))
		if (err == nil) != (wantErr == nil) || err == nil && got != want {
			t.Fatalf("by single bytes: %s, %v\nat once: %s, %v", got, err, want, wantErr)
		}
	})
}

// single gives one byte at a time, and nothing every second time.
type single struct {
	rest []byte
	idle bool
}

func (s *single) Read(p []byte) (int, error) {
	if s.idle = !s.idle; s.idle {
		return 0, nil
	}
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:1], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// FuzzAgainstEncodingXML holds our reader against the standard library's:
// what ours accepts that one must accept too, with the same tokens. We refuse
// more: it knows neither undeclared prefixes, duplicate attributes, roots,
// nor what may stand in a comment. Three differences are known where we accept:
//
//   - its names are those of XML 1.0's fourth edition, ours those of the fifth;
//   - it leaves white space in attribute values and so in namespaces as it is,
//     where XML demands spaces: all of it is made spaces to compare;
//   - it does not give an element called xmlns its default namespace.
func FuzzAgainstEncodingXML(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, doc []byte) { compare(t, doc) })
}

func compare(t *testing.T, doc []byte) {
	t.Helper()
	ours, err := dumpValues(xmlpull.NewReader(bytes.NewReader(doc), xmlpull.Limits{}), spaced)
	if err != nil {
		return
	}
	theirs, err := standardDump(doc)
	if err != nil && strings.Contains(err.Error(), "invalid XML name") && strings.ContainsFunc(string(doc), func(c rune) bool { return c >= 0x80 }) {
		return
	}
	if err != nil {
		t.Fatalf("we accept %q, encoding/xml returns %v", doc, err)
	}
	if ours != theirs {
		t.Fatalf("tokens of %q:\nours         %s\nencoding/xml %s", doc, ours, theirs)
	}
}

// spaced makes the white space in an attribute's value spaces.
func spaced(value string) string {
	return strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(value)
}

// standardDump is dumpValues by encoding/xml, of a document that is well-formed.
func standardDump(doc []byte) (string, error) {
	var out, text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			fmt.Fprintf(&out, "%q", text.String())
			text.Reset()
		}
	}
	named := func(n xml.Name) string {
		if n.Space != "" {
			return "{" + spaced(n.Space) + "}" + n.Local
		}
		return n.Local
	}
	d := xml.NewDecoder(bytes.NewReader(doc))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	depth := 0
	for {
		token, err := d.Token()
		if err != nil {
			flush()
			if err == io.EOF {
				err = nil
			}
			return out.String(), err
		}
		switch token := token.(type) {
		case xml.CharData:
			if depth > 0 {
				text.Write(token)
			}
		case xml.StartElement:
			flush()
			depth++
			if token.Name.Local == "xmlns" && token.Name.Space == "" {
				token.Name.Space = d.DefaultSpace
			}
			out.WriteString("<" + named(token.Name))
			for _, a := range token.Attr {
				if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
					continue
				}
				fmt.Fprintf(&out, " %s=%q", named(a.Name), spaced(a.Value))
			}
			out.WriteString(">")
		case xml.EndElement:
			flush()
			depth--
			out.WriteString("</" + named(token.Name) + ">")
		}
	}
}

// TestXmllint holds the tables against libxml2.
func TestXmllint(t *testing.T) {
	tool := machine.Tool(t, "xmllint")
	lint := func(doc string) error {
		var said strings.Builder
		cmd := exec.Command(tool, "--noout", "--nonet", "-")
		cmd.Stdin = strings.NewReader(doc)
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			return err
		}
		if strings.Contains(said.String(), "namespace error") { // with the exit status 0
			return errors.New(said.String())
		}
		return nil
	}
	for _, c := range wellFormed {
		if err := lint(c.doc); err != nil {
			t.Errorf("%s: we accept %q, xmllint does not: %v", c.name, c.doc, err)
		}
	}
	for _, c := range malformed {
		if err := lint(c.doc); (err == nil) != c.own {
			t.Errorf("%s: we reject %q, xmllint returns %v", c.name, c.doc, err)
		}
	}
}

// TestParserCorpora reads every file of the parser corpora in PARLEY_DATA, a
// directory. None may do harm, and for the accepted ones encoding/xml must return
// the same tokens. The tests of RDF/XML are all accepted, except those with a DOCTYPE: their
// negative cases are invalid RDF, but valid XML.
func TestParserCorpora(t *testing.T) {
	archives, err := filepath.Glob(machine.Data(t, "parsers", "*.tar.zst"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, name := range archives {
		t.Run(filepath.Base(name), func(t *testing.T) {
			files, accepted := 0, 0
			why := map[string]int{}
			for in, doc := range machine.Recorded(t, strings.TrimSuffix(filepath.Base(name), ".tar.zst")) {
				files++
				_, err := dump(xmlpull.NewReader(bytes.NewReader(doc), xmlpull.Limits{}))
				if err == nil {
					accepted++
					compare(t, doc)
					continue
				}
				var syntax *xmlpull.SyntaxError
				if errors.As(err, &syntax) {
					msg, _, _ := strings.Cut(syntax.Msg, `"`)
					why[msg]++
				} else {
					why[err.Error()]++
				}
				if path.Ext(in) == ".rdf" && !bytes.Contains(doc, []byte("<!DOCTYPE")) {
					t.Errorf("%s: %v", in, err)
				}
			}
			t.Logf("%d of %d files accepted; refused: %v", accepted, files, why)
		})
	}
}

func BenchmarkEncodingXML(b *testing.B) {
	doc := []byte(manifest(2000))
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		d := xml.NewDecoder(bytes.NewReader(doc))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}
