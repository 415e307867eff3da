package parleycaddy_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"golang.org/x/crypto/bcrypt"

	_ "github.com/parleyweb/parley/caddy"
	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
)

// certificate is the file of a certificate for 127.0.0.1 that signs itself, and key that of its key.
var certificate, key string

// TestMain makes this process trust the certificate, which it serves and, asking as anybody, is served.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "parley-caddy-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
		signed, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
		if err != nil {
			panic(err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			panic(err)
		}
		for file, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
			if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
				panic(err)
			}
		}
		os.Setenv("SSL_CERT_FILE", certificate)
		os.Setenv("XDG_DATA_HOME", dir)
		return m.Run()
	}())
}

// A rig is a site that Caddy serves.
type rig struct {
	t                    *testing.T
	base, docroot, state string
	listen               string
	password             string // encoded, of the directory /staff/
}

func newRig(t *testing.T) *rig {
	dir := t.TempDir()
	password, err := bcrypt.GenerateFromPassword([]byte("not needed"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, listen: front.FreeAddress(), docroot: filepath.Join(dir, "www"), state: filepath.Join(dir, "state", "site.db"), password: string(password)}
	r.base = "https://" + r.listen + "/"
	r.write("robots.txt", "User-agent: *\nDisallow:\n")
	r.write("index.html", page("The lighthouse"))
	r.write("rooms/keeper.html", page("The keeper's room"))
	r.write("staff/rota.html", page("Who is on duty"))
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
		r.eventually("the end of all goroutines", func() bool { return goroutines() == "" })
	})
	return r
}

