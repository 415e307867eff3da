package report_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/report"
	"github.com/parleyweb/parley/internal/robots"
)

// A maze is the log of a random site, together with the truth: which URLs show nothing that another URL does not show.
type maze struct {
	log   strings.Builder
	host  string // before each line, if the log names the virtual host
	rand  *rand.Rand
	junk  map[string]bool  // every crawled URL
	spent map[string]int64 // requests of crawlers, by URL
	kinds []string         // of junk
	lines int
}

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"

func (m *maze) request(agent, url string, status int, size int64) {
	m.lines++
	at := time.Date(2026, 10, 5, 0, 0, 0, 0, time.UTC).Add(time.Duration(m.lines) * 20 * time.Second)
	fmt.Fprintf(&m.log, "%s192.0.2.%d - - [%s] \"GET %s HTTP/1.1\" %d %d \"-\" \"%s\"\n", m.host, m.rand.IntN(250), at.Format("02/Jan/2006:15:04:05 -0700"), url, status, size, agent)
}

func (m *maze) crawled(url string, status int, size int64, junk bool) {
	switch m.rand.IntN(150) {
	case 0:
		status, size = 503, 20
	case 1:
		size += 1 + int64(m.rand.IntN(500)) // another advertisement
	}
	agent := []string{"Googlebot/2.1", "bingbot/2.0", "GPTBot/1.2"}[m.rand.IntN(3)]
	m.request("Mozilla/5.0 (compatible; "+agent+")", url, status, size)
	m.junk[url] = junk
	m.spent[url]++
}

// page fetches a page, which has a size of its own.
func (m *maze) page(url string, width int) int64 {
	size := 5000 + int64(m.rand.IntN(width))
	for range 1 + m.rand.IntN(2) {
		m.crawled(url, 200, size, false)
	}
	for range m.rand.IntN(3) {
		m.request(firefox, url, 200, size)
	}
	return size
}

// newMaze returns a site with some kinds of junk, and with parameters and directories that are none.
func newMaze(seed uint64) *maze {
	m := &maze{rand: rand.New(rand.NewPCG(seed, 5)), junk: map[string]bool{}, spent: map[string]int64{}}
	if seed%2 == 1 {
		m.host = "www.example.org:443 "
	}
	r := m.rand
	m.crawled("/robots.txt", 200, 100, false)
	m.page("/", 30_000)
	width := []int{30_000, 3_000, 60, 15}[r.IntN(4)] // pages that are filled from one template have similar sizes
	articles := map[string]int64{}
	for i := range 20 + r.IntN(200) {
		url := fmt.Sprintf("/articles/%d.html", i)
		articles[url] = m.page(url, width)
	}
	for i := range r.IntN(300) { // a program, with an index in some sites
		if i == 0 && r.IntN(2) == 0 {
			m.page("/view", width)
		}
		m.page(fmt.Sprintf("/view?id=%d", i), width)
	}
	for i := range 60 { // too few to be worth a rule
		m.crawled(fmt.Sprintf("/?from=%d", i), 301, 0, false)
	}
	for i := range r.IntN(60) {
		m.page(fmt.Sprintf("/list?page=%d", i), width)
		for _, lang := range []string{"de", "es"}[:r.IntN(3)] {
			m.page(fmt.Sprintf("/doc/%d?lang=%s", i, lang), 30_000)
		}
	}
	for i := range r.IntN(200) {
		m.page(fmt.Sprintf("/news/20%02d/%02d/", i/12, i%12), width)
	}
	for _, kind := range r.Perm(8)[:r.IntN(4)] {
		n := 300 + r.IntN(1200)
		switch kind {
		case 0:
			m.kinds = append(m.kinds, "sort")
			sizes := make([]int64, 5+r.IntN(15))
			for i := range sizes {
				sizes[i] = m.page(fmt.Sprintf("/shop/%d", i), 30_000)
			}
			for range n {
				i := r.IntN(len(sizes))
				query := fmt.Sprintf("sort=%s&dir=%d", []string{"price", "name", "date"}[r.IntN(3)], r.IntN(2))
				if r.IntN(2) == 0 {
					query = fmt.Sprintf("view=%d&%s", r.IntN(9), query)
				}
				m.crawled(fmt.Sprintf("/shop/%d?%s", i, query), 200, sizes[i], true)
			}
		case 1:
			m.kinds = append(m.kinds, "session")
			for range n {
				for url, size := range pick(r, articles) {
					m.crawled(fmt.Sprintf("%s?sid%%5B%%5D=%08x", url, r.Uint32()), 200, size+340, true)
				}
			}
		case 2:
			m.kinds = append(m.kinds, "months")
			m.page("/agenda", 30_000)
			for i := range n {
				m.crawled(fmt.Sprintf("/agenda?month=%d-%d", 2026+i/12, 1+i%12), 200, int64(4000+i%3), true)
			}
		case 3:
			m.kinds = append(m.kinds, "years")
			for i := range n {
				m.crawled(fmt.Sprintf("/calendar/%d/%d/%d.html", 2026+i/360, i/30%12+1, i%30+1), 200, int64(4000+i%4), true)
			}
		case 4:
			m.kinds = append(m.kinds, "tags")
			for i := range n {
				m.crawled(fmt.Sprintf("/tag/t%d/page/%d", i%40, i/40+2), 404, 300, true)
			}
			for i := range 40 {
				m.page(fmt.Sprintf("/tag/t%d/", i), 30_000)
			}
		case 5:
			m.kinds = append(m.kinds, "redirects")
			for i := range n {
				m.crawled(fmt.Sprintf("/articles/%d.html?replytocom=%d", i%20, i), 301, 0, true)
			}
		case 6:
			m.kinds = append(m.kinds, "facets")
			for i := range 10 {
				m.page(fmt.Sprintf("/parts/%d", i), 30_000)
				for k := range 8 {
					m.page(fmt.Sprintf("/parts/%d?color=%d", i, k), 30_000)
					m.page(fmt.Sprintf("/parts/%d?width=%d", i, k), 30_000)
				}
			}
			for i := range n {
				a, b := fmt.Sprintf("color=%d", i/10%20), fmt.Sprintf("width=%d", i/200)
				if r.IntN(2) == 0 {
					a, b = b, a
				}
				m.crawled(fmt.Sprintf("/parts/%d?%s&%s", i%10, a, b), 200, 3000, true)
			}
		case 7: // people use these: it is said, and the web server goes on answering them
			m.kinds = append(m.kinds, "campaigns")
			for i := range n {
				for url, size := range pick(r, articles) {
					m.crawled(fmt.Sprintf("%s?utm_source=s%d", url, i), 200, size, true)
					m.request(firefox, fmt.Sprintf("%s?utm_source=s%d", url, i), 200, size)
				}
			}
		}
	}
	return m
}

