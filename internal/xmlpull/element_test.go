package xmlpull_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parleyweb/parley/internal/xmlpull"
)

// at returns a Reader on the Start of the first element called name.
func at(t *testing.T, doc, name string, l xmlpull.Limits) *xmlpull.Reader {
	t.Helper()
	r := xmlpull.NewReader(strings.NewReader(doc), l)
	for {
		k, err := r.Next()
		if err != nil {
			t.Fatalf("no element %s: %v", name, err)
		}
		if k == xmlpull.Start && string(r.Local()) == name {
			return r
		}
	}
}

func TestContent(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{`<a><b/>x</a>`, ""},
		{`<a><b></b>x</a>`, ""},
		{`<a><b>1<!-- -->7</b>x</a>`, "17"},
		{`<a><b>1<c>2<b>3</b>4</c>5<c/>6</b>x</a>`, "156"},
		{`<a><b><![CDATA[<&>]]>&lt;</b>x</a>`, "<&><"},
	} {
		r := at(t, c.doc, "b", xmlpull.Limits{})
		got, err := r.Content([]byte("+"))
		if err != nil || string(got) != "+"+c.want || !r.Is("", "b") {
			t.Errorf("content in %s: %q, %v, at %s", c.doc, got, err, r.Local())
		}
		if k, err := r.Next(); k != xmlpull.Text || string(r.Text()) != "x" || err != nil {
			t.Errorf("after it in %s: %d %q, %v", c.doc, k, r.Text(), err)
		}
	}
}

func TestContentLimit(t *testing.T) {
	// No text between two tags is too long, but all of them together are.
	r := at(t, `<a>12345<b/>12345<b/>12345</a>`, "a", xmlpull.Limits{Text: 10})
	if _, err := r.Content(nil); !errors.Is(err, xmlpull.ErrLimit) {
		t.Errorf("%v, want ErrLimit", err)
	}
}

func TestSkip(t *testing.T) {
	for _, doc := range []string{
		`<a><b/>x</a>`, `<a><b>y</b>x</a>`, `<a><b><b><b/></b>y<c/></b>x</a>`,
	} {
		r := at(t, doc, "b", xmlpull.Limits{})
		if err := r.Skip(); err != nil || !r.Is("", "b") || r.Depth() != 2 {
			t.Errorf("skip in %s: %v, at %s", doc, err, r.Local())
		}
		if k, err := r.Next(); k != xmlpull.Text || string(r.Text()) != "x" || err != nil {
			t.Errorf("after it in %s: %d %q, %v", doc, k, r.Text(), err)
		}
	}
	r := at(t, `<a><b>`, "b", xmlpull.Limits{})
	if err := r.Skip(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("skip of a truncated element: %v", err)
	}
}

func TestNotAtStart(t *testing.T) {
	r := at(t, `<a><b/>x</a>`, "b", xmlpull.Limits{})
	check := func(where string) {
		t.Helper()
		if _, err := r.Content(nil); err == nil {
			t.Errorf("content %s: no error", where)
		}
		if _, err := r.Element(nil, 100); err == nil {
			t.Errorf("element %s: no error", where)
		}
		if err := r.Skip(); err == nil {
			t.Errorf("skip %s: no error", where)
		}
	}
	r.Next()
	check("at an End")
	r.Next()
	check("at a Text")
	if k, err := r.Next(); k != xmlpull.End || err != nil {
		t.Errorf("then: %d, %v", k, err)
	}
}

func TestElement(t *testing.T) {
	const p, q = ` xmlns:p="u"`, ` xmlns:q="v"`
	for _, c := range []struct{ doc, want string }{
		{`<a><b/></a>`, `<b></b>`},
		{`<a` + p + q + `><b>1</b></a>`, `<b>1</b>`},
		{`<a xmlns="u"><b c="1"/></a>`, `<b xmlns="u" c="1"></b>`},
		{`<a xmlns="u"><b xmlns=""><c xmlns="u"/></b></a>`, `<b><c xmlns="u"></c></b>`},
		{`<a xmlns="u"><b><c xmlns=""><d xmlns="u"/></c><e/></b></a>`,
			`<b xmlns="u"><c xmlns=""><d xmlns="u"></d></c><e></e></b>`},
		{`<a` + p + q + `><p:b q:c="1"><p:d q:e="2"/></p:b></a>`,
			`<p:b xmlns:p="u" xmlns:q="v" q:c="1"><p:d q:e="2"></p:d></p:b>`},
		{`<a` + p + q + `><b><p:c/><p:c/><q:c><p:c/></q:c></b></a>`,
			`<b><p:c xmlns:p="u"></p:c><p:c xmlns:p="u"></p:c><q:c xmlns:q="v"><p:c xmlns:p="u"></p:c></q:c></b>`},
		{`<a` + p + `><p:b><p:c xmlns:p="w"/><p:d/></p:b></a>`,
			`<p:b xmlns:p="u"><p:c xmlns:p="w"></p:c><p:d></p:d></p:b>`},
		{`<a><b xml:lang="en"/></a>`, `<b xml:lang="en"></b>`},
		{`<a xmlns="u?&lt;&quot;"><b/></a>`, `<b xmlns="u?&lt;&quot;"></b>`},
		{"<a><b c='&lt;&quot;&#13;&#10;&#9;&amp;>'>\r\n&#13;]]&gt;<![CDATA[<&]]><!-- x --><?y?></b></a>",
			`<b c="&lt;&quot;&#13;&#10;&#9;&amp;&gt;">` + "\n" + `&#13;]]&gt;&lt;&amp;</b>`},
	} {
		r := at(t, c.doc, "b", xmlpull.Limits{})
		got, err := r.Element([]byte("+"), 1000)
		if err != nil || string(got) != "+"+c.want {
			t.Errorf("element in %s:\ngot  %s, %v\nwant +%s", c.doc, got, err, c.want)
		}
		if k, err := r.Next(); k != xmlpull.End || string(r.Local()) != "a" || err != nil {
			t.Errorf("after it in %s: %d %s, %v", c.doc, k, r.Local(), err)
		}
		// It reads back as the same tokens, and is written the same again.
		r = at(t, c.want, "b", xmlpull.Limits{})
		if again, err := r.Element(nil, 1000); err != nil || string(again) != c.want {
			t.Errorf("again:\ngot  %s, %v\nwant %s", again, err, c.want)
		}
		inner, err := dumpString(c.want)
		whole, _ := dumpString(c.doc)
		if err != nil || !strings.Contains(whole, inner) {
			t.Errorf("tokens of %s: %s, %v; not in %s", c.want, inner, err, whole)
		}
	}
}

