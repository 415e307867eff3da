package protocol_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mmcdole/gofeed"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// hear runs a program on a file and returns its output; the program must not complain.
func hear(t *testing.T, program string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}

func goldenFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/golden-*.rdf")
	if err != nil || len(files) < len(goldens()) {
		t.Fatal(files, err)
	}
	return files
}

func TestXmllintAccepts(t *testing.T) {
	xmllint := machine.Tool(t, "xmllint")
	for _, file := range goldenFiles(t) {
		hear(t, xmllint, "--noout", file)
	}
}

// An RDF parser that knows nothing of Parley finds the intended triples (C18).
func TestRapperFindsTheTriples(t *testing.T) {
	rapper := machine.Tool(t, "rapper")
	for _, file := range goldenFiles(t) {
		hear(t, rapper, "-q", "-c", "-i", "rdfxml", file)
	}
	d := goldens()["site"]
	found := make(map[string]bool)
	for line := range strings.Lines(hear(t, rapper, "-q", "-i", "rdfxml", "-o", "ntriples", "testdata/golden-site.rdf")) {
		found[strings.TrimSpace(line)] = true
	}
	want := func(subject, predicate, object string) {
		t.Helper()
		if triple := fmt.Sprintf("<%s> <%s> %s .", subject, predicate, object); !found[triple] {
			t.Errorf("not found: %s", triple)
		}
	}
	const (
		rdf    = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
		rss    = "http://purl.org/rss/1.0/"
		dc     = "http://purl.org/dc/elements/1.1/"
		terms  = "http://purl.org/dc/terms/"
		parley = "urn:parley:1#"
	)
	lit := func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) }
	url := func(u string) string { return "<" + u + ">" }
	want(d.head.URL, rdf+"type", url(rss+"channel"))
	want(d.head.URL, rss+"link", lit(d.head.Base))
	want(d.head.URL, parley+"epoch", lit(d.head.Cursor.Epoch))
	want(d.head.URL, parley+"seq", lit(d.head.Cursor.Seq))
	want(d.head.URL, parley+"items", lit(d.head.Items))
	want(d.head.URL, parley+"complete", lit("true"))
	want(d.head.URL, parley+"stream", url(d.head.Stream))
	want(d.head.URL, parley+"changes", url(d.head.Changes))
	for _, former := range d.head.Replaces {
		want(d.head.URL, terms+"replaces", url(former))
	}
	for _, i := range d.items {
		want(i.URL, rdf+"type", url(rss+"item"))
		want(i.URL, rss+"link", lit(i.URL))
		if i.Length >= 0 {
			want(i.URL, terms+"extent", lit(i.Length))
		}
		if i.Type != "" {
			want(i.URL, dc+"format", lit(i.Type))
		}
		if !i.Digest.IsZero() {
			want(i.URL, parley+"digest", lit(i.Digest))
		}
		if !i.Text.IsZero() {
			want(i.URL, parley+"text", lit(i.Text))
		}
		if i.Language != "" {
			want(i.URL, dc+"language", lit(i.Language))
		}
		if i.Canonical != "" {
			want(i.URL, parley+"canonical", url(i.Canonical))
		}
		if share, known := i.Importance.Share(); known {
			want(i.URL, parley+"importance", lit(share))
		}
		if !i.Modified.IsZero() {
			written := lit(protocol.Date{Time: i.Modified, Span: i.Span})
			want(i.URL, dc+"date", written)
			want(i.URL, terms+"modified", written)
		}
	}
	for _, g := range d.gone {
		want(g.URL, rdf+"type", url(parley+"Tombstone"))
		if g.To != "" {
			want(g.URL, terms+"isReplacedBy", url(g.To))
		}
	}
	listed := 0
	for triple := range found {
		if strings.Contains(triple, " <"+rdf+"_") {
			listed++
		}
	}
	if listed != len(d.items) {
		t.Errorf("rdf:Seq lists %d, not %d", listed, len(d.items))
	}
}

