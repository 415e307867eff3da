package html_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/machine"
)

// differences are the pages that html.Read reads on purpose otherwise than readTokens does if it is pure. No
// page of TestReadAsTokens is among them.
var differences = []struct{ page, pure, read, why string }{
	{"<template><meta http-equiv=refresh content='0;url=x'></template>", "links [https://example.org/docs/x]", "links []",
		"what is in a template is not on the page: other links in it were never read"},
	{"<link rel='next\u00a0x' href=y><link rel='next\u0001x' href=z>", "links [https://example.org/docs/y]", "links [https://example.org/docs/z]",
		"the words of rel end where a crawler ends them: at ASCII white space, control characters and commas"},
	{"<div hidden a=x a=y/>b</div>", "text b", "text ",
		"x/net takes the slash for the end of the tag, because it forgets the second of two attributes with one name"},
	{"<b\x00 hidden>x</b\uFFFD>y", "text y", "text ", "a NUL in the name of an element is not U+FFFD: no page has either"},
}

func TestDifferences(t *testing.T) {
	o := html.Options{Links: true, Text: true}
	for _, d := range differences {
		show := func(p html.Page) string {
			if strings.HasPrefix(d.read, "links") {
				return fmt.Sprint("links ", p.Links)
			}
			return "text " + string(p.Text)
		}
		pure, read := show(readTokens(at, []byte(d.page), o, true)), show(html.Read(at, []byte(d.page), o))
		if pure != d.pure || read != d.read {
			t.Errorf("%q: pure %q, read %q, want %q and %q: %s", d.page, pure, read, d.pure, d.read, d.why)
		}
	}
}

// sameAsTokens checks that html.Read reads all of a page as readTokens does.
func sameAsTokens(page []byte, pure bool) error {
	for _, o := range []html.Options{{Links: true, Text: true}, {Text: true}, {Links: true}, {}} {
		got, want := html.Read(at, page, o), readTokens(at, page, o, pure)
		if reflect.DeepEqual(got, want) {
			continue
		}
		if string(got.Text) != string(want.Text) {
			i := 0
			for i < min(len(got.Text), len(want.Text)) && got.Text[i] == want.Text[i] {
				i++
			}
			i = max(0, i-40)
			return fmt.Errorf("%+v: main text\n%.200q, want\n%.200q", o, got.Text[i:], want.Text[i:])
		}
		got.Text, want.Text = nil, nil
		return fmt.Errorf("%+v:\n%.2000q, want\n%.2000q", o, fmt.Sprint(got), fmt.Sprint(want))
	}
	return nil
}

// Sites store and publish digests of the main text: not a byte of it may change, and nothing else does. What
// is recorded are pages, and files that a reader must survive.
func TestReadAsTokens(t *testing.T) {
	check := func(kind string, n *int, name string, page []byte) bool {
		if *n++; testing.Short() && *n > 50 {
			return false
		}
		if err := sameAsTokens(page, true); err != nil {
			t.Errorf("%s: %s: %v", kind, name, err)
		}
		return true
	}
	total := 0
	for _, dir := range []string{"PARLEY_GIT_DOC", "PARLEY_APACHE_DOC"} {
		n := 0
		for name, page := range machine.Pages(t, os.Getenv(dir)) {
			if !check(dir, &n, name, page) {
				break
			}
		}
		t.Logf("%s: %d pages", dir, n)
		total += n
	}
	if os.Getenv("PARLEY_DATA") != "" {
		for _, corpus := range []string{"robots-top1m-2017", "feeds-gofeed", "feeds-w3c-feedvalidator", "rdfxml-w3c-rdf11", "resourcesync-resync",
			"sitemaps-robots-urls-crawler-commons"} {
			n := 0
			for name, page := range machine.Recorded(t, corpus) {
				if !check(corpus, &n, name, page) {
					break
				}
			}
			t.Logf("%s: %d files", corpus, n)
			total += n
		}
	}
	if total == 0 {
		machine.Lacks(t, "neither pages nor recorded files")
	}
}

// Nothing changes on broken pages either, whatever opens or closes where it should not.
func TestReadBrokenPagesAsTokens(t *testing.T) {
	parts := strings.Split(`<|>|"|'|<!--|-->|<script>|</script>|<title>|</title>|<title/>|<style>|<a href="x|<a href='y'>|=|/|&|&amp;|&#|&copy|&nGt;|<textarea>|<xmp>|`+
		`</xmp>|<plaintext>|<iframe src=i>|<base href=/z/>|<html hidden>|<html lang=de>|<head>|</head>|<body>|<frameset>|<template>|</template>|<noscript>|</noscript>|`+
		`<svg>|</svg>|<desc>|<foreignObject>|</desc>|<div hidden>|<div/>|<b role=navigation>|<b |<abcdefghijk hidden>|</abcdefghijk>| hidden| role=main|a=x|<table>|`+
		`<caption>|<tbody>|<tr>|<td>|<li>|<dd>|<p>|</p>|<br>|</br>|<hr>|<form>|</form>|<h1>|</h2>|<button>|<select>|<option>|<object>|<main>|<article>|<header>|<pre>|`+
		`<meta http-equiv=refresh content="1; URL='q'">|<meta http-equiv=content-language content=fr>|<meta name=robots content=noarchive>|<img alt='x y'>|`+
		"<link rel=canonical href=' '>|<link rel=next href=' x#y'>|\x00|\r|\xff|\u00e9|\u00a0|\u2003|<h\x11>", "|")
	seeds := [][]byte{[]byte("<html><head><title>t</title></head><body>x"), []byte("<p>x")}
	for i, dir := range []string{"PARLEY_GIT_DOC", "PARLEY_APACHE_DOC"} {
		for _, page := range machine.Pages(t, os.Getenv(dir)) {
			if seeds = append(seeds, page[:min(len(page), 8000)]); len(seeds) > 20*(i+1) {
				break
			}
		}
	}
	rounds := 6000
	if testing.Short() {
		rounds = 600
	}
	r := rand.New(rand.NewPCG(5, 6))
	for i := range rounds {
		page := broken(r, broken(r, bytes.Clone(seeds[r.IntN(len(seeds))]), parts), parts)
		if err := sameAsTokens(page, false); err != nil {
			t.Fatalf("round %d: %v\n%.10000q", i, err, page)
		}
	}
}
