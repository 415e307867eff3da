package nginx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

// behind starts nginx with the server block of parley.conf, adapted to root and
// sidecar, and returns the URL of the site. Each of locations that begins with
// "location" is inserted into the server block, all others before it. PAGES in
// them stands for the line that includes parley-pages.conf.
func behind(t *testing.T, root, sidecar string, locations ...string) string {
	t.Helper()
	machine.Tool(t, "nginx")
	text, err := os.ReadFile("parley.conf")
	if err != nil {
		t.Fatal(err)
	}
	address, block := front.FreeAddress(), string(text)
	for was, is := range map[string]string{"listen 80;": "listen " + address + ";", "127.0.0.1:8639": sidecar, "root /var/www/html;": "root " + root + ";"} {
		if !strings.Contains(block, was) {
			t.Fatalf("the server block has no %q", was)
		}
		block = strings.Replace(block, was, is, 1)
	}
	pages, err := filepath.Abs("parley-pages.conf")
	if err != nil {
		t.Fatal(err)
	}
	block = strings.ReplaceAll(block, "/etc/nginx/parley-pages.conf", pages)
	for _, l := range locations {
		l = strings.ReplaceAll(l, "PAGES", "include "+pages+";") + "\n"
		if strings.HasPrefix(l, "location") {
			block = strings.Replace(block, "    # The manifest.", l+"    # The manifest.", 1)
		} else {
			block = l + block
		}
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	machine.Nginx(t, address, user+" master_process off;", "include /etc/nginx/mime.types;\ngzip on;\ngzip_min_length 1;\n"+block)
	return "http://" + address
}

// published is a docroot with its journal and its store of versions, served by a handler like the notifier's.
type published struct {
	docroot   string
	publisher *server.Publisher
	store     *versions.Store
	mux       *http.ServeMux
}

func publish(t *testing.T, pages map[string]string) *published {
	t.Helper()
	dir := t.TempDir()
	p := &published{docroot: filepath.Join(dir, "www"), mux: http.NewServeMux()}
	for name, page := range pages {
		write(t, filepath.Join(p.docroot, name), page)
	}
	site := &server.Site{Docroot: p.docroot, Base: "http://www.example.org/"}
	journal, err := server.OpenJournal(context.Background(), filepath.Join(dir, "state"), server.JournalOptions{Base: site.Base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { journal.Close() })
	p.store = &versions.Store{Dir: filepath.Join(dir, "versions"), Journal: journal, Open: site.OpenPage, Public: site.Public}
	snapshot := &manifest.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: doors.Describe(site.Base), Public: site.Public}
	p.publisher = &server.Publisher{Inventory: p.store.Keeping(site), Journal: journal, Snapshot: snapshot}
	notifier := &doors.Notifier{Log: journal, Snapshot: snapshot, Base: site.Base, Public: site.Public, Ready: p.publisher.Ready}
	t.Cleanup(func() { notifier.Close(context.Background()) })
	notifier.Register(p.mux)
	p.mux.Handle("/", &versions.Handler{Store: p.store, Journal: journal, Base: site.Base, Public: site.Public})
	p.look(t)
	if err := p.store.Fill(context.Background()); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *published) look(t *testing.T) {
	t.Helper()
	if _, err := p.publisher.Turn(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// get sends exactly the given headers, and adds none.
func get(t *testing.T, url string, head ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, b
}

func dictionary(page string) string {
	sum := sha256.Sum256([]byte(page))
	return ":" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// A client that names a version gets the diff from it; all other responses are nginx's.
func TestVersionsBehindNginx(t *testing.T) {
	machine.Tool(t, "nginx")
	var lines []string
	for i := range 400 {
		lines = append(lines, fmt.Sprintf("<p>Line %d says %x.</p>", i, protocol.Sum(fmt.Append(nil, i))))
	}
	one := strings.Join(lines, "\n")
	two := strings.Replace(one, "Line 200 says", "Line 200 said", 1)
	p := publish(t, map[string]string{"index.html": one, "a/index.html": one, "a/page.html": one, "private.html": one,
		"robots.txt": "User-agent: *\nDisallow: /private.html\n", "style.css": "p{}"})
	var asked []string
	sidecar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path) // without a lock: there is one request at a time
		p.mux.ServeHTTP(w, r)
	}))
	defer sidecar.Close()
	url := behind(t, p.docroot, sidecar.Listener.Addr().String())
	for _, name := range []string{"index.html", "a/index.html", "a/page.html", "private.html"} {
		write(t, filepath.Join(p.docroot, name), two)
	}
	p.look(t)

	for _, path := range []string{"/", "/a/", "/a/page.html"} {
		asked = nil
		resp, plain := get(t, url+path)
		if string(plain) != two || len(asked) > 0 || resp.Header.Get("Use-As-Dictionary") != `match="`+path+`"` || !strings.Contains(resp.Header.Get("Vary"), "Available-Dictionary") {
			t.Errorf("%s: %s, %d bytes, asked for %v: %v", path, resp.Status, len(plain), asked, resp.Header)
		}
		resp, delta := get(t, url+path, "Accept-Encoding", "gzip, br, zstd, dcb, dcz", "Available-Dictionary", dictionary(one))
		if resp.Header.Get("Content-Encoding") != "dcz" || len(asked) != 1 || len(delta) > 300 || resp.Header.Get("Content-Length") != fmt.Sprint(len(delta)) ||
			resp.Header.Get("Vary") != "Accept-Encoding, Available-Dictionary" {
			t.Errorf("%s: %s, %d bytes, asked for %v: %v", path, resp.Status, len(delta), asked, resp.Header)
			continue
		}
		if got, err := coding.ApplyDelta([]byte(one), delta, 1<<20); err != nil || string(got) != two {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
		zstdTool(t, one, two, delta)
		// If the version is not stored, or the client does not accept dcz: the whole page, from the notifier or from nginx.
		if _, all := get(t, url+path, "Accept-Encoding", "dcz", "Available-Dictionary", dictionary("none")); string(all) != two {
			t.Errorf("%s: %d bytes", path, len(all))
		}
		asked = nil
		if _, all := get(t, url+path, "Accept-Encoding", "gzip;q=0", "Available-Dictionary", dictionary(one)); string(all) != two || len(asked) > 0 {
			t.Errorf("%s: %d bytes, asked for %v", path, len(all), asked)
		}
	}
	// Paths that the notifier does not know are served by nginx.
	for path, want := range map[string]string{"/private.html": two, "/style.css": "p{}", "/none.html": ""} {
		resp, got := get(t, url+path, "Accept-Encoding", "dcz", "Available-Dictionary", dictionary(one))
		if resp.Header.Get("Content-Encoding") != "" || want != "" && string(got) != want || want == "" && resp.StatusCode != 404 {
			t.Errorf("%s: %s, %d bytes: %v", path, resp.Status, len(got), resp.Header)
		}
	}
	// nginx forwards the notifier's endpoints too.
	for path, want := range map[string]int{"/parley/changes": 410, "/.well-known/parley": 200, "/robots.rdf": 200} {
		if resp, _ := get(t, url+path); resp.StatusCode != want {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	// While the notifier is down, nginx serves the file.
	sidecar.Close()
	for _, path := range []string{"/", "/a/", "/a/page.html"} {
		resp, got := get(t, url+path, "Accept-Encoding", "dcz", "Available-Dictionary", dictionary(one))
		if resp.StatusCode != 200 || string(got) != two {
			t.Errorf("%s: %s, %d bytes", path, resp.Status, len(got))
		}
	}
}

// A header that names a version gives no access that is denied without it.
func TestVersionsOfProtectedPages(t *testing.T) {
	machine.Tool(t, "nginx")
	names := []string{"open/page.html", "auth/page.html", "deny/page.html", "auth/index.html", "few/page.html"}
	old, now := make(map[string]string), make(map[string]string)
	for i, name := range names {
		old[name] = strings.Repeat(fmt.Sprintf("<p>The words of page %d are these.</p>\n", i), 50)
		now[name] = old[name] + "<p>And one more.</p>\n"
	}
	p := publish(t, old)
	sidecar := httptest.NewServer(p.mux)
	defer sidecar.Close()
	users := filepath.Join(t.TempDir(), "users")
	write(t, users, "anna:{PLAIN}secret\n")
	url := behind(t, p.docroot, sidecar.Listener.Addr().String(),
		"location /auth/ { auth_basic closed; auth_basic_user_file "+users+"; PAGES }",
		"location /deny/ { deny all; PAGES }",
		"location /few/ { limit_req zone=few; PAGES }",
		"limit_req_zone $server_name zone=few:1m rate=1r/m;")
	for name, page := range now {
		write(t, filepath.Join(p.docroot, name), page)
	}
	p.look(t)
	ask := func(name string, head ...string) (int, string) {
		t.Helper()
		resp, body := get(t, url+"/"+strings.TrimSuffix(name, "index.html"), append([]string{"Accept-Encoding", "dcz", "Available-Dictionary", dictionary(old[name])}, head...)...)
		return resp.StatusCode, resp.Header.Get("Content-Encoding") + string(body)
	}
	for _, c := range []struct {
		name string
		want int
		head []string
	}{
		{"open/page.html", 200, nil}, {"auth/page.html", 401, nil}, {"auth/index.html", 401, nil}, {"deny/page.html", 403, nil},
		{"auth/page.html", 401, []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("anna:wrong"))}},
		{"auth/page.html", 200, []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("anna:secret"))}},
		{"few/page.html", 200, nil}, {"few/page.html", 503, nil},
	} {
		status, body := ask(c.name, c.head...)
		if status != c.want || (status == 200) != strings.HasPrefix(body, "dcz") || status != 200 && strings.Contains(body, "The words") {
			t.Errorf("%s with %q: %d, want %d: %.60q", c.name, c.head, status, c.want, body)
		}
	}
	// The same holds while the notifier is down.
	sidecar.Close()
	for name, want := range map[string]int{"open/page.html": 200, "auth/page.html": 401, "deny/page.html": 403, "few/page.html": 503} {
		if status, body := ask(name); status != want || status != 200 && strings.Contains(body, "The words") {
			t.Errorf("%s with no notifier: %d, want %d", name, status, want)
		}
	}
}