// It also finds what an index says of its parts, in their order.
func TestRapperFindsTheParts(t *testing.T) {
	rapper := machine.Tool(t, "rapper")
	objects := map[string][]string{} // by subject and predicate
	for line := range strings.Lines(hear(t, rapper, "-q", "-i", "rdfxml", "-o", "ntriples", "testdata/golden-index.rdf")) {
		subject, rest, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), " ."), " ")
		predicate, object, _ := strings.Cut(rest, " ")
		objects[subject+" "+predicate] = append(objects[subject+" "+predicate], object)
	}
	the := func(subject, predicate string) string {
		t.Helper()
		found := objects[subject+" <"+predicate+">"]
		if len(found) != 1 {
			t.Fatalf("%s %s: %q", subject, predicate, found)
		}
		return found[0]
	}
	const rdf, parley = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "urn:parley:1#"
	d := smallParts().index()
	w := d.head.Whole
	index := "<" + d.head.URL + ">"
	whole := the(index, parley+"whole")
	for subject, want := range map[string]map[string]any{
		index: {"complete": "false", "items": 1},
		whole: {"epoch": w.Cursor.Epoch, "seq": w.Cursor.Seq, "items": w.Items},
	} {
		for name, value := range want {
			if got := the(subject, parley+name); got != fmt.Sprintf("%q", fmt.Sprint(value)) {
				t.Errorf("%s %s is %s, not %v", subject, name, got, value)
			}
		}
	}
	for name, parts := range map[string][]protocol.Part{"parts": w.Parts, "changed": w.Changed} {
		list := the(whole, parley+name)
		for i, p := range parts {
			part := the(list, fmt.Sprintf("%s_%d", rdf, i+1))
			want := fmt.Sprintf(`<%s> <%sPart> "%d" "%d" "%d" "%s"`, p.URL, parley, p.Seq, p.Items, p.Length, p.Digest)
			if got := strings.Join([]string{part, the(part, rdf+"type"), the(part, parley+"seq"), the(part, parley+"items"),
				the(part, "http://purl.org/dc/terms/extent"), the(part, parley+"digest")}, " "); got != want {
				t.Errorf("part %d of %s is\n%s, not\n%s", i+1, name, got, want)
			}
			if name == "changed" && the(part, parley+"after") != fmt.Sprintf("%q", fmt.Sprint(p.After)) {
				t.Errorf("part %d is after %s, not %d", i+1, the(part, parley+"after"), p.After)
			}
		}
		if extra := objects[fmt.Sprintf("%s <%s_%d>", list, rdf, len(parts)+1)]; extra != nil {
			t.Errorf("more of %s: %s", name, extra)
		}
	}
}

// A feed reader shows of an index the newest pages, which it holds itself, and none of its parts.
func TestFeedReaderShowsNoPart(t *testing.T) {
	d := smallParts().index()
	feed, err := gofeed.NewParser().Parse(bytes.NewReader(d.write(t)))
	if err != nil || len(feed.Items) != 1 || feed.Items[0].Link != d.items[0].URL || feed.Link != d.head.Base {
		t.Error(feed, err)
	}
}

// A feed reader shows the pages with their titles and dates, and never a deleted one.
func TestFeedReaderShowsNoTombstone(t *testing.T) {
	d := goldens()["site"]
	feed := must.Get(gofeed.NewParser().Parse(bytes.NewReader(d.write(t))))
	if feed.FeedType != "rss" || feed.Title != d.head.Title || feed.Link != d.head.Base || feed.Description != d.head.Description {
		t.Errorf("%s feed %q at %s: %q", feed.FeedType, feed.Title, feed.Link, feed.Description)
	}
	if len(feed.Items) != len(d.items) {
		t.Fatalf("%d items, not %d", len(feed.Items), len(d.items))
	}
	for i, got := range feed.Items {
		want := d.items[i]
		if want.Title == "" {
			want.Title = strings.TrimPrefix(want.URL, "https://www.example.com")
		}
		if got.Link != want.URL || got.Title != want.Title {
			t.Errorf("item %d: %q at %s, want %q at %s", i, got.Title, got.Link, want.Title, want.URL)
		}
		switch {
		case want.Modified.IsZero():
			if got.PublishedParsed != nil {
				t.Errorf("%s: published %v", want.URL, got.PublishedParsed)
			}
		case want.Span < 24*time.Hour && (got.PublishedParsed == nil || !got.PublishedParsed.Equal(want.Modified)):
			t.Errorf("%s: published %v, want %v", want.URL, got.Published, want.Modified)
		}
	}
}
