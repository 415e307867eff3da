package internal_test

import (
	"encoding/json"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"
)

const module = "github.com/parleyweb/parley"

// ours says which of our packages a package may import: a statement of
// policy, so that the picture in ARCHITECTURE.md stays true. What is not
// listed may import none. Tests are free, but for server and client below.
var ours = map[string][]string{
	"protocol":                     {"internal/xmlpull"},
	"internal/xmlpull":             {},
	"internal/robots":              {"internal/clock"},
	"internal/wsconn":              {},
	"internal/html":                {},
	"internal/inet":                {},
	"internal/fetch":               {"internal/inet"},
	"internal/boltfile":            {},
	"internal/pause":               {},
	"internal/chart":               {"internal/digits"},
	"internal/digits":              {},
	"internal/admin":               {"internal/chart", "internal/digits", "internal/inet"},
	"internal/clock":               {},
	"internal/machine":             {"protocol", "internal/coding", "internal/graph", "internal/html"},
	"internal/must":                {},
	"internal/command":             {"internal/pause"},
	"internal/front":               {"protocol"},
	"internal/endtoend":            {},
	"internal/journal":             {"protocol", "internal/boltfile"},
	"internal/nats/jetlog":         {"protocol", "internal/atomicfile", "internal/journal", "internal/pause", "server/content"},
	"internal/nats/cluster":        {"protocol", "internal/atomicfile", "internal/coding", "internal/engine/fresh", "internal/engine/contents", "internal/engine/partition", "internal/nats/jetlog", "internal/pause"},
	"internal/sitetest":            {"protocol", "server", "server/archive", "server/cel", "server/doors", "server/inventory", "server/manifest", "server/versions", "internal/pause"},
	"internal/sitetest/warctest":   {"internal/coding", "internal/warc"},
	"internal/coding":              {},
	"internal/graph":               {"internal/coding"},
	"internal/atomicfile":          {},
	"internal/maintext":            {"protocol"},
	"internal/sitemap":             {"protocol", "internal/xmlpull"},
	"internal/feed":                {"protocol"},
	"internal/accesslog":           {"internal/coding"},
	"internal/bundle":              {"protocol", "internal/coding", "internal/warc"},
	"server":                       {"protocol", "internal/atomicfile", "internal/clock", "internal/fetch", "internal/holder", "internal/inet", "internal/journal", "internal/pause", "server/content", "server/inventory", "server/manifest", "server/internal/compare", "server/internal/docroot", "server/internal/stat", "server/internal/web"},
	"server/doors":                 {"protocol", "internal/bundle", "internal/clock", "internal/coding", "internal/pause", "internal/wsconn", "server/caller", "server/content", "server/internal/describe", "server/manifest", "server/internal/limit", "server/internal/web"},
	"server/internal/describe":     {},
	"server/inventory":             {"protocol", "internal/digits"},
	"server/manifest":              {"protocol", "internal/atomicfile", "internal/clock", "internal/coding", "internal/journal", "internal/pause", "server/internal/stat", "server/internal/web"},
	"server/archive":               {"protocol", "server", "server/internal/web", "internal/atomicfile", "internal/bundle", "internal/coding", "internal/warc", "internal/clock", "internal/pause", "server/content"},
	"server/versions":              {"protocol", "server", "server/inventory", "internal/atomicfile", "internal/coding", "internal/pause", "server/content"},
	"internal/site/evidence":       {"protocol", "internal/inet", "server", "server/inventory", "internal/fetch", "internal/html", "internal/clock", "internal/pause", "server/content"},
	"internal/site/forms":          {"protocol", "internal/html", "internal/maintext", "internal/site/evidence", "server", "server/archive", "server/caller", "server/content", "server/doors", "server/inventory", "server/versions"},
	"internal/site/static":         {"protocol", "internal/atomicfile", "server", "internal/journal", "internal/coding", "internal/feed", "internal/robots", "internal/sitemap", "internal/clock"},
	"internal/site/ping":           {"protocol", "internal/atomicfile", "internal/inet", "server", "internal/journal", "internal/fetch", "internal/clock", "internal/pause"},
	"server/catalog":               {"protocol", "server", "server/inventory", "server/internal/public", "internal/coding", "internal/feed", "internal/html", "internal/robots", "internal/sitemap", "internal/fetch", "internal/clock", "internal/pause"},
	"server/cel":                   {"protocol", "server/caller"},
	"internal/site/agent":          {"protocol", "internal/atomicfile", "server/caller"},
	"internal/census":              {"protocol", "client/collection", "internal/engine/contents", "internal/engine/fresh", "internal/engine/frontier", "internal/graph", "internal/html"},
	"internal/report":              {"protocol", "internal/accesslog", "internal/chart", "internal/digits", "internal/robots"},
	"internal/check":               {"protocol", "internal/digits", "internal/xmlpull", "internal/coding", "internal/feed", "internal/robots", "internal/sitemap", "internal/fetch", "internal/html", "internal/clock", "internal/pause"},
	"client":                       {"protocol", "internal/bundle", "internal/coding", "internal/wsconn", "internal/fetch", "internal/pause"},
	"internal/engine/frontier":     {},
	"internal/engine/fresh":        {},
	"internal/engine/poll":         {},
	"internal/browse":              {"internal/accesslog", "internal/coding", "internal/engine/seed"},
	"internal/sim":                 {"internal/engine/fresh", "internal/engine/frontier", "internal/engine/poll", "internal/engine/trust", "internal/coding"},
	"internal/sim/order":           {"protocol", "internal/engine/frontier", "internal/graph"},
	"internal/sim/batch":           {"internal/engine/frontier", "internal/graph"},
	"client/crawl/internal/rank":   {"protocol", "client/collection", "internal/engine/frontier", "internal/graph", "internal/pause"},
	"internal/engine/trust":        {"protocol"},
	"internal/engine/steer":        {"protocol"},
	"client/index":                 {"internal/html"},
	"internal/engine/indexnow":     {"protocol", "internal/fetch", "internal/clock"},
	"internal/probe":               {"protocol", "internal/digits", "client", "internal/engine/fresh", "internal/engine/trust", "internal/engine/seed", "internal/feed", "internal/html", "internal/robots", "internal/sitemap", "internal/fetch", "internal/clock", "internal/pause"},
	"client/collection":            {"protocol", "client", "internal/engine/contents", "internal/engine/partition", "internal/engine/references", "client/collection/internal/adjacency", "client/collection/internal/changes", "client/collection/internal/filetree", "client/collection/internal/mirror", "client/collection/internal/outbox", "client/collection/internal/queue", "client/collection/internal/record", "client/collection/internal/urls", "internal/engine/fresh", "internal/engine/frontier", "internal/engine/steer", "internal/journal", "internal/maintext", "internal/warc", "internal/boltfile", "internal/clock", "internal/pause"},
	"client/crawl":                 {"protocol", "client", "client/collection", "client/crawl/internal/budget", "client/crawl/internal/crosshost", "client/crawl/internal/equal", "client/crawl/internal/exchange", "client/crawl/internal/explain", "client/crawl/internal/family", "client/crawl/internal/intake", "client/crawl/internal/judgement", "client/crawl/internal/moved", "client/crawl/internal/sitequeue", "client/crawl/internal/told", "internal/bucket", "internal/engine/gather", "internal/engine/harvest", "internal/engine/seed", "internal/engine/fresh", "internal/engine/frontier", "internal/engine/partition", "internal/engine/poll", "client/crawl/internal/rank", "internal/engine/steer", "internal/engine/trust", "internal/clock", "internal/fetch", "internal/inet", "internal/pause"},
	"internal/engine/partition":    {"protocol", "internal/atomicfile", "internal/engine/fresh"},
	"internal/engine/harvest":      {"protocol", "internal/engine/frontier", "internal/engine/partition", "internal/clock", "internal/coding", "internal/inet", "internal/fetch", "internal/pause"},
	"client/crawl/internal/family": {"internal/engine/frontier"},
	"internal/engine/gather":       {"protocol", "internal/html", "internal/maintext", "internal/urlref", "internal/engine/references"},
	"internal/engine/references":   {"protocol"},
	"internal/engine/seed":         {"protocol", "internal/engine/partition", "internal/coding", "internal/feed", "internal/inet", "internal/robots", "internal/sitemap", "internal/urlref"},
	"internal/warc":                {"internal/atomicfile", "internal/coding"},
	"internal/bucket":              {"internal/atomicfile"},
	"internal/urlref":              {"protocol"},
	"internal/filename":            {},
	"internal/fakeweb":             {"protocol", "internal/pause"},
	"internal/holder":              {"internal/pause"},
	"internal/textual":             {"internal/html"},

	"client/crawl/internal/budget":    {"client/collection", "internal/engine/fresh", "internal/engine/frontier"},
	"client/crawl/internal/crosshost": {"protocol", "client/collection", "internal/engine/harvest", "internal/engine/seed", "internal/fetch"},
	"client/crawl/internal/equal":     {"protocol", "client/collection", "internal/engine/frontier", "internal/engine/gather"},
	"client/crawl/internal/exchange":  {"client/collection", "internal/engine/partition", "internal/pause"},
	"client/crawl/internal/explain":   {"protocol", "client/collection", "internal/engine/fresh", "internal/engine/seed", "internal/engine/trust"},
	"client/crawl/internal/intake":    {"internal/pause"},
	"client/crawl/internal/judgement": {"protocol", "client", "client/collection", "internal/engine/frontier", "internal/engine/trust", "internal/engine/fresh"},
	"client/crawl/internal/moved":     {"protocol", "client", "client/collection", "client/crawl/internal/crosshost", "internal/engine/harvest", "internal/engine/seed", "internal/pause"},
	"client/crawl/internal/sitequeue": {"internal/engine/frontier"},
	"client/crawl/internal/told":      {"client/collection", "internal/engine/fresh"},

	"internal/engine/contents":             {"protocol", "internal/atomicfile", "internal/bucket", "internal/warc"},
	"client/collection/internal/adjacency": {"client/collection/internal/record", "internal/engine/frontier", "internal/engine/references"},
	"client/collection/internal/changes":   {"protocol", "internal/atomicfile", "internal/engine/contents", "client/collection/internal/record", "internal/boltfile", "internal/journal"},
	"client/collection/internal/filetree":  {"internal/boltfile", "internal/filename"},
	"client/collection/internal/mirror":    {"protocol", "client/collection/internal/changes", "client/collection/internal/filetree", "client/collection/internal/record", "internal/engine/frontier", "internal/filename"},
	"client/collection/internal/outbox":    {"client/collection/internal/record", "internal/engine/partition"},
	"client/collection/internal/queue":     {"client/collection/internal/record", "internal/engine/frontier"},
	"client/collection/internal/record":    {"protocol", "internal/engine/frontier", "internal/boltfile"},
	"client/collection/internal/urls":      {"protocol", "client/collection/internal/record", "internal/engine/frontier", "internal/boltfile"},

	// What publishing and the doors share, and the floors of server, each below those before it.
	"server/caller":           {"protocol", "server/internal/stat"},
	"server/content":          {"protocol"},
	"server/internal/compare": {"protocol", "internal/clock", "internal/journal", "internal/maintext", "server/inventory", "server/internal/stat"},
	"server/internal/docroot": {"protocol", "internal/clock", "internal/pause", "internal/robots", "server/inventory", "server/internal/public", "server/internal/stat"},
	"server/internal/public":  {"protocol", "internal/fetch", "internal/robots", "server/internal/stat"},
	"server/internal/limit":   {"internal/pause", "server/internal/web"},
	"server/internal/web":     {"protocol", "internal/coding"},
	"server/internal/stat":    {},

	"internal/anysite/record": {},
	"internal/anysite/judge":  {"internal/anysite/record"},
	"internal/anysite":        {"internal/anysite/record", "internal/anysite/judge"},
}

