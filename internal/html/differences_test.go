package html_test

import (
	"fmt"
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
