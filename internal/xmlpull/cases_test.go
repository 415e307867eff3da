package xmlpull_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/parleyweb/parley/internal/xmlpull"
)

// wellFormed are documents that are read, with their tokens as dump writes them.
var wellFormed = []struct {
	name, doc, want string
}{
	{"least", `<a/>`, `<a></a>`},
	{"white space after", "<a></a>\n\t ", `<a></a>`},
	{"white space in tags", "<a\n b = '1'\t></a\r\n>", `<a b="1"></a>`},
	{"declaration", `<?xml version="1.0"?><a/>`, `<a></a>`},
	{"full declaration", "<?xml\tversion = '1.0'\nencoding='utf-8' standalone='no' ?>\n<a/>", `<a></a>`},
	{"ascii declared", `<?xml version="1.0" encoding="us-ascii"?><a>x</a>`, `<a>"x"</a>`},
	{"byte order mark", "\uFEFF<a>\uFEFF</a>", `<a>"\ufeff"</a>`},
	{"byte order mark and declaration", "\uFEFF<?xml version='1.0' encoding='UTF-8'?><a/>", `<a></a>`},
	{"instructions", `<?xml-stylesheet href="a > b"?><a><?php echo ?<> ??></a><?x?>`, `<a></a>`},
	{"comments", `<!----><a>1<!-- - <b> & ]]> -->7</a><!-- - - -->`, `<a>"17"</a>`},
	{"cdata", `<a>1<![CDATA[<b>&amp;]]]]>2<![CDATA[]]><![CDATA[>]]></a>`, `<a>"1<b>&amp;]]2>"</a>`},
	{"brackets", `<a>]] ]> ]]&gt; ]]<!---->></a>`, `<a>"]] ]> ]]> ]]>"</a>`},
	{"entities", `<a b="&lt;&gt;&amp;&quot;&apos;">&lt;&gt;&amp;&quot;&apos;</a>`, `<a b="<>&\"'">"<>&\"'"</a>`},
	{"references", `<a>&#65;&#x42;&#x00000043;&#xe9;&#x20AC;&#x10FFFF;&#9;&#10;&#13;</a>`, `<a>"ABCé€` + `\U0010ffff\t\n\r"</a>`},
	{"lines' ends", "<a>1\r\n2\r3\n4\r\r\n5\r</a>", `<a>"1\n2\n3\n4\n\n5\n"</a>`},
	{"lines' ends in cdata", "<a><![CDATA[1\r\n2\r]]>\n</a>", `<a>"1\n2\n\n"</a>`},
	{"value normalised", "<a b='1\r\n2\r3\n4\t5&#10;6&#13;7&#9;8 '/>", `<a b="1 2 3 4 5\n6\r7\t8 "></a>`},
	{"greater in a value", `<a b=">" c='/>' d='"'>></a>`, `<a b=">" c="/>" d="\"">">"</a>`},
	{"default namespace", `<a xmlns="u" b="1"><b/><c xmlns=""><d/></c><e xmlns="v"/></a>`,
		`<{u}a b="1"><{u}b></{u}b><c><d></d></c><{v}e></{v}e></{u}a>`},
	{"prefixes", `<p:a xmlns:p="u" p:b="1" b="2"><p:c xmlns:p="v" p:b="3"/><p:d/></p:a>`,
		`<{u}a {u}b="1" b="2"><{v}c {v}b="3"></{v}c><{u}d></{u}d></{u}a>`},
	{"declared after use", `<p:a p:b="1" xmlns:p="u"/>`, `<{u}a {u}b="1"></{u}a>`},
	{"namespace with a reference", `<a xmlns="u?a&amp;b"/>`, `<{u?a&b}a></{u?a&b}a>`},
	{"prefix xml", `<a xml:lang="en"><b xmlns:xml="http://www.w3.org/XML/1998/namespace" xml:base="u"/></a>`,
		`<a {http://www.w3.org/XML/1998/namespace}lang="en"><b {http://www.w3.org/XML/1998/namespace}base="u"></b></a>`},
	{"same local name, other namespaces", `<a xmlns:p="u" xmlns:q="v" p:b="1" q:b="2" b="3"/>`,
		`<a {u}b="1" {v}b="2" b="3"></a>`},
	{"default namespace is not an attribute's", `<a xmlns="u" xmlns:p="u" p:b="1" b="2"/>`,
		`<{u}a {u}b="1" b="2"></{u}a>`},
	{"names", `<_a.b-1><élan/><中文/><a·b/></_a.b-1>`, `<_a.b-1><élan></élan><中文></中文><a·b></a·b></_a.b-1>`},
	{"name xmlish", `<xmla xmlb="1"><?xmlc?></xmla>`, `<xmla xmlb="1"></xmla>`},
	{"beyond the plane", "<a b='\U0001F600'>\U0001F600\u0085\u2028\uFFFD</a>", `<a b="😀">"😀\u0085\u2028�"</a>`},
	{"delete", "<a>\x7f</a>", `<a>"\x7f"</a>`},
}

