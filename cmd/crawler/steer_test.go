package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/steer"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
)

// A person pauses a site of a running crawler: its changes wait, over a restart too, and come once it is resumed; also while no crawler
// runs. Another site goes on.
func TestPauseCommands(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": "<title>Home</title>home", "a.html": "first"})
	other := sitetest.NewSite(t, map[string]string{"index.html": "<title>Other</title>other", "a.html": "first"})
	dir := filepath.Join(t.TempDir(), "crawl")
	run := []string{"run", site.Base, other.Base}
	r := begin(t, dir, run...)
	text := func(base string) string {
		_, out, _ := program(t.Context(), "get", base+"a.html", "--into", dir)
		return out
	}
	until(t, "both sites are stored", func() bool { return text(site.Base) == "first" && text(other.Base) == "first" })
	until(t, "both sites are followed", func() bool { return strings.Contains(r.status(), "2 sites followed") })
	r.says("pause", site.Base)
	until(t, "the stream is closed", func() bool { return strings.Contains(r.status(), "1 site followed") })
	site.ForgetRequests()
	site.Write("a.html", "second")
	site.Publish()
	passes := func(text0 string) {
		t.Helper()
		other.Write("a.html", text0)
		other.Publish()
		until(t, "a change of the other site is stored", func() bool { return text(other.Base) == text0 })
		if got := site.Hits("", "Parley"); got > 0 {
			t.Errorf("the paused site got %d requests: %v", got, site.Requests())
		}
	}
	passes("second")
	if out := r.status(); !strings.Contains(out, "paused     "+strings.TrimSuffix(site.Base, "/")+" is paused") {
		t.Errorf("status: %s", out)
	}
	if out := r.says("sites"); !strings.Contains(out, "paused by a person") {
		t.Errorf("sites: %s", out)
	}
	if out := r.says("why", site.Base+"a.html"); !strings.Contains(out, "a person has paused its site") || !strings.Contains(out, "no further fetch is planned") {
		t.Errorf("why: %s", out)
	}
	r.finish()
	if out := r.status(); !strings.Contains(out, " is paused") {
		t.Errorf("status without a crawler: %s", out)
	}
	r = begin(t, dir, run...)
	until(t, "the crawler runs again", func() bool { return strings.Contains(r.status(), "running since") })
	passes("third")
	if got := text(site.Base); got != "first" {
		t.Errorf("the page of the paused site is %q", got)
	}
	r.says("resume", site.Base)
	until(t, "the change since the pause is stored", func() bool { return text(site.Base) == "second" })
	if n := site.Hits("/robots.rdf", "Parley"); n > 0 {
		t.Errorf("%d requests for the manifest, though the stored cursor was still good", n)
	}
	wrong := func() {
		t.Helper()
		for _, names := range []string{"exmaple.org", "exmaple.org " + site.Base} {
			code, _, said := program(t.Context(), append(append([]string{"pause"}, strings.Fields(names)...), "--into", dir)...)
			if code != 0 || !strings.HasSuffix(said, "paused\nexmaple.org: no site of this crawl has that name yet; it will be paused when found\n") {
				t.Errorf("pause %s: exit code %d: %s", names, code, said)
			}
		}
		if code, _, said := program(t.Context(), "resume", "exmaple.org", site.Base, "--into", dir); code != 0 || strings.Contains(said, "no site of this crawl") {
			t.Errorf("resume: exit code %d: %s", code, said)
		}
	}
	wrong()
	r.finish()
	wrong()

	r.says("pause", "all")
	if out := r.status(); !strings.Contains(out, "all sites are paused") {
		t.Errorf("status after a pause of all: %s", out)
	}
	r.says("resume", "all")
	r.says("pause")
	if out := r.status(); !strings.Contains(out, "all sites are paused") {
		t.Errorf("status after a pause without a crawler: %s", out)
	}
	r.says("resume")
	for _, args := range [][]string{{"resume", "elsewhere.example"}, {"pause", "no site"}, {"pause", "all", site.Base}, {"rate", "wait=soon"}, {"rate", "per-address=many"}} {
		if code, _, said := program(t.Context(), append(args, "--into", dir)...); code == 0 || strings.Contains(said, "ask the process") {
			t.Errorf("%q: exit code %d: %s", args, code, said)
		}
	}
	if out := r.status(); strings.Contains(out, "paused") {
		t.Errorf("status in the end: %s", out)
	}
	ends(t, 1, "has no collection", "pause", "--into", t.TempDir())
}