// theirs lists the packages that may import each third-party package.
var theirs = map[string][]string{
	"github.com/beevik/etree":                         {"protocol"},
	"github.com/fsnotify/fsnotify":                    {"server/internal/docroot"},
	"github.com/gorilla/websocket":                    {"internal/wsconn", "bench/listeners"}, // there it is the peer
	"go.etcd.io/bbolt":                                {"internal/boltfile", "internal/journal", "client/collection", "client/collection/internal/adjacency", "client/collection/internal/changes", "client/collection/internal/mirror", "client/collection/internal/outbox", "client/collection/internal/queue", "client/collection/internal/urls"},
	"github.com/bmatcuk/doublestar/v4":                {"server/internal/public"},
	"github.com/peterbourgon/ff/v3":                   {"internal/command"},
	"github.com/schollz/progressbar/v3":               {"internal/command"},
	"golang.org/x/term":                               {"internal/command"},
	"github.com/prometheus/client_golang":             {"cmd/notifier", "cmd/crawler"},
	"maragu.dev/gomponents":                           {"cmd/notifier", "cmd/crawler", "cmd/crawler/internal/webreport", "internal/admin", "internal/chart", "internal/report"},
	"github.com/klauspost/compress":                   {"internal/coding", "internal/anysite"},
	"github.com/tetratelabs/wazero":                   {"internal/site/agent"},
	"github.com/mmcdole/gofeed":                       {"internal/feed"},
	"golang.org/x/net":                                {"internal/html", "internal/textual", "internal/engine/harvest", "internal/engine/partition", "internal/command", "bench/crawl/reference", "internal/anysite", "bench/growth"},
	"github.com/JohannesKaufmann/html-to-markdown/v2": {"internal/textual"},
	"cel.dev/cel-go":                                  {"server/cel"},
	"github.com/santhosh-tekuri/jsonschema/v6":        {}, // the tests of server/internal/describe
	"gonum.org/v1/gonum":                              {}, // the tests of internal/graph
	"github.com/minio/minio-go/v7":                    {"internal/bucket"},
	"github.com/rclone/gofakes3":                      {},                                                // the tests of internal/bucket
	"github.com/nats-io/nats.go":                      {"internal/nats/jetlog", "internal/nats/cluster"}, // what speaks to NATS is below internal/nats
	"github.com/nats-io/nats-server/v2":               {"internal/nats/natstest"},                        // and tests
}