// pick returns one of the first 20 articles, so that every page is picked often.
func pick(r *rand.Rand, articles map[string]int64) map[string]int64 {
	url := fmt.Sprintf("/articles/%d.html", r.IntN(20))
	return map[string]int64{url: articles[url]}
}

// On 200 random sites, some without junk, the proposed lines forbid almost all junk and nothing else.
func TestFamiliesOfRandomSites(t *testing.T) {
	sites := uint64(200)
	if testing.Short() {
		sites = 20
	}
	var hit, missed, wrong int64
	plain, missing := 0, map[string]int{}
	for seed := range sites {
		m := newMaze(seed)
		r := build(t, m.log.String(), report.Options{})
		check(t, r)
		var lines []string
		for _, f := range r.Families {
			lines = append(lines, f.Robots...)
			if f.Others > f.Requests/2 && len(f.Nginx) > 0 {
				t.Errorf("seed %d: the web server is to refuse %s to visitors: %+v", seed, f.Name, f)
			}
		}
		if len(m.kinds) == 0 {
			plain++
			if len(r.Families) > 0 || r.First.Step == "family" {
				t.Errorf("seed %d has no junk: %+v", seed, r.Families)
			}
		}
		rules := robots.Parse([]byte("User-agent: *\n" + strings.Join(lines, "\n")))
		for url, n := range m.spent {
			switch forbidden := !rules.Allowed("Googlebot", url); {
			case forbidden && m.junk[url]:
				hit += n
			case forbidden:
				wrong += n
				t.Errorf("seed %d, %s: a page is forbidden: %s", seed, m.kinds, url)
			case m.junk[url]:
				missed += n
				missing[regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`).ReplaceAllString(url, "#")] += int(n)
			}
		}
	}
	recall := float64(hit) / float64(hit+missed)
	t.Logf("%d sites, %d without junk: of %d requests for junk, %.4f are forbidden; %d of others; missed %v", sites, plain, hit+missed, recall, wrong, missing)
	if plain < int(sites)/10 || recall < 0.95 {
		t.Error("too few sites without junk, or too much junk was missed")
	}
}

// A generated log, read without being in memory as a whole; heap is the most memory in use while it is read.
type endless struct {
	left, n int
	line    func(n int) string
	rest    string
	heap    uint64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		if e.n == e.left {
			return 0, io.EOF
		}
		if e.n%25_000 == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			e.heap = max(e.heap, m.HeapAlloc)
		}
		e.rest = e.line(e.n)
		e.n++
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// A log of many thousands of invented parameters, directories and hosts takes bounded memory, hides no family, and
// puts nothing into the lines that is not a plain name.
func TestFamiliesOfHostileLog(t *testing.T) {
	lines := 150_000
	if testing.Short() {
		lines = 60_000
	}
	r := rand.New(rand.NewPCG(3, 3))
	e := &endless{left: lines}
	e.line = func(n int) string {
		url, size := fmt.Sprintf("/item%d.html", n%7), 9000+n%7
		switch n % 10 {
		case 0, 1, 2, 3:
			url = fmt.Sprintf("/item%d.html?sort=%d", n%7, n)
		case 4, 5:
			url = fmt.Sprintf("/item%d.html?p%x=1&q%x=2&r%x=3&s%x=4&t%x=5&u%x=6&v=7", n%7, r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32())
		case 6:
			url = fmt.Sprintf("/%x/%x/%x/%s", r.Uint32(), r.Uint32(), r.Uint32(), strings.Repeat("a=b&", n%100))
		case 7:
			url = fmt.Sprintf("/x%%0aDisallow:%%20/?a%%0ab=%d&\x01\xff=%d&c\\nd=%d&\\x22}{;=%d&*$=%d", n, n, n, n, n)
		}
		return fmt.Sprintf("192.0.2.1 - - [05/Oct/2026:14:03:09 +0200] \"GET %s HTTP/1.1\" 200 %d \"-\" \"Googlebot/2.1\"\n", url, size)
	}
	files := must.Get(accesslog.Open([]string{"-"}, e))
	defer files.Close()
	began := time.Now()
	found := must.Get(report.Build(t.Context(), files, report.Options{MaxURLs: 1 << 13}))
	t.Logf("%d MB at most, %v", e.heap>>20, time.Since(began))
	if e.heap > 200<<20 {
		t.Errorf("%d MB of memory were in use", e.heap>>20)
	}
	truth := int64(lines) * 4 / 10
	if f := found.Families; len(f) == 0 || f[0].Name != "?sort=" || f[0].Requests > truth || f[0].Requests < truth*9/10 {
		t.Errorf("of %d requests with ?sort=: %+v", truth, f)
	}
	plainLines(t, found)
}

// plainLines checks that the proposed lines have no characters with a meaning of their own in robots.txt or nginx.
func plainLines(t *testing.T, r *report.Report) {
	t.Helper()
	for _, f := range r.Families {
		for _, line := range f.Robots {
			if !regexp.MustCompile(`^Disallow: /[]A-Za-z0-9._~%?&=*/[-]+$`).MatchString(line) {
				t.Errorf("a line for robots.txt: %q", line)
			}
		}
		if bad := regexp.MustCompile(`[^ -~]|\\`).FindString(strings.Join(f.Nginx, "")); bad != "" {
			t.Errorf("lines for nginx with %q: %q", bad, f.Nginx)
		}
	}
}

// Whatever the URLs are, all of a proposed family that were crawled are forbidden, and the lines are plain.
func FuzzFamilies(f *testing.F) {
	f.Add("/a?sort=", "&dir=1", "example.org", true)
	f.Add("/tag/", "/page/3#x?y=", "", false)
	f.Add("http://example.org/a?%73ort%5b%5D=", ";b=?c=&&=&c", "[::1]:80", true)
	f.Add("//x/../%2e/?a=*$", "\"\\\x00\xff", " ", false)
	f.Fuzz(func(t *testing.T, before, after, host string, ok bool) {
		var log strings.Builder
		quote := func(s string) string {
			return regexp.MustCompile(`[^!#-[\]-~]`).ReplaceAllStringFunc(s, func(c string) string {
				var b strings.Builder
				for i := range len(c) {
					fmt.Fprintf(&b, `\x%02x`, c[i])
				}
				return b.String()
			})
		}
		bare, _, _ := strings.Cut(before, "?")
		for i := range 120 {
			url, status := fmt.Sprintf("%s%d%s", before, i, after), 404
			if ok {
				status = 200
			}
			if i == 0 {
				url, status = bare, 200
			}
			fmt.Fprintf(&log, "%s 192.0.2.1 - - [05/Oct/2026:14:03:09 +0200] \"GET %s HTTP/1.1\" %d 7 \"-\" \"Googlebot\"\n", quote(host), quote(url), status)
		}
		files, err := accesslog.Open([]string{"-"}, strings.NewReader(log.String()))
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		r, err := report.Build(t.Context(), files, report.Options{})
		if err != nil {
			return // no line can be read
		}
		plainLines(t, r)
		for _, f := range r.Families {
			example := f.Example[strings.Index(f.Example, f.Host)+len(f.Host):]
			if rules := robots.Parse([]byte("User-agent: *\n" + strings.Join(f.Robots, "\n"))); strings.HasPrefix(example, "/") && rules.Allowed("Googlebot", example) {
				t.Errorf("%q is allowed: %+v", example, f)
			}
		}
	})
}

