package html_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/machine"
)

// Titles of Western pages are read, whatever names their charset, or nothing. What is UTF-8 is taken as that, and
// the title of a page that only says so is lost.
func TestTitlesInLatin1(t *testing.T) {
	const caf = "Caf\xe9 \x80 5 \x96 &eacute;t&eacute;"
	for _, c := range []struct{ charset, head, title, want string }{
		{"", "", caf, "Café € 5 – été"},
		{"ISO-8859-1", "", caf, "Café € 5 – été"},
		{"windows-1252", "<meta charset=koi8-r>", caf, "Café € 5 – été"}, // the header wins
		{"", "<meta charset=latin1>", caf, "Café € 5 – été"},
		{"", `<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=iso-8859-1">`, caf, "Café € 5 – été"},
		{"", `<meta charset = 'windows-1251' >`, caf, "Cafй Ђ 5 – été"},
		{"of no page", `<meta charset=windows-1251>`, caf, "Cafй Ђ 5 – été"},
		{"hz-gb-2312", "", caf, ""}, // no browser reads it
		{"utf-8", "", caf, ""},
		{"iso-8859-1", "", "Café", "Café"},
		{"", "", "Café", "Café"},
		{"euc-kr", "", "Café", "Café"}, // all of the page is UTF-8
		{"iso-8859-1", "", "a\x81b", "a\uFFFDb"},
	} {
		page := []byte("<html><head>" + c.head + "<title>" + c.title + "</title>")
		if got := html.Read("", page, html.Options{Charset: c.charset}).Title; got != c.want {
			t.Errorf("%+v: read as %q", c, got)
		}
		s := html.Scanner{Charset: c.charset}
		if s.Scan(page); s.Head.Title != c.want {
			t.Errorf("%+v: scanned as %q", c, s.Head.Title)
		}
	}
}

// Pages that iconv has encoded have their titles back, whether the response or the page names the encoding. Their main text stays as it
// is, byte by byte, since digests are made of it; decoded first, it is that of the same page in UTF-8.
func TestTitlesInOtherEncodings(t *testing.T) {
	iconv := machine.Tool(t, "iconv")
	const russian, japanese, chinese, korean = "Новости & погода «1/2»", "日本語のページ ソ表能 ｶﾅ", "中文网页 新闻", "한국어 페이지 뉴스"
	for label, title := range map[string]string{
		"windows-1251": russian, "koi8-r": "Новости & погода", "iso-8859-5": "Новости & погода", "windows-1253": "Ελληνικά νέα", "windows-1250": "Žluťoučký kůň",
		"iso-8859-2": "Žluťoučký kůň", "windows-1254": "Işık ağacı", "windows-1255": "חדשות היום", "windows-1256": "أخبار اليوم", "iso-8859-15": "1 € œuvre",
		"shift_jis": japanese, "euc-jp": japanese, "iso-2022-jp": "日本語のページ ソ表能", "gbk": chinese, "gb2312": chinese, "gb18030": chinese + " 𠀀",
		"big5": "繁體中文網頁 功能", "euc-kr": korean, "utf-16le": korean, "utf-16be": japanese, "utf-8": russian + korean,
	} {
		encode := func(page string) []byte {
			if strings.HasPrefix(label, "utf-16") {
				page = "\uFEFF" + page
			}
			cmd := exec.Command(iconv, "-f", "utf-8", "-t", label)
			cmd.Stdin = strings.NewReader(page)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v", label, err)
			}
			return out
		}
		write := func(head string) string {
			return "<html><head>" + head + "<title>" + strings.ReplaceAll(title, "&", "&amp;") + " &copy;</title><body><p>" + title + "</p>"
		}
		for charset, head := range map[string]string{
			label: "", strings.ToUpper(label): "<meta charset=utf-8>", "": "<meta charset=" + label + ">",
			" ": `<meta http-equiv="Content-Type" content="text/html; charset=` + label + `">`,
		} {
			page := encode(write(head))
			p := html.Read("", page, html.Options{Charset: charset, Text: true})
			if want := title + " ©"; p.Title != want {
				t.Errorf("%s, charset %q, %s: title %q, want %q", label, charset, head, p.Title, want)
			}
			if want := bytes.TrimPrefix(encode("x"+title), encode("x")); !strings.HasPrefix(label, "utf-16") && !strings.Contains(label, "2022") && !bytes.Equal(p.Text, want) {
				t.Errorf("%s, charset %q, %s: main text %q, want %q", label, charset, head, p.Text, want)
			}
			if got := html.Read("", html.Decode(page, "text/html; charset="+charset), html.Options{Text: true}).Text; string(got) != title {
				t.Errorf("%s, charset %q, %s: decoded main text %q, want %q", label, charset, head, got, title)
			}
		}
	}
	// Letters of one encoding that look like those of another.
	page := []byte("<meta charset=euc-kr><title>\xc3\xa3</title><p>\xb0\xa1")
	if got := html.Read("", page, html.Options{}).Title; got != "찾" {
		t.Errorf("a short Korean title is %q", got)
	}
}