func TestElementLimit(t *testing.T) {
	const doc, size = `<a><b>12345<c/></b>x</a>`, len(`<b>12345<c></c></b>`)
	r := at(t, doc, "b", xmlpull.Limits{})
	if got, err := r.Element(nil, size); len(got) != size || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for max := range size {
		r = at(t, doc, "b", xmlpull.Limits{})
		got, err := r.Element([]byte("+"), max)
		if !errors.Is(err, xmlpull.ErrLimit) || string(got) != "+" {
			t.Errorf("at most %d: %q, %v", max, got, err)
		}
		if k, err := r.Next(); k != xmlpull.Text || string(r.Text()) != "x" || err != nil {
			t.Errorf("then %d %q, %v", k, r.Text(), err)
		}
	}
	r = at(t, `<a><b>1`, "b", xmlpull.Limits{})
	if got, err := r.Element([]byte("+"), 100); !errors.Is(err, io.ErrUnexpectedEOF) || string(got) != "+" {
		t.Errorf("truncated: %q, %v", got, err)
	}
}

// Tag is Next without the text: it stops at the same tags, and ends with the same error. Content is the text directly in an element.
func TestTagsAndContents(t *testing.T) {
	docs := []string{manifest(20), "<a> \n<!-- c --> <b> ]]> </b></a>", "<a> \r\n <b>x</b >\t<?p?><c/> <![CDATA[ ]]> </a> \n"}
	for _, c := range wellFormed {
		docs = append(docs, c.doc)
	}
	for _, c := range malformed {
		docs = append(docs, c.doc)
	}
	for _, doc := range docs {
		for _, slow := range []bool{false, true} {
			open := func() *xmlpull.Reader {
				if slow {
					return xmlpull.NewReader(iotest.OneByteReader(strings.NewReader(doc)), xmlpull.Limits{})
				}
				return xmlpull.NewReader(strings.NewReader(doc), xmlpull.Limits{})
			}
			r, x, starts := open(), open(), 0
			for {
				k, err := r.Tag()
				want, wantErr := x.Next()
				for want == xmlpull.Text {
					want, wantErr = x.Next()
				}
				if k != want || fmt.Sprint(err) != fmt.Sprint(wantErr) || r.Offset() != x.Offset() || string(r.Local()) != string(x.Local()) {
					t.Fatalf("%q: %v of %s at %d, %v; want %v of %s at %d, %v", doc, k, r.Local(), r.Offset(), err, want, x.Local(), x.Offset(), wantErr)
				}
				if err != nil {
					break
				}
				if k == xmlpull.Start {
					starts++
				}
			}
			for nth := range starts {
				r, x := open(), open()
				for left := nth + 1; left > 0; {
					if k, _ := r.Next(); k == xmlpull.Start {
						left--
					}
					x.Next()
				}
				text, err := r.Content(nil)
				var want []byte
				var wantErr error
				for depth := x.Depth(); wantErr == nil; {
					var k xmlpull.Kind
					if k, wantErr = x.Next(); k == xmlpull.Text && x.Depth() == depth {
						want = append(want, x.Text()...)
					} else if k == xmlpull.End && x.Depth() == depth {
						break
					}
				}
				if fmt.Sprint(err) != fmt.Sprint(wantErr) || string(text) != string(want) || err == nil && r.Offset() != x.Offset() {
					t.Fatalf("element %d of %q: %q to %d, %v; want %q to %d, %v", nth, doc, text, r.Offset(), err, want, x.Offset(), wantErr)
				}
			}
		}
	}
}
