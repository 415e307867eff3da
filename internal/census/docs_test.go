package census_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/census"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// counts is a second count of a crawl's pages, from its archives alone: awk reads the records of WARC files that are not compressed, and
// lines of CDXJ. It prints a word that says what is counted, what it is, and the number.
const counts = `
cat "$1"/warc/*.warc | LC_ALL=C awk '
	{ raw = length($0) + 1; sub(/\r$/, "") }
	state == "" && /^WARC\/1/ { state = "fields"; kind = uri = digest = ""; length_ = 0; next }
	state == "fields" && /^WARC-Type: /           { kind = $2 }
	state == "fields" && /^WARC-Target-URI: /     { uri = $2 }
	state == "fields" && /^WARC-Payload-Digest: / { digest = $2 }
	state == "fields" && /^Content-Length: /      { left = $2 }
	state == "fields" && $0 == ""                 { state = "block"; header = 1; status = type = ""; next }
	state == "block" && header {
		left -= raw
		if (status == "") status = $2
		if (tolower($1) == "content-type:") { type = tolower($2); sub(/;.*/, "", type) }
		if ($0 == "" || kind != "response" && kind != "revisit") header = 0
		if ($0 == "" && kind == "response") bytes[digest] = left
		if ($0 == "" && (kind == "response" || kind == "revisit") && status == 200) { of[uri] = digest; types[uri] = type }
		if (header || left > 0) next
	}
	state == "block" && !header { left -= raw; if (left <= 0) state = "" }
	END {
		for (uri in of) {
			split(uri, part, "/")
			lengths[bytes[of[uri]]]++; pages[part[3]]++; all++; sum += bytes[of[uri]]; size[part[3]] += bytes[of[uri]]; typed[types[uri]]++; typedBytes[types[uri]] += bytes[of[uri]]
		}
		print "all", "pages", all; print "all", "bytes", sum
		for (h in pages) print "pages", h, pages[h]
		for (h in size) print "bytes", h, size[h]
		for (t in typed) print "type", t, typed[t]
		for (n in lengths) print "length", n, lengths[n]
		for (t in typedBytes) print "typebytes", t, typedBytes[t]
	}'
cat "$1"/warc/*.cdxj | grep -v '^!' | sed 's/.*"status": "\([0-9]*\)".*/\1/' | sort | uniq -c | awk '{ print "status", $2, $1 }'
`

// The census of a crawl of two documentation sites has the numbers that awk finds in its archives, and their links. The languages of the
// Apache manual's pages, as found by their words, are those of their directories.
func TestDocumentationSites(t *testing.T) {
	git, manual, hosts := machine.GitDoc(t), machine.ApacheDoc(t), []string{"git.example", "apache.example"}
	machine.Tool(t, "awk")
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC))) // virtual: the files are no younger
		w := fakeweb.New(fakeweb.Options{Seed: 1})
		defer w.Close()
		var start []string
		for i, root := range []string{git, manual} {
			s, files := w.AddAt(fakeweb.Honest, hosts[i], netip.AddrFrom4([4]byte{20, 0, 0, byte(i)})), http.FileServer(http.Dir(root))
			s.Latency = 0
			s.Handler = func(rw http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, ".html") {
					rw.Header().Set("Content-Type", "text/html") // the pages say themselves how they are encoded
				}
				if dir := strings.Split(r.URL.Path, "/")[1]; root == manual && dir != "de" && dir != "ja" && dir != "ko" {
					return false
				}
				files.ServeHTTP(rw, r)
				return true
			}
			start = append(start, s.Origin+"/")
		}
		w.Site(hosts[1]).Put("/", `<a href="/de/">German</a> <a href="/ja/">Japanese</a> <a href="/ko/">Korean</a> <a href="http://git.example/">Git</a>`)
		crawled(t, w, dir, start, func(o *crawl.Options) { o.Collection.Coding = "none" })
	})
	c := taken(t, dir, census.Options{})

	out, err := exec.Command("sh", "-c", counts, "sh", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	second := map[string]count{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			t.Fatalf("awk printed %s", line)
		}
		n := must.Get(strconv.Atoi(words[2]))
		if second[words[0]] == nil {
			second[words[0]] = count{}
		}
		second[words[0]][words[1]] = n
	}
	for name, want := range map[string]int{"pages": second["all"]["pages"], "bytes": second["all"]["bytes"], "sites": 2} {
		if got := figure(t, c, name); got != float64(want) || want < 2 {
			t.Errorf("%s: %v, want %d", name, got, want)
		}
	}
	status := count{}
	for code, n := range second["status"] {
		status[fmt.Sprintf("[%s %s]", code, map[byte]string{'2': "ok", '3': "moved", '4': "not found"}[code[0]])] = n
	}
	wantColumn(t, c, "status", "pages", status)
	for column, name := range map[string]string{"pages": "type", "bytes": "typebytes"} {
		want := count{}
		for mediaType, n := range second[name] {
			want["["+mediaType+"]"] = n
		}
		wantColumn(t, c, "types", column, want)
	}
	for name, of := range map[string]string{"site_pages": "pages", "site_bytes": "bytes"} {
		want := count{}
		for _, n := range second[of] {
			want.inClass(n)
		}
		wantColumn(t, c, name, "sites", want)
	}
	lengths := count{}
	for n, times := range second["length"] {
		size, _ := strconv.Atoi(n)
		for range times {
			lengths.inClass(size)
		}
	}
	wantColumn(t, c, "lengths", "pages", lengths)

	declared, sampled, pages, differ := count{}, count{}, 0, 0
	for _, row := range tableOf(t, c, "languages").Rows {
		declared[row[1].(string)] += int(row[2].(int64))
		sampled[row[1].(string)] += int(row[3].(int64))
	}
	for language, n := range declared {
		pages += n
		differ += max(n-sampled[language], 0)
	}
	t.Logf("declared %v, by words %v", declared, sampled)
	if declared["ko"] < 50 || declared["ja"] < 50 || declared["de"] < 10 || differ > pages/50 {
		t.Errorf("%d of %d pages have another language than they declare: %v, %v", differ, pages, declared, sampled)
	}
	if dated := figure(t, c, "pages with a credible date"); dated < .9*figure(t, c, "pages") {
		t.Errorf("only %v pages have a date", dated)
	}
}