// malformed are documents that are refused, with a part of the message.
var malformed = []struct {
	name, doc, msg string
	own            bool // xmllint takes it: it reads more than we, and stops at a NUL
}{
	{name: "empty", doc: "", msg: "document ends"},
	{name: "white space", doc: " \n ", msg: "document ends"},
	{name: "declaration only", doc: `<?xml version="1.0"?>`, msg: "document ends"},
	{name: "comment only", doc: `<!-- a -->`, msg: "document ends"},
	{name: "text only", doc: `a`, msg: "outside the root"},
	{name: "two roots", doc: `<a/><b/>`, msg: "second root"},
	{name: "junk before", doc: `a<b/>`, msg: "outside the root"},
	{name: "junk after", doc: `<b/>a`, msg: "outside the root"},
	{name: "reference after", doc: `<b/>&#32;`, msg: "outside the root"},
	{name: "cdata before", doc: `<![CDATA[]]><b/>`, msg: "outside the root"},
	{name: "cdata after", doc: `<b/><![CDATA[]]>`, msg: "outside the root"},
	{name: "end first", doc: `</a>`, msg: "without an element"},
	{name: "end after", doc: `<a/></a>`, msg: "without an element"},
	{name: "mismatch", doc: `<a></b>`, msg: "does not match"},
	{name: "mismatch by length", doc: `<a></ab>`, msg: "does not match"},
	{name: "mismatch by case", doc: `<a></A>`, msg: "does not match"},
	{name: "mismatch by prefix", doc: `<p:a xmlns:p="u" xmlns:q="u"></q:a>`, msg: "does not match"},
	{name: "crossed", doc: `<a><b></a></b>`, msg: "does not match"},
	{name: "end with an attribute", doc: `<a></a b="1">`, msg: "end tag"},
	{name: "end with blank first", doc: `<a></ a>`, msg: "bad element name"},
	{name: "end without a name", doc: `<a></>`, msg: "bad element name"},

	{name: "doctype", doc: `<!DOCTYPE a><a/>`, msg: "DOCTYPE", own: true},
	{name: "entity bomb", doc: `<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><a>&c;</a>`, msg: "DOCTYPE", own: true},
	{name: "external entity", doc: `<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>`, msg: "DOCTYPE", own: true},
	{name: "late doctype", doc: `<a/><!DOCTYPE a>`, msg: "DOCTYPE"},
	{name: "unknown section", doc: `<a><!FOO></a>`, msg: "after <!"},
	{name: "lower case cdata", doc: `<a><![cdata[]]></a>`, msg: "after <!"},

	{name: "late declaration", doc: ` <?xml version="1.0"?><a/>`, msg: "XML declaration"},
	{name: "second declaration", doc: `<?xml version="1.0"?><?xml version="1.0"?><a/>`, msg: "XML declaration"},
	{name: "inner declaration", doc: `<a><?xml version="1.0"?></a>`, msg: "XML declaration"},
	{name: "empty declaration", doc: `<?xml?><a/>`, msg: "XML declaration"},
	{name: "no version", doc: `<?xml encoding="UTF-8"?><a/>`, msg: "XML declaration"},
	{name: "declaration out of order", doc: `<?xml version="1.0" standalone="yes" encoding="UTF-8"?><a/>`, msg: "XML declaration"},
	{name: "declaration run together", doc: `<?xml version="1.0"encoding="UTF-8"?><a/>`, msg: "XML declaration"},
	{name: "declaration unquoted", doc: `<?xml version=1.0?><a/>`, msg: "XML declaration"},
	{name: "declaration ends wrongly", doc: `<?xml version="1.0">?><a/>`, msg: "XML declaration"},
	{name: "standalone", doc: `<?xml version="1.0" standalone="maybe"?><a/>`, msg: "XML declaration"},
	{name: "upper case declaration", doc: `<?XML version="1.0"?><a/>`, msg: "XML declaration"},
	{name: "version", doc: `<?xml version="1.1"?><a/>`, msg: "version", own: true},
	{name: "latin 1", doc: `<?xml version="1.0" encoding="ISO-8859-1"?><a/>`, msg: "ISO-8859-1", own: true},
	{name: "utf-16 declared", doc: `<?xml version="1.0" encoding="UTF-16"?><a/>`, msg: "UTF-16"},
	{name: "beyond declared ascii", doc: `<?xml version="1.0" encoding="US-ASCII"?><a>é</a>`, msg: "US-ASCII"},
	{name: "name beyond declared ascii", doc: `<?xml version="1.0" encoding="US-ASCII"?><é/>`, msg: "US-ASCII"},
	{name: "long s in the encoding", doc: `<?xml version="1.0" encoding="uſ-ascii"?><a/>`, msg: "XML declaration"},
	{name: "utf-16 big end", doc: "\xFE\xFF\x00<\x00a\x00/\x00>", msg: "UTF-16", own: true},
	{name: "utf-16 little end", doc: "\xFF\xFE<\x00a\x00/\x00>\x00", msg: "UTF-16", own: true},
	{name: "utf-16 unmarked", doc: "<\x00?\x00x\x00m\x00l\x00", msg: "UTF-16"},

	{name: "entity", doc: `<a>&nbsp;</a>`, msg: "reference"},
	{name: "entity in a value", doc: `<a b="&nbsp;"/>`, msg: "reference"},
	{name: "upper case entity", doc: `<a>&AMP;</a>`, msg: "reference"},
	{name: "bare ampersand", doc: `<a>a & b</a>`, msg: "reference"},
	{name: "ampersand last", doc: `<a>&</a>`, msg: "reference"},
	{name: "no semicolon", doc: `<a>&amp</a>`, msg: "reference"},
	{name: "empty reference", doc: `<a>&;</a>`, msg: "reference"},
	{name: "empty number", doc: `<a>&#;</a>`, msg: "reference"},
	{name: "empty hex", doc: `<a>&#x;</a>`, msg: "reference"},
	{name: "upper case x", doc: `<a>&#X41;</a>`, msg: "reference"},
	{name: "hex digits in decimal", doc: `<a>&#4A;</a>`, msg: "reference"},
	{name: "signed", doc: `<a>&#+65;</a>`, msg: "reference"},
	{name: "reference to nul", doc: `<a>&#0;</a>`, msg: "reference"},
	{name: "reference to a control", doc: `<a>&#x1F;</a>`, msg: "reference"},
	{name: "reference to a surrogate", doc: `<a>&#xD800;</a>`, msg: "reference"},
	{name: "reference to no character", doc: `<a>&#xFFFE;</a>`, msg: "reference"},
	{name: "reference too high", doc: `<a>&#x110000;</a>`, msg: "reference"},
	{name: "reference wraps around", doc: `<a>&#x100000041;</a>`, msg: "reference"},

	{name: "nul", doc: "<a>\x00</a>", msg: "control"},
	{name: "control", doc: "<a>12345678\x0B12345678</a>", msg: "control"},
	{name: "control in a value", doc: "<a b='\x01'/>", msg: "control"},
	{name: "control in a comment", doc: "<a><!--\x01--></a>", msg: "control"},
	{name: "control in cdata", doc: "<a><![CDATA[\x01]]></a>", msg: "control"},
	{name: "control in an instruction", doc: "<a><?b \x01?></a>", msg: "control"},
	{name: "control outside", doc: "<a/>\x00", msg: "outside", own: true},
	{name: "invalid utf-8", doc: "<a>\xFF</a>", msg: "UTF-8"},
	{name: "latin 1 bytes", doc: "<a>caf\xE9 au lait</a>", msg: "UTF-8"},
	{name: "overlong", doc: "<a>\xC0\xAF</a>", msg: "UTF-8"},
	{name: "surrogate", doc: "<a>\xED\xA0\x80</a>", msg: "UTF-8"},
	{name: "cut short", doc: "<a>\xE2\x82</a>", msg: "UTF-8"},
	{name: "too high", doc: "<a>\xF4\x90\x80\x80</a>", msg: "UTF-8"},
	{name: "invalid utf-8 in a value", doc: "<a b='\xFF'/>", msg: "UTF-8"},
	{name: "invalid utf-8 in a comment", doc: "<a><!--\xFF--></a>", msg: "UTF-8"},
	{name: "invalid utf-8 in a name", doc: "<a\xFF/>", msg: "bad"},
	{name: "not a character", doc: "<a>\uFFFE</a>", msg: "not a character"},
	{name: "not a character in a value", doc: "<a b='x\uFFFF'/>", msg: "not a character"},
	{name: "second byte order mark", doc: "\uFEFF\uFEFF<a/>", msg: "outside the root"},

	{name: "dashes in a comment", doc: `<a><!-- a -- b --></a>`, msg: "--"},
	{name: "dash before the comment's end", doc: `<a><!-- a ---></a>`, msg: "--"},
	{name: "comment that opens and closes at once", doc: `<a><!--></a>`, msg: "document ends"},
	{name: "cdata's end in text", doc: `<a>]]></a>`, msg: "]]>"},
	{name: "instruction without a name", doc: `<a><? b?></a>`, msg: "instruction"},
	{name: "instruction named by a number", doc: `<a><?1?></a>`, msg: "instruction"},
	{name: "question mark in an instruction's name", doc: `<a><?b?c?></a>`, msg: "instruction"},
	{name: "colon in an instruction's name", doc: `<a><?b:c?></a>`, msg: "instruction"},

	{name: "blank first", doc: `< a/>`, msg: "bad element name"},
	{name: "name begins with a number", doc: `<1/>`, msg: "bad element name"},
	{name: "name begins with a dash", doc: `<-a/>`, msg: "bad element name"},
	{name: "name begins with a combining character", doc: "<\u0301a/>", msg: "bad element name"},
	{name: "name with a multiplication sign", doc: `<a×b/>`, msg: "bad"},
	{name: "no name", doc: `<>`, msg: "bad element name"},
	{name: "slash and blank", doc: `<a / >`, msg: "bad"},
	{name: "two slashes", doc: `<a//>`, msg: "bad"},
	{name: "less in a value", doc: `<a b="<"/>`, msg: "< in an attribute"},
	{name: "less in a tag", doc: `<a <b/>`, msg: "bad"},
	{name: "no value", doc: `<a b/>`, msg: "no ="},
	{name: "no quotes", doc: `<a b=1/>`, msg: "no quoted value"},
	{name: "other quote", doc: `<a b="1'/>`, msg: "document ends"},
	{name: "attributes run together", doc: `<a b="1"c="2"/>`, msg: "bad"},
	{name: "duplicate", doc: `<a b="1" b="1"/>`, msg: "duplicate"},
	{name: "duplicate by namespace", doc: `<a xmlns:p="u" xmlns:q="u" p:b="1" q:b="2"/>`, msg: "duplicate"},

	{name: "undeclared prefix", doc: `<p:a/>`, msg: "undeclared"},
	{name: "undeclared prefix of an attribute", doc: `<a p:b="1"/>`, msg: "undeclared"},
	{name: "prefix out of scope", doc: `<a><b xmlns:p="u"/><p:c/></a>`, msg: "undeclared"},
	{name: "prefix declared empty", doc: `<a xmlns:p=""/>`, msg: "empty namespace"},
	{name: "declared twice", doc: `<a xmlns:p="u" xmlns:p="u"/>`, msg: "declared twice"},
	{name: "default declared twice", doc: `<a xmlns="u" xmlns="u"/>`, msg: "declared twice"},
	{name: "two colons", doc: `<a:b:c xmlns:a="u"/>`, msg: "bad"},
	{name: "colon first", doc: `<:a/>`, msg: "bad"},
	{name: "colon last", doc: `<a: xmlns:a="u"/>`, msg: "bad"},
	{name: "colon first in an attribute", doc: `<a :b="u"/>`, msg: "bad"},
	{name: "prefix xmlns used", doc: `<xmlns:a/>`, msg: "undeclared"},
	{name: "prefix xmlns declared", doc: `<a xmlns:xmlns="u"/>`, msg: "xmlns"},
	{name: "prefix xml declared otherwise", doc: `<a xmlns:xml="u"/>`, msg: "prefix xml"},
	{name: "namespace of xml", doc: `<a xmlns:p="http://www.w3.org/XML/1998/namespace"/>`, msg: "prefix xml"},
	{name: "namespace of xml as default", doc: `<a xmlns="http://www.w3.org/XML/1998/namespace"/>`, msg: "prefix xml"},
	{name: "namespace of xmlns", doc: `<a xmlns:p="http://www.w3.org/2000/xmlns/"/>`, msg: "xmlns"},
}

