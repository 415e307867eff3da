package public

import (
	"path"
	"strings"
)

// Language returns the name and the language tag of a page that has one version for each language, as Apache's
// MultiViews expects them: "page.html" and "en" for page.html.en, "page.html" and "pt-br" for page.html.pt-br.utf8.
// The language is empty, and the name as it was, for every other file. The URL at which such a page is published is
// that of the file; which version the web server chooses for page.html depends on the reader.
//
// It knows languages that Apache's own configuration names, by the extensions that they have there: Polish is .po,
// since page.html.pl is a program, and page.html.in is a template.
func Language(name string) (page, tag string) {
	page = name
	ext := path.Ext(page)
	if ext == ".html" { // as most are
		return name, ""
	}
	if isCharset(ext) {
		page = page[:len(page)-len(ext)]
		ext = path.Ext(page)
	}
	page, tag = page[:len(page)-len(ext)], strings.ToLower(strings.TrimPrefix(ext, "."))
	short, region, regional := strings.Cut(tag, "-")
	switch {
	case len(short) != 2 || regional && len(region) != 2, !strings.Contains(languages, " "+short+" "):
		return name, ""
	}
	switch strings.ToLower(path.Ext(page)) {
	case ".html", ".htm", ".xhtml":
	default:
		return name, ""
	}
	switch tag {
	case "cz":
		tag = "cs"
	case "dk":
		tag = "da"
	case "po":
		tag = "pl"
	}
	return page, tag
}

const languages = " bg ca cs cy cz da de dk el en eo es et eu fa fi fr ga gl he hi hr hu hy is it ja ka kk ko lt lv mk nb nl nn no po pt ro ru sk sl sq sr sv th tr uk ur vi zh "

// isCharset reports whether an extension names a character encoding.
func isCharset(ext string) bool {
	ext = strings.ToLower(ext)
	for _, prefix := range []string{".utf", ".iso-", ".iso8859", ".euc-", ".koi8-", ".big5", ".gb2312", ".sjis", ".windows-", ".cp-"} {
		if strings.HasPrefix(ext, prefix) {
			return true
		}
	}
	return false
}
