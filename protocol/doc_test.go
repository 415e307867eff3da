package protocol_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// The worked example of the package documentation, in Go.

const workedBase = "https://www.example.com/"

func workedAt(seq uint64) protocol.Cursor {
	return protocol.Cursor{Epoch: "k3v7q2m4x5n6p2aa", Seq: seq}
}

func worked() document {
	home, news := []byte("<h1>Home</h1>\n"), []byte("<h1>News</h1>\n")
	return document{
		head: protocol.Manifest{
			URL: workedBase + "robots.rdf", Base: workedBase, Title: "Example & Co",
			Modified: date("2026-11-21T05:00:09.250Z"), Cursor: workedAt(2), Complete: true, Items: 2,
			Stream: "wss://www.example.com/parley/stream", Changes: workedBase + "parley/changes", Discovery: workedBase + protocol.DiscoveryPath,
		},
		items: []protocol.Item{
			{URL: workedBase, Title: "Home", Modified: date("2026-11-20T01:02:03Z"), Length: int64(len(home)), Type: "text/html", Digest: protocol.Sum(home),
				Language: "en", Text: protocol.Sum([]byte("Home")), Importance: 100},
			{URL: workedBase + "news/caf%C3%A9.html", Modified: date("2026-11-21T05:00:00Z"), Length: int64(len(news)), Type: "text/html", Digest: protocol.Sum(news),
				Language: "en", Text: protocol.Sum([]byte("News"))},
		},
		gone: []protocol.Tombstone{
			{URL: workedBase + "old.html", At: date("2026-11-21T05:00:09.250Z"), Seq: 2, Prev: protocol.Sum([]byte("<h1>Old</h1>\n"))},
		},
	}
}

// workedMessages returns the messages for a follower that has read the manifest, and then the answer of the
// changes door to a follower whose cursor is at 4.
func workedMessages() []protocol.Message {
	news := worked().items[1]
	edited := []byte("<h1>News</h1>\n<p>It snows.</p>\n")
	update := protocol.Change{Seq: 3, At: date("2026-11-21T05:10:00.100Z"), Op: protocol.Update, Prev: news.Digest, Significance: protocol.SignificanceOf(0.75), Item: protocol.Item{
		URL: news.URL, Modified: date("2026-11-21T05:10:00Z"), Length: int64(len(edited)), Type: "text/html", Digest: protocol.Sum(edited),
		Language: "en", Text: protocol.Sum([]byte("News It snows."))}}
	moved := update.Item
	moved.URL = workedBase + "news/2026.html"
	move := protocol.Change{Seq: 4, At: date("2026-11-21T05:11:30Z"), Op: protocol.Move, From: news.URL, Item: moved, Prev: moved.Digest}
	gone := protocol.Change{Seq: 5, At: date("2026-11-21T05:12:00Z"), Op: protocol.Delete, Prev: moved.Digest, Item: protocol.Item{URL: moved.URL, Length: -1}}
	return []protocol.Message{
		{Kind: protocol.Hello, From: workedAt(2), Head: workedAt(4), Floor: workedAt(0), At: date("2026-11-21T05:11:40Z"), Heartbeat: 25 * time.Second, Manifest: workedBase + "robots.rdf"},
		{Kind: protocol.Batch, From: workedAt(2), To: workedAt(4), Changes: []protocol.Change{update, move}},
		{Kind: protocol.Ev, To: workedAt(5), Changes: []protocol.Change{gone}},
		{Kind: protocol.Mark, To: workedAt(5), Head: workedAt(5), At: date("2026-11-21T05:12:25Z")},
		{Kind: protocol.Bye, From: workedAt(5), Code: protocol.CloseShutdown, Reason: "restart", Retry: 2 * time.Second},
		{Kind: protocol.Batch, From: workedAt(4), To: workedAt(5), Head: workedAt(5), Changes: []protocol.Change{gone}},
	}
}

// The example in the specification matches, byte for byte, what the writer writes and the readers read.
func TestWorkedExample(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	manifest, lines := examples(f.Doc)
	if want := string(worked().write(t)); manifest != want {
		t.Errorf("the manifest in doc.go:\n%s\nis written\n%s", manifest, want)
	}
	got, skipped, err := read(strings.NewReader(manifest), protocol.ManifestOptions{URL: workedBase + "robots.rdf", Origin: protocol.Origin(workedBase)})
	if err != nil || len(skipped) > 0 {
		t.Error(err, skipped)
	}
	if diff := worked().diff(got); diff != "" {
		t.Error(diff)
	}
	var want []string
	for _, m := range workedMessages() {
		want = append(want, string(m.Encode()))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the messages in doc.go:\n%s\nare written\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	at := got.head.Cursor
	for _, line := range lines[:len(lines)-1] {
		m := must.Get(protocol.ParseMessage([]byte(line)))
		switch m.Kind {
		case protocol.Hello, protocol.Bye:
			if m.From != at {
				t.Errorf("%s at %v for a reader at %v", m.Kind, m.From, at)
			}
		case protocol.Batch:
			if m.From != at {
				t.Errorf("batch from %v for a reader at %v", m.From, at)
			}
			fallthrough
		default:
			at = m.To
		}
	}
}

// examples returns the manifest and the messages that a comment contains as code.
func examples(doc *ast.CommentGroup) (manifest string, messages []string) {
	var b bytes.Buffer
	inside := false
	for _, c := range doc.List {
		line, ok := strings.CutPrefix(c.Text, "//\t")
		inside = ok && (inside || strings.HasPrefix(line, "<?xml"))
		if inside {
			io.WriteString(&b, line+"\n")
		} else if ok && strings.HasPrefix(line, `{"t":`) {
			messages = append(messages, line)
		}
	}
	return b.String(), messages
}