// dump reads r to its end and writes its tokens on one line, neighbouring
// pieces of text as one.
func dump(r *xmlpull.Reader) (string, error) {
	return dumpValues(r, func(value string) string { return value })
}

// dumpValues is dump with attribute values and namespaces made over by change.
func dumpValues(r *xmlpull.Reader, change func(string) string) (string, error) {
	var out, text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			fmt.Fprintf(&out, "%q", text.String())
			text.Reset()
		}
	}
	named := func(space, local []byte) string {
		if len(space) > 0 {
			return "{" + change(string(space)) + "}" + string(local)
		}
		return string(local)
	}
	for {
		k, err := r.Next()
		if err != nil {
			flush()
			if err == io.EOF {
				err = nil
			}
			return out.String(), err
		}
		switch k {
		case xmlpull.Text:
			text.Write(r.Text())
		case xmlpull.Start:
			flush()
			out.WriteString("<" + named(r.Space(), r.Local()))
			for i := range r.Attrs() {
				space, local, value := r.AttrAt(i)
				fmt.Fprintf(&out, " %s=%q", named(space, local), change(string(value)))
			}
			out.WriteString(">")
		case xmlpull.End:
			flush()
			out.WriteString("</" + named(r.Space(), r.Local()) + ">")
		}
	}
}

func dumpString(doc string) (string, error) {
	return dump(xmlpull.NewReader(strings.NewReader(doc), xmlpull.Limits{}))
}

// manifest is a document like a site's robots.rdf, with n items.
func manifest(n int) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<rdf:RDF xmlns="http://purl.org/rss/1.0/" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" xmlns:p="urn:parley:1#">
<channel rdf:about="http://www.example.org/robots.rdf">
<title>www.example.org</title><link>http://www.example.org/</link><description>What the site offers</description>
</channel>
`)
	for i := range n {
		fmt.Fprintf(&b, `<item rdf:about="http://www.example.org/std/primitive.%d/method.trim_start.html">
<link>http://www.example.org/std/primitive.%d/method.trim_start.html</link>
<title>A &amp; B &#8211; page %d</title>
<dcterms:modified>2026-03-0%dT10:20:30.125Z</dcterms:modified>
<dc:format>text/html</dc:format>
<dcterms:extent>%d</dcterms:extent>
<p:digest>sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:</p:digest>
</item>
`, i, i, i, i%9+1, i*37)
	}
	b.WriteString("</rdf:RDF>\n")
	return b.String()
}
