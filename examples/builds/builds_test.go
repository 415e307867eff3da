// Package builds is an example of sites that are built in CI, with tests that build and publish them.
package builds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/machine"
)

var bin string // directory of rdfgen

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "parley-builds-")
	if err != nil {
		panic(err)
	}
	bin = dir
	if said, err := exec.Command("go", "build", "-o", bin+"/", "../../cmd/rdfgen").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build rdfgen: %v\n%s", err, said)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const key = "0123456789abcdef"

// A pipeline builds and deploys the site in a repository, each time in a fresh clone without history.
type pipeline struct {
	*testing.T
	dir, repo, live, out string
	build                []string
	web                  *httptest.Server
	env                  []string
	clones               int

	mu      sync.Mutex
	told    []string
	arrived chan struct{} // if not nil, the engine closes it at the next notice, and does not answer
}

// newPipeline makes a repository with files. The build command has BASE in it for the URL of the site, and writes out.
func newPipeline(t *testing.T, files map[string]string, out string, build ...string) *pipeline {
	p := &pipeline{T: t, dir: t.TempDir(), out: out, build: build}
	p.repo, p.live = filepath.Join(p.dir, "repo"), filepath.Join(p.dir, "live")
	p.web = httptest.NewServer(http.FileServer(http.Dir(p.live)))
	t.Cleanup(p.web.Close)
	engine := httptest.NewServer(http.HandlerFunc(p.receive))
	t.Cleanup(engine.Close)
	p.env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "LANG=C.UTF-8", "PARLEY_BASE="+p.web.URL,
		"PARLEY_DIR="+out, "PARLEY_INDEXNOW="+engine.URL, "PARLEY_INDEXNOW_KEY="+key, "PARLEY_HURRY=50ms")
	p.must(os.Mkdir(p.repo, 0o755))
	p.run(p.repo, machine.Tool(t, "git"), "init", "-q")
	p.commit(files)
	return p
}

// receive is a search engine that fetches the key before it believes a notice.
func (p *pipeline) receive(w http.ResponseWriter, r *http.Request) {
	var notice struct{ URLList []string }
	resp, err := http.Get(p.web.URL + "/" + key + ".txt")
	if err != nil || resp.StatusCode != 200 || json.NewDecoder(r.Body).Decode(&notice) != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	resp.Body.Close()
	p.mu.Lock()
	for _, u := range notice.URLList {
		p.told = append(p.told, strings.TrimPrefix(u, p.web.URL))
	}
	arrived := p.arrived
	p.arrived = nil
	p.mu.Unlock()
	if arrived != nil {
		close(arrived)
		<-r.Context().Done()
	}
}

// sent returns what the engine was sent since the last call.
func (p *pipeline) sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := slices.Sorted(slices.Values(p.told))
	p.told = nil
	return told
}

func (p *pipeline) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *pipeline) run(dir string, command ...string) string {
	p.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, p.env
	said, err := cmd.CombinedOutput()
	if err != nil {
		p.Fatalf("%q: %v\n%s", command, err, said)
	}
	return string(said)
}

func (p *pipeline) commit(files map[string]string) {
	p.Helper()
	for name, text := range files {
		file := filepath.Join(p.repo, name)
		p.must(os.MkdirAll(filepath.Dir(file), 0o755))
		p.must(os.WriteFile(file, []byte(text), 0o644))
	}
	p.run(p.repo, "git", "add", "-A")
	p.run(p.repo, "git", "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "An edit")
}

// built clones the repository and builds the site, as if some time ago. It returns the clone.
func (p *pipeline) built(age time.Duration) (clone string) {
	p.Helper()
	p.clones++
	clone = filepath.Join(p.dir, fmt.Sprint("clone", p.clones))
	p.run(p.dir, "git", "clone", "-q", "--depth", "1", "file://"+p.repo, clone)
	build := slices.Clone(p.build)
	for i := range build {
		build[i] = strings.ReplaceAll(build[i], "BASE", p.web.URL+"/")
	}
	p.run(clone, build...)
	if at := time.Now().Add(-age); age > 0 {
		p.must(filepath.WalkDir(filepath.Join(clone, p.out), func(file string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(file, at, at))
		}))
	}
	return clone
}

// copying is the command that deploys a clone's build.
func (p *pipeline) copying(clone string) []string {
	return []string{"sh", "-ec", "rm -rf " + p.live + " && cp -Rp " + filepath.Join(clone, p.out) + " " + p.live}
}

// deploy runs the pipeline. It returns the dates in the sitemap that is live afterwards, and the pages that the engine was sent.
func (p *pipeline) deploy(age time.Duration) (dates map[string]string, told []string) {
	p.Helper()
	clone := p.built(age)
	script, err := filepath.Abs("publish.sh")
	p.must(err)
	said := p.run(clone, append([]string{"sh", script, "run"}, p.copying(clone)...)...)
	if !strings.Contains(said, "/robots.rdf is live.") {
		p.Errorf("publish.sh: %s", said)
	}
	text, err := os.ReadFile(filepath.Join(p.live, "sitemap.xml"))
	p.must(err)
	dates = map[string]string{}
	for _, m := range regexp.MustCompile(`<loc>([^<]*)</loc>\s*<lastmod>([^<]*)</lastmod>`).FindAllStringSubmatch(string(text), -1) {
		dates[strings.TrimPrefix(m[1], p.web.URL)] = m[2]
	}
	return dates, p.sent()
}