// free packages may import anything of ours: they are wiring, programs to read, or measurements.
func free(pkg string) bool {
	return strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "examples/") || strings.HasPrefix(pkg, "bench/")
}

type goPackage struct {
	ImportPath                string
	Imports                   []string
	TestImports, XTestImports []string
	Deps                      []string
}

func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps"}, args...)...)
	cmd.Dir = ".." // the root of the module
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var list []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func TestImportRules(t *testing.T) {
	for _, p := range goList(t, "./...") {
		pkg := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imp := range p.Imports {
			if rel, ok := strings.CutPrefix(imp, module+"/"); ok {
				if !free(pkg) && !contains(ours[pkg], rel) {
					t.Errorf("%s imports %s: not in the table of this test", pkg, rel)
				}
				continue
			}
			if path.Base(imp) == "template" && !strings.HasPrefix(pkg, "examples/") {
				t.Errorf("%s imports %s, which calls methods by name: the linker would keep all methods of all types", pkg, imp)
			}
			if home, ok := homeOf(imp); ok && !contains(home, pkg) {
				t.Errorf("%s imports %s, which only %v may import", pkg, imp, home)
			} else if !ok && strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") && !standardExtension(imp, pkg) {
				t.Errorf("%s imports %s, which is not in the table of this test", pkg, imp)
			}
		}
	}
}