// nginx accepts the lines that are proposed for it, and then redirects or refuses the URLs of the families, and no others.
func TestFamilyLinesWorkInNginx(t *testing.T) {
	m := &maze{rand: rand.New(rand.NewPCG(1, 5)), junk: map[string]bool{}, spent: map[string]int64{}}
	for i := range 10 {
		m.page(fmt.Sprintf("/shop/%d", i), 30_000)
	}
	for i := range 600 {
		size := int64(4000)
		m.crawled(fmt.Sprintf("/shop/%d?f%%5Bx.y%%5D=%d", i%10, i), 200, size, true)
		m.crawled(fmt.Sprintf("/shop/%d?from=%d&to=%d", i%10, i%30, i), 200, 500, true)
		m.crawled(fmt.Sprintf("/calendar.d/%d/day/%d", i%9, i), 200, size, true)
		m.crawled(fmt.Sprintf("/old?gone=%d", i), 404, 99, true)
	}
	for i := range 30 { // with one of the two, these are pages
		m.page(fmt.Sprintf("/shop/%d?from=%d", i%10, i), 30_000)
		m.page(fmt.Sprintf("/shop/%d?to=%d", i%10, i), 30_000)
		m.page(fmt.Sprintf("/calendar.d/%d/", i), 30_000)
	}
	r := build(t, m.log.String(), report.Options{})
	var names, http_, server []string
	for _, f := range r.Families {
		names = append(names, f.Name)
		in := &http_
		for _, line := range f.Nginx {
			if line == "# in the server block:" {
				in = &server
			}
			*in = append(*in, line)
		}
	}
	if got := strings.Join(names, " "); len(names) != 4 || !strings.Contains(got, "?f[x.y]=") || !strings.Contains(got, "?from=&to=") || !strings.Contains(got, "/calendar.d/*/day/") || !strings.Contains(got, "?gone=") {
		t.Fatalf("families %s", got)
	}
	addr := front.FreeAddress()
	machine.Nginx(t, addr, "", strings.Join(http_, "\n")+"\nserver { listen "+addr+";\n"+strings.Join(server, "\n")+"\nlocation / { return 204; }\n}")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, c := range []struct {
		url, to string
		status  int
	}{
		{"/shop/1?f%5Bx.y%5D=1", "/shop/1", 301},
		{"/shop/1?f[x.y]=1&b=2", "/shop/1?b=2", 301},
		{"/shop/1?a=1&f%5bx.y%5d=1&b=2", "/shop/1?a=1&b=2", 301},
		{"/shop/1%0d%0aX:1?f[x.y]=1", "/shop/1%0d%0aX:1", 301},
		{"//evil.example/?f[x.y]=1", "", 204},
		{"/shop/1?f[xzy]=1", "", 204},
		{"/shop/1?af[x.y]=1", "", 204},
		{"/shop/1?from=1&x=2&to=2", "", 410},
		{"/shop/1?to=1&from=2", "", 410},
		{"/shop/1?from=1", "", 204},
		{"/shop/1?xfrom=1&to=2", "", 204},
		{"/calendar.d/3/day/7", "", 410},
		{"/calendar.d/3/", "", 204},
		{"/calendar-d/3/day/7", "", 204},
		{"/old?a=b&gone=1", "", 410},
		{"/old?a=gone=1", "", 204},
	} {
		resp := must.Get(client.Get("http://" + addr + c.url))
		resp.Body.Close()
		if to := strings.TrimPrefix(resp.Header.Get("Location"), "http://"+addr); resp.StatusCode != c.status || to != c.to {
			t.Errorf("%s: %d %s, want %d %s", c.url, resp.StatusCode, to, c.status, c.to)
		}
	}
}