// story publishes the site, edits a file that is the source of one page, and publishes it again, and again without an edit.
func (p *pipeline) story(file, page, text string) {
	p.Helper()
	first, told := p.deploy(48 * time.Hour)
	if len(first) < 4 || first[page] == "" || told != nil {
		p.Fatalf("first publication: dates %v, sent %q", first, told)
	}
	p.commit(map[string]string{file: text})
	second, told := p.deploy(0)
	if !slices.Equal(told, []string{page}) {
		p.Errorf("sent %q, want only %s", told, page)
	}
	if second[page] <= first[page] {
		p.Errorf("the edited page has the date %s, and had %s before", second[page], first[page])
	}
	first[page] = second[page]
	if !maps.Equal(second, first) {
		p.Errorf("dates after one edit: %v, want %v", second, first)
	}
	third, told := p.deploy(0)
	if !maps.Equal(third, second) || told != nil {
		p.Errorf("a rebuild: dates %v, want %v; sent %q", third, second, told)
	}
}

// post is a post with a title, a date and a text.
func post(n int, text string) string {
	return fmt.Sprintf("---\ntitle: Post %d\ndate: 2025-03-0%dT12:00:00Z\nlayout: base\n---\n%s\n", n, n, text)
}

const text = "Some text of a post, long enough to be read, and not the same as before."

func hugoSite() map[string]string {
	return map[string]string{
		"config.toml": "baseURL = 'https://www.example.org/'\ntitle = 'Hugo'\nenableRobotsTXT = true\n",
		"layouts/_default/single.html": `<!DOCTYPE html><html lang="en"><title>{{ .Title }}</title><main><h1>{{ .Title }}</h1>{{ .Content }}</main>` +
			`<footer>{{ .Lastmod.Format "2 January 2006" }}</footer></html>`,
		"layouts/_default/list.html": `<!DOCTYPE html><html lang="en"><title>{{ .Title }}</title><main>{{ range .Pages }}<a href="{{ .RelPermalink }}">{{ .Title }}</a> {{ end }}</main></html>`,
		"layouts/404.html":           `<!DOCTYPE html><title>Not found</title>`,
		"content/posts/a.md":         post(1, "The first post."), "content/posts/b.md": post(2, "The second post."), "content/posts/c.md": post(3, "The third post."),
		"content/about.md": post(4, "About this site."),
	}
}

func TestHugo(t *testing.T) {
	p := newPipeline(t, hugoSite(), "public", machine.Tool(t, "hugo"), "--baseURL", "BASE")
	p.story("content/posts/b.md", "/posts/b/", post(2, text))
}

// A build's date in every page changes every date, as it must, but the notices remain right.
func TestHugoWithBuildDate(t *testing.T) {
	site := hugoSite()
	site["layouts/_default/single.html"] = strings.Replace(site["layouts/_default/single.html"], ".Lastmod.Format", "now.Format", 1)
	site["layouts/_default/single.html"] = strings.Replace(site["layouts/_default/single.html"], "2006", "2006 15:04:05.000", 1)
	p := newPipeline(t, site, "public", machine.Tool(t, "hugo"), "--baseURL", "BASE")
	first, _ := p.deploy(48 * time.Hour)
	p.commit(map[string]string{"content/posts/b.md": post(2, text)})
	second, told := p.deploy(0)
	if second["/about/"] <= first["/about/"] {
		t.Errorf("dates %v, before %v", second, first)
	}
	if !slices.Equal(told, []string{"/posts/b/"}) {
		t.Errorf("sent %q, want only /posts/b/", told)
	}
}

func TestJekyll(t *testing.T) {
	p := newPipeline(t, map[string]string{
		"_config.yml":            "title: Jekyll\ntimezone: UTC\n",
		"_layouts/base.html":     `<!DOCTYPE html><html lang="en"><title>{{ page.title }}</title><main>{{ content }}</main><footer>{{ page.date | date: "%e %B %Y" }}</footer></html>`,
		"index.html":             "---\ntitle: Home\nlayout: base\n---\n{% for p in site.posts %}<a href=\"{{ p.url }}\">{{ p.title }}</a> {% endfor %}\n",
		"about.md":               post(4, "About this site."),
		"404.html":               "Not found",
		"_posts/2025-03-01-a.md": post(1, "The first post."), "_posts/2025-03-02-b.md": post(2, "The second post."),
		"_posts/2025-03-03-c.md": post(3, "The third post."),
	}, "_site", machine.Tool(t, "jekyll"), "build", "--quiet")
	p.story("_posts/2025-03-02-b.md", "/2025/03/02/b.html", post(2, text))
}

