package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/nats/natstest"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
)

// A writer and a door on another machine answer queries and judge expressions alike, also for readers whose selection a page leaves.
func TestQueriesAtADoorElsewhere(t *testing.T) {
	dir := t.TempDir()
	g := &guarded{T: t, root: filepath.Join(dir, "docroot"), base: "https://www.example.org/"}
	g.write("en.html", "<html lang=en><title>Old words</title><p>Welcome.")
	g.write("de.html", "<html lang=de><title>Alte Worte</title><p>Willkommen.")
	tokens := filepath.Join(dir, "tokens")
	must.Write(t, tokens, "a-token-of-the-site\n")
	nats, here, elsewhere := natstest.Start(t, 1).URLs(), front.FreeAddress(), front.FreeAddress()
	door := &guarded{T: t, base: g.base, doors: "http://" + elsewhere + "/"}
	g.doors = "http://" + here + "/"
	g.run("--log", nats, "--listen", here, "--docroot", g.root, "--state", filepath.Join(dir, "state"), "--no-self-check", "--ask-rate", "0",
		"--trust-docroot", "--write-every", "10ms", "--query", "--expressions", "--announce-tokens", tokens)
	door.run("--log", nats, "--listen", elsewhere, "--door", "--state", filepath.Join(dir, "door"), "--query", "--expressions")
	for _, d := range []*guarded{g, door} {
		until(t, func() bool { code, _ := get(d.doors + "robots.rdf"); return code == http.StatusOK })
	}
	begin := g.cursor()
	where := func(expression string) string { return "where=" + url.QueryEscape(expression) }
	// query returns what both doors answer, once they are at the same cursor.
	query := func(conditions string) (all string) {
		until(t, func() bool {
			var tags [2]string
			var answers [2]string
			for i, d := range []*guarded{g, door} {
				resp, answer := must.Fetch(t, "GET", d.doors+"parley/query?"+conditions, "")
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("%s: %s\n%s", conditions, resp.Status, answer)
				}
				tags[i], answers[i] = resp.Header.Get("ETag"), answer[strings.Index(answer, "<item ")+1:]
			}
			all = answers[0]
			return tags[0] == tags[1] && answers[0] == answers[1]
		})
		return all
	}
	names := func(answer string) (list []string) {
		for _, name := range []string{"en.html", "de.html", "feed/1.html"} {
			if strings.Contains(answer, g.base+name) {
				list = append(list, name)
			}
		}
		return list
	}
	expect := func(conditions, want string) {
		t.Helper()
		if got := strings.Join(names(query(conditions)), " "); got != want {
			t.Errorf("%s: %q, want %q", conditions, got, want)
		}
	}
	expect("", "en.html de.html")
	expect("lang=de", "de.html")
	expect(where(`page.title.contains("Old")`), "en.html")

	code, said := ask(t, "POST", g.doors+"parley/announce", `{"url":"/feed/1.html","modified":"2026-11-21T09:00:00Z","title":"First title"}`,
		"Authorization", "Bearer a-token-of-the-site", "Content-Type", "application/json")
	if code != http.StatusOK || strings.Contains(said, "refused") {
		t.Fatalf("%d: %s", code, said)
	}
	expect(where(`page.title == "First title"`), "feed/1.html")
	at := g.cursor()
	g.write("en.html", "<html lang=en><title>New words</title><p>Welcome.")
	until(t, func() bool { return g.cursor() != at && door.cursor() == g.cursor() })
	expect(where(`page.title.contains("Old")`), "")

	left := func(conditions string) string {
		answers := map[string]bool{}
		said := ""
		for _, d := range []*guarded{g, door} {
			m := must.Get(protocol.ParseMessage([]byte(d.door("parley/changes?after=" + begin + "&" + conditions))))
			said = ""
			for _, c := range m.Changes {
				said += string(c.Op) + " " + strings.TrimPrefix(c.Item.URL, g.base) + ";"
			}
			answers[said] = true
		}
		if len(answers) != 1 {
			t.Errorf("%s: %v", conditions, answers)
		}
		return said
	}
	for conditions, want := range map[string]string{
		where(`page.title.contains("Old")`):                      "delete en.html;",
		where(`page.title.contains("New")`):                      "update en.html;",
		"prefix=/feed/&" + where(`page.title.contains("First")`): "create feed/1.html;",
		where(`change.op == "create"`):                           "create feed/1.html;",
	} {
		if said := left(conditions); said != want {
			t.Errorf("%s: %q, want %q", conditions, said, want)
		}
	}
}

