package html_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/html"
)

const noindex = `<meta name="robots" content="noindex">`

func TestReadHead(t *testing.T) {
	long := strings.Repeat("ä", html.MaxTitle)
	for page, want := range map[string]html.Head{
		"":             {},
		"just text":    {},
		"\x00\xff<<<>": {},
		"<!DOCTYPE html><html><head><title>A page</title>" + noindex + "</head><body>": {Title: "A page", NoIndex: true},
		"<title>\n Fish &amp;\r\n\tchips&nbsp;&#x1; &eacute; </title>":                 {Title: "Fish & chips é"},
		"<title>a <b>c</b></title><title>second</title>":                               {Title: "a <b>c</b>"},
		"<title></title><title>second</title>":                                         {},
		"<title>no end":                                                                {Title: "no end"},
		"<TITLE>x</Title><BODY><title>y</title>":                                       {Title: "x"},
		"<title>caf\xe9</title>" + noindex:                                             {NoIndex: true},
		"<title>" + long + "</title>":                                                  {Title: long[:html.MaxTitle]},
		"<title>x" + long + "</title>":                                                 {Title: "x" + long[:html.MaxTitle-2]},
		"<svg><title>drawing</title></svg>":                                            {},
		"<p>text<svg><title>drawing</title></svg>" + noindex:                           {NoIndex: true},
		"<body>" + noindex:                                                             {},
		"<frameset>" + noindex:                                                         {},
		"</head>" + noindex:                                                            {NoIndex: true},
		"<!-- " + noindex + " -->":                                                     {},
		"<script>'" + noindex + "'</script>":                                           {},
		"<title>" + noindex + "</title>":                                               {Title: noindex},
		"<script>var a = '<body>'</script>" + noindex:                                  {NoIndex: true},
		"<?xml version='1.0'?><script src='x'/><title/>" + noindex:                     {NoIndex: true},
		`<meta name="robots" content="noindex"/>`:                                      {NoIndex: true},
		`<META CONTENT=" index,NoIndex , follow" NAME=" Robots ">`:                     {NoIndex: true},
		`<meta name=parley content=none>`:                                              {NoIndex: true},
		`<meta name=robots content="&#110;oindex">`:                                    {NoIndex: true},
		`<meta name=robots content="nofollow noindex">`:                                {NoIndex: true},
		`<meta name=robots content=index name=x content=noindex>`:                      {},
		`<meta name=robots content=noindex><meta name=robots content=all>`:             {NoIndex: true},
		`<meta name=robots content="index, follow">`:                                   {},
		`<meta name=robots content="noindexes, nonesuch">`:                             {},
		`<meta name=robots><meta content=noindex><meta>`:                               {},
		`<meta name=otherbot content=noindex>`:                                         {},
		`<meta name=description content="noindex">`:                                    {},
		utf16(noindex+"<title>é😀</title>", true):                                       {Title: "é😀", NoIndex: true},
		utf16(noindex+"<title>x</title>", false):                                       {Title: "x", NoIndex: true},
		strings.Repeat(" ", html.MaxBytes-len(noindex)) + noindex:                      {NoIndex: true},
		strings.Repeat(" ", html.MaxBytes) + noindex:                                   {},
		"<link href=" + strings.Repeat("x", html.MaxBytes-100) + ">" + noindex:         {NoIndex: true},
		"<!--" + strings.Repeat("x", 2*html.MaxBytes):                                  {},
		utf16("<!--"+strings.Repeat("ä中", html.MaxBytes), true):                        {},
	} {
		got, err := html.ReadHead(iotest.HalfReader(strings.NewReader(page)))
		if err != nil || got != want {
			t.Errorf("%.100q (%d bytes): %+v, %v, want %+v", page, len(page), got, err, want)
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

func TestReadHeadFails(t *testing.T) {
	broken := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader("<title>x</title>"), iotest.ErrReader(broken))
	if h, err := html.ReadHead(r); !errors.Is(err, broken) || h != (html.Head{}) {
		t.Errorf("%+v, %v", h, err)
	}
}

func FuzzReadHead(f *testing.F) {
	f.Add("<!DOCTYPE html><html><head><title>A &amp; b</title>" + noindex + "</head><body>")
	f.Add("<script/><title/><svg><title>x<meta name=parley content='a,none'")
	f.Add("<title>\xff\xfe\x00</title><!-- --!><![CDATA[<meta]]><plaintext><?x?></")
	f.Add("\xff\xfe<\x00m\x00")
	f.Add("\xfe\xff\xd8\x00")
	f.Fuzz(func(t *testing.T, page string) {
		h, err := html.ReadHead(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Title) > html.MaxTitle || !utf8.ValidString(h.Title) || strings.ContainsFunc(h.Title, unicode.IsControl) ||
			strings.Join(strings.Fields(h.Title), " ") != h.Title {
			t.Fatalf("title %q", h.Title)
		}
		if strings.HasPrefix(page, "\xff\xfe") || strings.HasPrefix(page, "\xfe\xff") {
			return
		}
		if before, err := html.ReadHead(strings.NewReader(noindex + page)); err != nil || !before.NoIndex {
			t.Fatalf("noindex before anything else: %+v, %v", before, err)
		}
	})
}