func (r *running) status() string {
	r.t.Helper()
	_, out, _ := program(r.t.Context(), "status", r.dir)
	return out
}

// While many pages of a site are about to be fetched in one request, a person pauses the site, or takes the pages out of the scope: they
// are not fetched, and the crawl ends.
func TestSteeringBeforeBatch(t *testing.T) {
	files := map[string]string{"index.html": "home"}
	for i := range 40 {
		files[fmt.Sprintf("p%d.html", i)] = fmt.Sprint("page ", i)
	}
	for _, args := range [][]string{{"pause"}, {"scope", "reject=/p"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			site := sitetest.NewWhole(t, files)
			steered := make(chan bool)
			site.Break("/.well-known/parley", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) { // the last request before that one
				select {
				case <-steered:
					own(w, r)
				case <-r.Context().Done():
				}
			})
			dir := filepath.Join(t.TempDir(), "crawl")
			ended := make(chan bool)
			go func() {
				defer close(ended)
				program(t.Context(), "crawl", site.Base, "--into", dir, "--contact", "me@example.net", "--wait", "10ms", "--allow-private")
			}()
			status := func() string {
				_, out, _ := program(t.Context(), "status", dir)
				return out
			}
			until(t, "the manifest is read", func() bool { return strings.Contains(status(), "41 known") })
			if args[0] == "pause" {
				args = append(args, site.Base)
			}
			ends(t, 0, "", append(args, "--into", dir)...)
			close(steered)
			<-ended
			for _, r := range site.Requests() {
				if strings.HasPrefix(r.Path, "/p") && files[r.Path[1:]] != "" { // not the URL by which the crawler learns how the site answers for a missing page
					t.Errorf("the site got a request for %s", r.Path)
				}
			}
			if out := status(); strings.Contains(out, " 40 stored") || strings.Contains(out, " 41 stored") {
				t.Errorf("status in the end: %s", out)
			}
		})
	}
}

// The rate and the scope change by commands, whether a crawler runs or not, and are shown.
func TestRateAndScopeCommands(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": "<title>Home</title>home", "docs/a.html": "docs", "news/a.html": "news"})
	dir := filepath.Join(t.TempDir(), "crawl")
	r := begin(t, dir, "run", site.Base, "--hurry", "20ms")
	has := func(page string) bool {
		code, _, _ := program(t.Context(), "get", site.Base+page, "--into", dir)
		return code == 0
	}
	until(t, "the site is stored", func() bool { return has("docs/a.html") && has("news/a.html") })
	if out := r.says("rate", "budget=7000"); out != "budget=7000\n" {
		t.Errorf("rate: %q", out)
	}
	for _, args := range [][]string{{"rate", "budget"}, {"rate", "budget="}, {"rate", "reject=/a/"}, {"scope", "budget=1"}, {"scope", "/a/"}} {
		ends(t, 2, "want NAME=VALUE, with NAME one of ", append(args, "--into", dir)...)
	}
	t.Setenv("PARLEY_BUDGET", "99") // of a crawler
	until(t, "the new budget is in force", func() bool { return strings.Contains(r.status(), "for a budget of 7000") })
	if code, _, said := program(t.Context(), "rate", "wait=10s", "--into", dir); code == 0 || !strings.Contains(said, "neither may be 0") {
		t.Errorf("a wait other than 0, in a crawl without: exit code %d: %s", code, said)
	}
	if code, _, said := program(t.Context(), "rate", "budget=lots", "--into", dir); code == 0 || !strings.Contains(said, `--budget "lots"`) {
		t.Errorf("a wrong budget: exit code %d: %s", code, said)
	}
	if out := r.says("scope", "reject=/news/", "reject=/old/"); out != "reject=/news/ reject=/old/\n" {
		t.Errorf("scope: %q", out)
	}
	site.Write("news/new.html", "new")
	site.Write("docs/new.html", "new")
	site.Publish()
	until(t, "the new page inside is stored", func() bool { return has("docs/new.html") })
	if has("news/new.html") || !has("news/a.html") {
		t.Error("the new page outside is stored, or the old one is not any more")
	}
	if out := r.says("why", site.Base+"news/a.html"); !strings.Contains(out, "not admitted: ") || !strings.Contains(out, "no further fetch is planned") {
		t.Errorf("why: %s", out)
	}
	if out := r.status(); !strings.Contains(out, `budget=7000, set by "crawler rate"`) || !strings.Contains(out, `reject=/news/ reject=/old/, set by "crawler scope"`) {
		t.Errorf("status: %s", out)
	}
	r.finish()
	r.says("scope", "domain=elsewhere.example")
	ends(t, 2, `changed by "crawler rate" or "crawler scope"`, append([]string{"run", site.Base}, own(dir)...)...)
	r.says("scope", "reject=default", "domain=default")
	if out := r.says("scope"); out != "nothing is changed\n" {
		t.Errorf("scope: %q", out)
	}
	if out := r.says("rate"); out != "budget=7000\n" {
		t.Errorf("rate: %q", out)
	}
	r = begin(t, dir, "run", site.Base, "--hurry", "20ms")
	until(t, "the page that is inside again is stored", func() bool { return has("news/new.html") })
}

