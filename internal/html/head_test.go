package html_test

import (
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/html"
)

const noindex = `<meta name="robots" content="noindex">`

// A head is the metadata that a page has before its body.
type head struct {
	title   string
	noIndex bool
}

func TestHead(t *testing.T) {
	long := strings.Repeat("ä", html.MaxTitle)
	for page, want := range map[string]head{
		"":             {},
		"just text":    {},
		"\x00\xff<<<>": {},
		"<!DOCTYPE html><html><head><title>A page</title>" + noindex + "</head><body>": {title: "A page", noIndex: true},
		"<title>\n Fish &amp;\r\n\tchips&nbsp;&#x1; &eacute; </title>":                 {title: "Fish & chips é"},
		"<title>a <b>c</b></title><title>second</title>":                               {title: "a <b>c</b>"},
		"<title></title><title>second</title>":                                         {},
		"<title>no end":                                                                {title: "no end"},
		"<TITLE>x</Title><BODY><title>y</title>":                                       {title: "x"},
		"<title>caf\xe9</title>" + noindex:                                             {title: "café", noIndex: true},
		"<title>" + long + "</title>":                                                  {title: long[:html.MaxTitle]},
		"<title>x" + long + "</title>":                                                 {title: "x" + long[:html.MaxTitle-2]},
		"<svg><title>drawing</title></svg>":                                            {},
		"<p>text<svg><title>drawing</title></svg>" + noindex:                           {noIndex: true},
		"<body>" + noindex:                                                             {},
		"<frameset>" + noindex:                                                         {},
		"</head>" + noindex:                                                            {noIndex: true},
		"<!-- " + noindex + " -->":                                                     {},
		"<script>'" + noindex + "'</script>":                                           {},
		"<title>" + noindex + "</title>":                                               {title: noindex},
		"<script>var a = '<body>'</script>" + noindex:                                  {noIndex: true},
		"<?xml version='1.0'?><script src='x'/><title/>" + noindex:                     {noIndex: true},
		`<meta name="robots" content="noindex"/>`:                                      {noIndex: true},
		`<META CONTENT=" index,NoIndex , follow" NAME=" Robots ">`:                     {noIndex: true},
		`<meta name=parley content=none>`:                                              {noIndex: true},
		`<meta name=robots content="&#110;oindex">`:                                    {noIndex: true},
		`<meta name=robots content="nofollow noindex">`:                                {noIndex: true},
		`<meta name=robots content=index name=x content=noindex>`:                      {},
		`<meta name=robots content=noindex><meta name=robots content=all>`:             {noIndex: true},
		`<meta name=robots content="index, follow">`:                                   {},
		`<meta name=robots content="noindexes, nonesuch">`:                             {},
		`<meta name=robots><meta content=noindex><meta>`:                               {},
		`<meta name=otherbot content=noindex>`:                                         {},
		`<meta name=description content="noindex">`:                                    {},
		utf16(noindex+"<title>é😀</title>", true):                                       {title: "é😀", noIndex: true},
		utf16(noindex+"<title>x</title>", false):                                       {title: "x", noIndex: true},
		strings.Repeat(" ", 1<<20) + noindex:                                           {noIndex: true},
		"<link href=" + strings.Repeat("x", 1<<20) + ">" + noindex:                     {noIndex: true},
		"<!--" + strings.Repeat("x", 1<<20):                                            {},
		utf16("<!--"+strings.Repeat("ä中", 1<<18), true):                                {},
	} {
		for _, o := range []html.Options{{}, {Links: true, Text: true}} {
			if p := html.Read(at, []byte(page), o); p.Title != want.title || p.NoIndex != want.noIndex {
				t.Errorf("%.100q (%d bytes): %q, %v, want %+v", page, len(page), p.Title, p.NoIndex, want)
			}
		}
	}
}

func utf16(s string, little bool) string {
	var b strings.Builder
	for _, r := range "\uFEFF" + s {
		units := []rune{r}
		if r > 0xffff {
			units = []rune{0xd800 + (r-0x10000)>>10, 0xdc00 + (r-0x10000)&0x3ff}
		}
		for _, u := range units {
			if little {
				b.Write([]byte{byte(u), byte(u >> 8)})
			} else {
				b.Write([]byte{byte(u >> 8), byte(u)})
			}
		}
	}
	return b.String()
}