// standardExtension allows golang.org/x/sys where a package speaks to the operating system.
func standardExtension(imp, pkg string) bool {
	return strings.HasPrefix(imp, "golang.org/x/sys/") && (strings.HasPrefix(pkg+"/", "server/") || pkg == "client/collection/internal/filetree" || pkg == "internal/anysite" || free(pkg))
}

func homeOf(imp string) ([]string, bool) {
	for p := imp; p != "."; p = path.Dir(p) {
		if home, ok := theirs[p]; ok {
			return home, true
		}
	}
	return nil, false
}

func TestServerAndClientDoNotImportEachOther(t *testing.T) {
	for _, p := range goList(t, "./server", "./client/...") {
		pkg := strings.TrimPrefix(p.ImportPath, module+"/")
		other := module + "/server"
		if pkg == "server" {
			other = module + "/client"
		}
		for _, imp := range append(append(p.Deps, p.TestImports...), p.XTestImports...) {
			if imp == other || strings.HasPrefix(imp, other+"/") {
				t.Errorf("%s imports %s", pkg, imp)
			}
		}
	}
}

// A site can be published without doors, and doors can be opened to any journal: what both need
// lies below both.
func TestPublishingAndDoorsDoNotImportEachOther(t *testing.T) {
	for _, p := range goList(t, "./server", "./server/doors") {
		for _, dep := range p.Deps {
			if dep == module+"/server" || dep == module+"/server/doors" {
				t.Errorf("%s imports %s", p.ImportPath, dep)
			}
		}
	}
}

// The SDK must stay light: a program that follows a site links no database,
// and a site links no HTML parser and no charts.
func TestLightDependencies(t *testing.T) {
	for _, c := range []struct {
		pkg       string
		forbidden []string
	}{
		{"./client", []string{"go.etcd.io/bbolt", "github.com/prometheus", "github.com/fsnotify"}},
		{"./protocol", []string{"net/http", "os/exec", "go.etcd.io/bbolt"}},
		{"./cmd/...", []string{"github.com/nats-io/nats-server", "testing"}},
		{"./server", []string{"golang.org/x/net/html", "github.com/prometheus", "html/template"}},
	} {
		for _, p := range goList(t, c.pkg) {
			for _, dep := range p.Deps {
				for _, f := range c.forbidden {
					if dep == f || strings.HasPrefix(dep, f+"/") {
						t.Errorf("%s depends on %s", c.pkg, dep)
					}
				}
			}
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