// A copy can be paused and resumed; it has no rate and no scope.
func TestPausedCopy(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": "home"})
	dir := filepath.Join(t.TempDir(), "mirror")
	ended := make(chan struct{})
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		program(t.Context(), "follow", site.Base, "--into", dir, "--contact", "me@example.net")
	}()
	status := func() string {
		_, out, _ := program(t.Context(), "status", dir)
		return out
	}
	until(t, "the copy is complete", func() bool { return strings.Contains(status(), "1 offered, 1 stored") })
	for _, args := range [][]string{{"rate", "budget=10"}, {"scope", "reject=/x/"}} {
		ends(t, 1, "a copy has no rate and no scope", append(args, "--into", dir)...)
	}
	succeeds(t, "pause", "--into", dir)
	if out := status(); !strings.Contains(out, "all sites are paused") {
		t.Errorf("status: %s", out)
	}
	site.Write("a.html", "new")
	site.Publish()
	succeeds(t, "resume", "--into", dir)
	until(t, "the new page is there", func() bool { return strings.Contains(status(), "2 offered, 2 stored") })
}

// All links between stored pages are written as CSV, or as JSON, while the crawler runs and after it.
func TestAllLinks(t *testing.T) {
	pages := map[string]string{"index.html": "<title>Home</title>"}
	want := map[string]bool{}
	site := sitetest.NewSite(t, map[string]string{"robots.txt": "User-agent: *\nDisallow:\n"})
	for i := range 40 {
		name := fmt.Sprintf("p%d.html", i)
		pages["index.html"] += "<a href=" + name + ">x</a>"
		pages[name] = fmt.Sprintf("<title>%d</title><a href=/>home</a> <a href=p%d.html>next</a>", i, (i+1)%40)
		want[site.Base+" "+site.Base+name] = true
		want[site.Base+name+" "+site.Base] = true
		want[site.Base+name+" "+fmt.Sprintf("%sp%d.html", site.Base, (i+1)%40)] = true
	}
	for name, text := range pages {
		site.Write(name, text)
	}
	site.Publish()
	dir := filepath.Join(t.TempDir(), "crawl")
	r := begin(t, dir, "run", site.Base)
	links := func(args ...string) map[string]bool {
		_, out, _ := program(t.Context(), append([]string{"links", "--all", "--into", dir}, args...)...)
		got := map[string]bool{}
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil {
			t.Error(err)
		}
		for i, row := range rows {
			if i > 0 {
				got[row[0]+" "+row[1]] = true
			} else if row[0] != "from" || row[1] != "to" {
				t.Errorf("the head is %q", row)
			}
		}
		return got
	}
	until(t, "all links are stored", func() bool { return len(links()) == len(want) })
	r.finish()
	for link := range links() {
		if !want[link] {
			t.Errorf("link %s", link)
		}
	}
	var row linkRow
	if out := r.says("links", "--all", "--format", "json"); json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &row) != nil || row.From != site.Base {
		t.Errorf("the first row is %+v", row)
	}
	for _, args := range [][]string{{"links"}, {"links", "--all", site.Base}} {
		ends(t, 2, "want one URL, or --all", append(args, "--into", dir)...)
	}
}