// Eleventy is found with PARLEY_ELEVENTY: npm i -D @11ty/eleventy makes node_modules/.bin/eleventy.
func TestEleventy(t *testing.T) {
	eleventy := os.Getenv("PARLEY_ELEVENTY")
	if eleventy == "" {
		t.Skip("PARLEY_ELEVENTY is not set: no Eleventy")
	}
	p := newPipeline(t, map[string]string{
		"_includes/base.njk": `<!DOCTYPE html><html lang="en"><title>{{ title }}</title><main>{{ content | safe }}</main><footer>{{ page.date.toISOString() }}</footer></html>`,
		"index.njk":          "---\ntitle: Home\ndate: 2025-03-05\nlayout: base\n---\n{% for p in collections.post %}<a href=\"{{ p.url }}\">{{ p.data.title }}</a> {% endfor %}\n",
		"posts/posts.json":   `{"tags": "post"}`,
		"posts/a.md":         post(1, "The first post."), "posts/b.md": post(2, "The second post."), "posts/c.md": post(3, "The third post."),
	}, "_site", eleventy, "--quiet")
	p.story("posts/b.md", "/posts/b/", post(2, text))
}

// Both calls are killed, the first again and again, the second when the engine has a notice and has not answered: nothing is lost, and
// nothing is sent but the edited page.
func TestKilledJobs(t *testing.T) {
	site := map[string]string{}
	for i := range 300 {
		site[fmt.Sprintf("site/%d.html", i)] = fmt.Sprintf("<title>%d</title><p>The page with the number %d.", i, i)
	}
	p := newPipeline(t, site, "public", "cp", "-R", "site", "public")
	p.deploy(48 * time.Hour)
	p.commit(map[string]string{"site/7.html": "<title>7</title><p>" + text})
	clone, rdfgen := p.built(time.Minute), filepath.Join(bin, "rdfgen")
	killed := 0
	for i := range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*10*time.Millisecond) // at its end the program is killed
		first := exec.CommandContext(ctx, rdfgen, "publish", "public")
		first.Dir, first.Env = clone, p.env
		if first.Run() != nil {
			killed++
		}
		cancel()
	}
	if killed == 0 {
		t.Error("no first call was killed")
	}
	p.run(clone, rdfgen, "publish", "public")
	p.run(clone, p.copying(clone)...)

	arrived := make(chan struct{})
	p.mu.Lock()
	p.arrived = arrived
	p.mu.Unlock()
	second := exec.Command(rdfgen, "publish", "public", "--wait-live")
	second.Dir, second.Env = clone, p.env
	p.must(second.Start())
	<-arrived
	p.must(second.Process.Kill())
	second.Wait()
	if told := p.sent(); !slices.Equal(told, []string{"/7.html"}) {
		t.Errorf("before the kill: %q", told)
	}
	p.run(clone, rdfgen, "publish", "public", "--wait-live")
	if told := p.sent(); !slices.Equal(told, []string{"/7.html"}) {
		t.Errorf("after the kill: %q, want /7.html again, since its notice was not answered", told)
	}
	p.run(clone, rdfgen, "publish", "public", "--wait-live")
	if told := p.sent(); told != nil {
		t.Errorf("once more: %q", told)
	}
}

// An option for one call, such as --accept-deletions, reaches rdfgen.
func TestOptionsOfScript(t *testing.T) {
	for _, step := range []string{"describe", "notify"} {
		cmd := exec.Command("sh", "publish.sh", step, "--no-such-option")
		cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
		if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(said), "--no-such-option") {
			t.Errorf("%s: %v, %s", step, err, said)
		}
	}
}

// Each option and each input in the files exists. The runners of GitHub and GitLab, which read the files, are not here.
func TestFilesOfRunners(t *testing.T) {
	help, err := exec.Command(filepath.Join(bin, "rdfgen"), "publish", "--help-all").Output()
	if err != nil {
		t.Fatal(err)
	}
	action, err := os.ReadFile("action.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"publish.sh", "action.yml", "pages.yml", "gitlab.yml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`PARLEY_([A-Z_]+)`).FindAllStringSubmatch(string(text), -1) {
			option := strings.ReplaceAll(strings.ToLower(m[1]), "_", "-")
			if option != "dir" && !strings.Contains(string(help), "\n  --"+option+" ") {
				t.Errorf("%s: rdfgen publish has no --%s", file, option)
			}
		}
		for _, m := range regexp.MustCompile(`inputs\.([a-z-]+)|[{,] *([a-z-]+): "\$\{\{`).FindAllStringSubmatch(string(text), -1) {
			if input := m[1] + m[2]; !strings.Contains(string(action), "\n  "+input+":\n") {
				t.Errorf("%s: the action has no input %s", file, input)
			}
		}
	}
	python := machine.Tool(t, "python3")
	said, err := exec.Command(python, "-c", "import sys\ntry:\n  import yaml\nexcept ImportError: sys.exit(3)\nfor f in sys.argv[1:]: yaml.safe_load(open(f))",
		"action.yml", "pages.yml", "gitlab.yml").CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.Skip("Python has no yaml: the syntax of the files is not checked")
	} else if err != nil {
		t.Errorf("%v: %s", err, said)
	}
}