func page(text string) string {
	return "<!doctype html><html lang=en><title>" + text + "</title><p>" + text + ".</html>\n"
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	file := filepath.Join(r.docroot, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// caddyfile returns the site's Caddyfile, with more options of parley.
func (r *rig) caddyfile(more ...string) string {
	return fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https disable_redirects
	storage file_system %[1]s.caddy
	log {
		output discard
	}
	servers {
		protocols h1 h2
	}
}
https://%[2]s {
	bind 127.0.0.1
	tls %[3]s %[4]s
	root * %[5]s
	basic_auth /staff/* {
		keeper %[6]s
	}
	encode
	parley {
		base %[7]s
		docroot %[5]s
		state %[1]s
		%[8]s
	}
	try_files {path} {path}/ /index.html
	file_server
}
`, r.state, r.listen, certificate, key, r.docroot, r.password, r.base, strings.Join(more, "\n\t\t"))
}

// adapt translates a Caddyfile.
func adapt(caddyfile string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	return config, err
}

// load makes Caddy run a Caddyfile, in place of the one that it runs.
func load(caddyfile string) error {
	config, err := adapt(caddyfile)
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

func (r *rig) load(more ...string) {
	r.t.Helper()
	if err := load(r.caddyfile(more...)); err != nil {
		r.t.Fatal(err)
	}
}

// eventually waits for a condition.
func (r *rig) eventually(what string, is func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			r.t.Fatalf("gave up waiting for %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// onStream returns the counts of a form. Caddy is asked for them on the socket beside the state; while it is not open, there are none.
func (r *rig) onStream(form string) doors.FormStats {
	r.t.Helper()
	var s struct{ Forms map[string]doors.FormStats }
	if err := server.Ask(r.t.Context(), r.state, "GET", "/forms", &s); err != nil && !errors.Is(err, server.ErrNoHolder) {
		r.t.Fatal(err)
	}
	return s.Forms[form]
}

// goroutines returns the stacks of all goroutines in code of ours, but for the one that calls it.
func goroutines() string {
	buf := make([]byte, 4<<20)
	var ours []string
	for i, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if i > 0 && strings.Contains(stack, "parleyweb/parley/") && !strings.Contains(stack, "testing.(*T).Run") {
			ours = append(ours, stack)
		}
	}
	return strings.Join(ours, "\n\n")
}

// transport speaks HTTP/2 where the server does, and counts its connections.
func transport(t *testing.T) (tr *http.Transport, connections *atomic.Int64) {
	roots := x509.NewCertPool()
	text, err := os.ReadFile(certificate)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal("certificate cannot be used", err)
	}
	connections = new(atomic.Int64)
	tr = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			connections.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr, connections
}

// get returns the status, the body and the protocol of a response.
func get(tr *http.Transport, url string) (status int, body, proto string, err error) {
	resp, err := (&http.Client{Transport: tr}).Get(url)
	if err != nil {
		return 0, "", "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Proto, err
}

// programs builds Parley's commands, and returns their directory.
func programs(t *testing.T) string {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./cmd/crawler", "./cmd/notifier")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	return dir
}

// A site in a Caddyfile is mirrored over HTTPS by the real crawler, edits reach the mirror by the stream, and what a password protects
// reaches nobody.
func TestSite(t *testing.T) {
	bin := programs(t)
	r := newRig(t)
	r.load("preset high", "trust-docroot")
	mirror := filepath.Join(t.TempDir(), "mirror")
	var log bytes.Buffer
	crawler := exec.Command(filepath.Join(bin, "crawler"), "follow", r.base, "--into", mirror, "--as", "page", "--ca", certificate, "--hurry", "100ms")
	crawler.Stderr = &log
	if err := crawler.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		crawler.Process.Kill()
		crawler.Wait()
		if t.Failed() {
			t.Logf("crawler:\n%s", log.String())
		}
	}()
	same := func(name string) func() bool {
		return func() bool {
			ours, err := os.ReadFile(filepath.Join(r.docroot, filepath.FromSlash(name)))
			theirs, err2 := os.ReadFile(filepath.Join(mirror, filepath.FromSlash(name)))
			return err == nil && err2 == nil && bytes.Equal(ours, theirs)
		}
	}
	r.eventually("the mirror", func() bool { return same("index.html")() && same("rooms/keeper.html")() })

	r.eventually("the stream", func() bool { return r.onStream("page").Streams == 1 })
	before := r.onStream("page").Frames
	r.write("rooms/keeper.html", page("The keeper's room, painted"))
	r.eventually("the edited page", same("rooms/keeper.html"))
	r.write("rooms/lamp.html", page("The lamp"))
	r.eventually("the new page", same("rooms/lamp.html"))
	if n := r.onStream("page").Frames; n < before+2 {
		t.Errorf("frames on the stream: %d, then %d", before, n)
	}

	tr, _ := transport(t)
	for path, want := range map[string]string{"robots.rdf": "rooms/keeper.html", ".well-known/parley": `"stream":"wss://`, "rooms/lamp.html": "The lamp",
		"no/such": "The lighthouse"} {
		status, body, proto, err := get(tr, r.base+path)
		if err != nil || proto != "HTTP/2.0" || status != 200 || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %s, %v\n%s", path, status, proto, err, body)
		}
		if strings.Contains(body, "staff") {
			t.Errorf("GET %s tells of a page behind a password:\n%s", path, body)
		}
	}
	if status, _, _, err := get(tr, r.base+"staff/rota.html"); err != nil || status != 401 {
		t.Errorf("page behind a password: %d, %v", status, err)
	}
	if status, _, _, err := get(tr, r.base+"parley/nothing"); err != nil || status != 404 {
		t.Errorf("door that does not exist: %d, %v", status, err)
	}
	if _, err := os.Stat(filepath.Join(mirror, "staff")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the mirror has pages behind a password:", err)
	}
	out, err := exec.Command(filepath.Join(bin, "notifier"), "status", "--base", r.base, "--state", r.state).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "running") || !strings.Contains(string(out), "1 more are refused") {
		t.Errorf("notifier status: %v\n%s", err, out)
	}
}

// While nobody answers at the base URL, as before there is a certificate, nothing is announced: what is behind a password is not known yet.
func TestFirstStart(t *testing.T) {
	r := newRig(t)
	elsewhere := *r
	elsewhere.listen = front.FreeAddress()
	elsewhere.load()
	tr, _ := transport(t)
	r.eventually("the site without a server", func() bool {
		return server.Ask(t.Context(), r.state, "GET", "/status", new(server.Status)) == nil
	})
	if status, body, _, err := get(tr, "https://"+elsewhere.listen+"/robots.rdf"); err != nil || status != 503 {
		t.Errorf("manifest before the first scan: %d, %v\n%s", status, err, body)
	}
	r.load()
	manifest := ""
	r.eventually("the manifest", func() bool {
		status, body, _, err := get(tr, r.base+"robots.rdf")
		manifest = body
		return err == nil && status == 200
	})
	if !strings.Contains(manifest, "rooms/keeper.html") || strings.Contains(manifest, "staff") {
		t.Errorf("manifest:\n%s", manifest)
	}
}

// A follower has a copy of what a site offers.
type follower struct {
	mu     sync.Mutex // guards the fields below
	pages  map[string]protocol.Digest
	cursor protocol.Cursor
	resets int
}

// follow follows a site until the test ends.
func follow(t *testing.T, base string, tr *http.Transport) *follower {
	f := &follower{pages: map[string]protocol.Digest{}}
	ctx, cancel := context.WithCancel(context.Background())
	var owned sync.WaitGroup
	owned.Go(func() {
		src := &client.Source{Base: base, HTTP: &http.Client{Transport: tr}, Hurry: 100 * time.Millisecond}
		for step, err := range client.Follow(ctx, src, protocol.Cursor{}) {
			if err != nil {
				t.Log(err)
				continue
			}
			f.apply(step)
		}
	})
	t.Cleanup(func() { cancel(); owned.Wait() })
	return f
}

func (f *follower) apply(step client.Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if step.Reset {
		f.resets++
	}
	if !step.Cursor.IsZero() {
		f.cursor = step.Cursor
	}
	for _, c := range step.Changes {
		if c.From != "" {
			delete(f.pages, c.From)
		}
		if c.Op == protocol.Delete {
			delete(f.pages, c.Item.URL)
		} else {
			f.pages[c.Item.URL] = c.Item.Digest
		}
	}
}

// has reports whether the follower knows the present content of a page.
func (f *follower) has(r *rig, name string) bool {
	text, err := os.ReadFile(filepath.Join(r.docroot, filepath.FromSlash(name)))
	f.mu.Lock()
	defer f.mu.Unlock()
	return err == nil && f.pages[r.base+name] == sha256.Sum256(text)
}

// Reloads with the same options leave the site and its streams alone. With others, the state is handed over: nothing is lost, and
// nothing has to be read again. A config that fails, or is only validated, changes nothing.
func TestReload(t *testing.T) {
	r := newRig(t)
	r.load()
	tr, connections := transport(t)
	f := follow(t, r.base, tr)
	r.eventually("the stream", func() bool { return r.onStream("meta").Streams == 1 })
	f.mu.Lock()
	began, epoch := connections.Load(), f.cursor.Epoch
	f.mu.Unlock()

	// Somebody reads the site all the time.
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	var read atomic.Int64
	others, _ := transport(t)
	for _, path := range []string{"rooms/keeper.html", ".well-known/parley", "robots.rdf"} {
		readers.Go(func() {
			for ctx.Err() == nil {
				status, _, _, err := get(others, r.base+path)
				if err != nil {
					continue // a connection that waits for the listener of the old config is reset
				}
				if status != 200 && (status != 503 || path == "rooms/keeper.html") {
					t.Errorf("GET %s: %d", path, status)
					return
				}
				read.Add(1)
			}
		})
	}
	more := func() {
		n := read.Load()
		r.eventually("other readers", func() bool { return read.Load() > n+20 })
	}

	edits := 0
	edit := func() string {
		edits++
		name := fmt.Sprintf("rooms/%d.html", edits%5)
		r.write(name, page(fmt.Sprint("Room, edit ", edits)))
		return name
	}
	for range 4 {
		edit()
		r.load()
		name := edit()
		r.eventually("an edit after a reload with the same options", func() bool { return f.has(r, name) })
		more()
	}
	if n := connections.Load(); n != began {
		t.Errorf("reloads with the same options: %d connections, then %d", began, n)
	}

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	broken := r.caddyfile("grace 5m") + "\nhttp://" + taken.Addr().String() + " {\n\tbind 127.0.0.1\n\trespond no\n}\n"
	if err := load(broken); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("config with a port in use: %v", err)
	}
	var config *caddy.Config
	if text, err := adapt(r.caddyfile("grace 5m")); err != nil {
		t.Fatal(err)
	} else if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	} else if err := caddy.Validate(config); err != nil {
		t.Error(err)
	}
	name := edit()
	r.eventually("an edit after configs that do not run", func() bool { return f.has(r, name) })
	if n := connections.Load(); n != began {
		t.Errorf("configs that do not run: %d connections, then %d", began, n)
	}

	for i := range 2 {
		edit()
		r.load(fmt.Sprintf("grace %dm", 2+i))
		name := edit()
		r.eventually("an edit after a reload with other options", func() bool { return f.has(r, name) })
		more()
	}
	cancel()
	readers.Wait()

	// Without the directive the site ends; with it, it goes on where it was.
	up := r.caddyfile()
	down := up[:strings.Index(up, "\troot *")] + "\trespond 503\n}\n"
	if err := load(down); err != nil {
		t.Fatal(err)
	}
	if err := server.Ask(t.Context(), r.state, "GET", "/status", new(server.Status)); !errors.Is(err, server.ErrNoHolder) {
		t.Error("the state of a site that is not in the config is open:", err)
	}
	name = edit()
	r.load()
	r.eventually("an edit from when there was no site", func() bool { return f.has(r, name) })
	for i := range 5 {
		if name := fmt.Sprintf("rooms/%d.html", i); !f.has(r, name) {
			t.Errorf("%s: its last edit is lost", name)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resets != 1 || f.cursor.Epoch != epoch {
		t.Errorf("the manifest was read %d times; epoch %s, at first %s", f.resets, f.cursor.Epoch, epoch)
	}
}

// A wrong directive is an error of the config, which says what to write.
func TestWrongOptions(t *testing.T) {
	r := newRig(t)
	inside := *r
	inside.state = filepath.Join(r.docroot, "a", "site.db")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(r.docroot, link); err != nil {
		t.Fatal(err)
	}
	linked := *r
	linked.state = filepath.Join(link, "site.db")
	other := strings.NewReplacer("https://"+r.listen+" {", "http://127.0.0.1:1 {", "tls "+certificate+" "+key, "")
	block := r.caddyfile()[strings.Index(r.caddyfile(), "https://"):]
	for caddyfile, want := range map[string]string{
		r.caddyfile("docrot /srv"):                                `unknown option "docrot": want one of base, clean-urls, docroot,`,
		r.caddyfile("heal yes"):                                   "wrong argument count",
		r.caddyfile("grace"):                                      "wrong argument count",
		r.caddyfile("grace soon"):                                 "option grace:",
		r.caddyfile("grace -1s"):                                  "want more than 0",
		r.caddyfile("base https://www.example.org/"):              "option base is set twice",
		r.caddyfile("preset huge"):                                "preset huge: want low, moderate or high",
		r.caddyfile("exclude [a"):                                 "[a",
		strings.Replace(r.caddyfile(), "base http", "#", 1):       "base is missing: the URL",
		strings.Replace(r.caddyfile(), "base https", "base f", 1): "base: ",
		strings.Replace(r.caddyfile(), "\tdocroot", "#", 1):       `docroot is missing: name the directory of "root" here too`,
		inside.caddyfile():                                        "is inside the docroot",
		linked.caddyfile():                                        "is inside the docroot",
		r.caddyfile("grace 2m") + other.Replace(block):            "two sites with other options use the state",
	} {
		if err := load(caddyfile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror: %v\nwant:  %s", caddyfile, err, want)
		}
	}
}