// The record of one page's links is damaged: the links of the other pages are listed, and the command fails and names the page.
func TestLinksOfADamagedRecord(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"robots.txt": "User-agent: *\nDisallow:\n"})
	for i := range 90 {
		site.Write(fmt.Sprintf("p%02d.html", i), fmt.Sprintf("<title>%d</title><a href=/>home</a>", i))
	}
	site.Write("index.html", "<title>Home</title>home")
	site.Write("z.html", "<a href=p03.html>a</a> <a href=p10.html>b</a> <a href=p21.html>c</a> <a href=p34.html>d</a> <a href=p51.html>e</a> <a href=p70.html>f</a>")
	site.Publish()
	dir := filepath.Join(t.TempDir(), "crawl")
	r := begin(t, dir, "run", site.Base)
	until(t, "all links are stored", func() bool {
		_, out, _ := program(t.Context(), "links", "--all", "--into", dir)
		return strings.Count(out, "\n") == 97
	})
	r.finish()
	state := filepath.Join(dir, "state.db")
	text := must.Get(os.ReadFile(state))
	links := []byte{7, 11, 13, 17, 19} // from each to the next
	if !bytes.Contains(text, links) {
		t.Fatal("the record of the links is not where this test expects it")
	}
	must.OK(t, os.WriteFile(state, bytes.ReplaceAll(text, links, []byte{7, 11, 13, 17, 19 | 0x80}), 0o600))
	code, out, said := program(t.Context(), "links", "--all", "--into", dir)
	if code != 1 || !strings.Contains(said, "1 page") || !strings.Contains(said, site.Base+"z.html") || !strings.Contains(said, "restore the directory from a backup") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if strings.Count(out, "\n") != 91 || strings.Contains(out, "z.html") {
		t.Errorf("the other links: %s", out)
	}
	code, out, _ = program(t.Context(), "links", "--all", "--into", dir, "--format", "json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; code != 1 || len(lines) != 91 || last != `{"from":"`+site.Base+`z.html","damaged":1}` {
		t.Errorf("exit code %d, %d lines, the last %s", code, len(lines), last)
	}
	must.OK(t, os.WriteFile(state, bytes.Repeat([]byte("no database "), 10_000), 0o600))
	if code, _, said := program(t.Context(), "status", dir); code != 1 || !strings.HasPrefix(said, "crawler status: open collection "+dir+": file is damaged") {
		t.Errorf("status of a state that is lost: exit code %d: %s", code, said)
	}
}

// What is set is shown in one line, however much it is.
func TestTextsOfSteering(t *testing.T) {
	s := steer.Steering{}
	for i := range 25 {
		must.OK(t, s.Pause([]string{fmt.Sprintf("h%02d.example", i)}))
	}
	if text := pausedText(&s); !strings.HasPrefix(text, "h00.example, h01.example, ") || !strings.HasSuffix(text, "h19.example, and 5 more are paused") {
		t.Errorf("paused: %s", text)
	}
	if text := unknownText(s.Sites); !strings.HasPrefix(text, "h00.example, h01.example, ") || !strings.HasSuffix(text, "h19.example, and 5 more: no sites of this crawl have these names yet; they will be paused when found") {
		t.Errorf("unknown: %s", text)
	}
	if text := pausedText(&steer.Steering{}); text != "no site is paused" {
		t.Errorf("paused: %s", text)
	}
}