// A door has what the manifest says of a page beside its bytes, though no change told it.
func TestDoorElsewhereHasTheTitlesOfTheManifest(t *testing.T) {
	const base = "https://www.example.org/"
	for _, parts := range []int{0, 1} {
		t.Run(fmt.Sprint("parts from ", parts), func(t *testing.T) {
			nc := must.Get(jetlog.Connect(natstest.Start(t, 1).URLs(), ""))
			defer nc.Close()
			stream := must.Get(jetlog.Open(t.Context(), nc, jetlog.Options{Name: streamName(base)}))
			dir := t.TempDir()
			j := must.Get(server.OpenJournal(t.Context(), filepath.Join(dir, "state"), server.JournalOptions{Base: base}))
			defer j.Close()
			page := journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: protocol.Item{URL: base + "page.html", Title: "First", Length: 5, Digest: protocol.Sum([]byte("bytes")), Modified: time.Now()}}}
			must.Get(j.Append(t.Context(), []journal.Step{page}))
			must.OK(t, j.EndBaseline())
			late := time.Duration(0)
			snapshot := &manifest.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: doors.Describe(base), Parts: parts, Now: func() time.Time { return time.Now().Add(late) }}
			output := &publishedFiles{files: stream.Files(), snapshot: snapshot, over: t.Context()}
			must.Get(snapshot.Write(t.Context(), j))
			must.Get(output.Write(t.Context(), j))

			copied := filepath.Join(dir, "door")
			d := must.Get(server.OpenJournal(t.Context(), copied, server.JournalOptions{Base: base}))
			defer d.Close()
			r := newReplica("door", base, copied, d, stream, slog.New(slog.DiscardHandler))
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			log := &jetlog.Log{Stream: stream, Journal: j}
			running.Go(func() { log.Tell(ctx, false) })
			running.Go(func() { r.log.Follow(ctx) })
			running.Go(func() { r.keepManifest(ctx) })
			has := func(title string) func() bool {
				return func() bool {
					e, _, err := d.Get(base + "page.html")
					return err == nil && e.Item.Title == title
				}
			}
			until(t, has("First"))

			late = 2 * time.Hour // parts are compared once an hour with what no change tells
			page.Op, page.Entry.Item.Title = "", "Second"
			other := journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: protocol.Item{URL: base + "other.html", Length: -1}}}
			must.OK(t, log.Told(ctx, must.Get(j.Append(ctx, []journal.Step{page, other}))))
			must.Get(snapshot.Write(ctx, j))
			must.Get(output.Write(ctx, j))
			until(t, has("Second"))
		})
	}
}

// A door on another machine knows callers by the same tokens, and goes by the rules that robots.txt has for them.
func TestCallersOfADoorElsewhere(t *testing.T) {
	dir := t.TempDir()
	g := &guarded{T: t, root: filepath.Join(dir, "docroot"), state: filepath.Join(dir, "state"), base: "https://www.example.org/"}
	g.write("robots.txt", "User-agent: *\nDisallow: /hidden/\nUser-agent: OtherBot\nDisallow: /news/\nDisallow: /hidden/\n")
	g.write("index.html", "<p>Welcome.")
	g.write("news/1.html", "<p>One.")
	const nice, other = "0123456789abcdefnice", "0123456789abcdefother"
	callers := filepath.Join(dir, "callers")
	must.Write(t, callers, "NiceBot "+nice+" agents\nOtherBot "+other+"\n")
	nats, here, elsewhere := natstest.Start(t, 1).URLs(), front.FreeAddress(), front.FreeAddress()
	door := &guarded{T: t, base: g.base, doors: "http://" + elsewhere + "/"}
	g.doors = "http://" + here + "/"
	g.run("--log", nats, "--listen", here, "--docroot", g.root, "--state", g.state, "--no-self-check", "--ask-rate", "0", "--trust-docroot",
		"--write-every", "10ms", "--preset", "high", "--callers", callers)
	door.run("--log", nats, "--listen", elsewhere, "--door", "--state", filepath.Join(dir, "door"), "--preset", "high", "--callers", callers)
	for _, d := range []*guarded{g, door} {
		until(t, func() bool { code, _ := get(d.doors + "robots.rdf"); return code == http.StatusOK })
		if said := d.door(wellKnown[1:]); strings.Contains(said, "parley/agents") || !strings.Contains(said, "site.wacz") {
			t.Errorf("programs are offered, or no archives: %s", said)
		}
		archive := func(token string) int {
			code, _ := ask(t, "GET", d.doors+"parley/site.wacz", "", "Authorization", "Bearer "+token)
			return code
		}
		// The rules of robots.txt forbid one of them a page of it; a door has them a moment later than the archive.
		until(t, func() bool { return archive(nice) == http.StatusOK && archive(other) != http.StatusOK })
	}
	lists := func(d *guarded, token string) string {
		code, said := ask(t, "GET", d.doors+"parley/query", "", "Authorization", "Bearer "+token)
		if code != http.StatusOK {
			return fmt.Sprint(code)
		}
		return fmt.Sprint(strings.Contains(said, "<link>"+g.base+"</link>") || strings.Contains(said, `"`+g.base+`"`), strings.Contains(said, "news/1.html"))
	}
	for token, want := range map[string]string{nice: "true true", other: "true false", "a-token-that-nobody-has": "401"} {
		for _, d := range []*guarded{g, door} {
			until(t, func() bool { return lists(d, token) == want })
		}
	}
	g.write("robots.txt", "User-agent: *\nDisallow: /hidden/\nUser-agent: NiceBot\nDisallow: /news/\nDisallow: /hidden/\n")
	must.OK(t, server.Ask(t.Context(), g.state, "POST", "/look", new(any)))
	g.write("index.html", "<p>Welcome back.") // the door looks for rules at each change, and every 10 s
	for _, d := range []*guarded{g, door} {   // what was forbidden to OtherBot is so for a minute more
		for _, token := range []string{nice, other} {
			until(t, func() bool { return lists(d, token) == "true false" })
		}
	}
}