// If nginx processes a page (here: SSI), a client that names a version gets the
// processed page too, never the file as it is on disk, when the notifier has
// nothing to send.
func TestVersionsOfProcessedPages(t *testing.T) {
	machine.Tool(t, "nginx")
	const secret = "what we paid for it"
	page := "<p>Hello.<!--#set var=\"note\" value=\"" + secret + "\" --></p>\n"
	p := publish(t, map[string]string{"made/page.html": page, "made/index.html": page, "robots.txt": "User-agent: *\nDisallow: /made/\n"})
	sidecar := httptest.NewServer(p.mux)
	defer sidecar.Close()
	url := behind(t, p.docroot, sidecar.Listener.Addr().String(), "location /made/ { ssi on; PAGES }")
	for _, notifier := range []string{"beside it", "down"} {
		if notifier == "down" {
			sidecar.Close()
		}
		for _, path := range []string{"/made/page.html", "/made/", "/made/page.html?a=b%3f"} {
			resp, got := get(t, url+path, "Accept-Encoding", "dcz", "Available-Dictionary", dictionary(page))
			if resp.StatusCode != 200 || strings.Contains(string(got), secret) || !strings.Contains(string(got), "Hello.") {
				t.Errorf("%s, the notifier %s: %s: %q", path, notifier, resp.Status, got)
			}
		}
	}
}

// zstdTool checks the delta with an independent program, zstd.
func zstdTool(t *testing.T, was, is string, delta []byte) {
	t.Helper()
	tool := machine.Tool(t, "zstd")
	name := filepath.Join(t.TempDir(), "base")
	write(t, name, was)
	cmd := exec.Command(tool, "-dc", "--patch-from="+name)
	cmd.Stdin = bytes.NewReader(delta[coding.DeltaHeader:])
	if out, err := cmd.Output(); err != nil || string(out) != is {
		t.Errorf("%v: %d bytes, %v", cmd, len(out), err)
	}
}
