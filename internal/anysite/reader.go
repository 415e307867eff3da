//go:build linux

package anysite

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// reader is the address from which the runner itself sends anonymous requests.
const reader = "127.77.77.77"

// A visitor is an anonymous client.
type visitor struct {
	w      *world
	client *http.Client
}

func (w *world) newVisitor() *visitor {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(reader)}}
	return &visitor{w, &http.Client{Timeout: 5 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.certs.pool}, MaxIdleConnsPerHost: 2, DisableCompression: true,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				host, port, _ := net.SplitHostPort(address)
				return d.DialContext(ctx, network, net.JoinHostPort(w.names.address(host), port))
			}}}}
}

// get sends a request, and returns nil if there is no response.
func (v *visitor) get(method, u, kind string, body []byte, header map[string]string) (*http.Response, []byte) {
	r, err := http.NewRequest(method, u, bytes.NewReader(body))
	if err != nil {
		return nil, nil
	}
	r.Header.Set("User-Agent", "anybody")
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for k, x := range header {
		r.Header.Set(k, x)
	}
	resp, err := v.client.Do(r)
	if err != nil {
		return nil, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil
	}
	return resp, b
}

// look fetches every known URL, and the doors.
func (v *visitor) look() {
	v.w.mu.Lock()
	urls := slices.Sorted(maps.Keys(v.w.known))
	v.w.mu.Unlock()
	refused := make([]string, 0, 4)
	var mu sync.Mutex
	var group sync.WaitGroup
	turn := make(chan struct{}, 4)
	for _, u := range urls {
		turn <- struct{}{}
		group.Go(func() {
			defer func() { <-turn }()
			resp, body := v.get("GET", u, "", nil, nil)
			f := v.seen(u, resp, body)
			v.w.mu.Lock()
			v.w.rec.Fetches = append(v.w.rec.Fetches, f)
			v.w.mu.Unlock()
			if f.Status == 401 || f.Status == 403 {
				mu.Lock()
				refused = append(refused, u)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for _, s := range v.w.sites {
		if s.notified() {
			v.doors(s, urls)
		} else if s.Tells == "manifest" {
			v.get("GET", s.base+"robots.rdf", "", nil, nil)
		}
	}
	slices.Sort(refused)
	for _, u := range refused { // where the notifier serves the pages, it answers a client that names a version itself
		v.get("GET", u, "", nil, map[string]string{"Accept-Encoding": "dcz", "Available-Dictionary": ":AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"})
	}
}

// doors fetches everything that a notifier gives to anybody. The front records the responses.
func (v *visitor) doors(s *site, urls []string) {
	_, text := v.get("GET", s.origin()+"/.well-known/parley", "", nil, nil)
	var d struct{ Changes, Batch, Site, Floor, Manifest string }
	if json.Unmarshal(text, &d) != nil || d.Changes == "" {
		return
	}
	at := "?after=" + url.QueryEscape(d.Floor)
	v.get("GET", s.base+"robots.rdf", "", nil, nil)
	v.get("GET", d.Changes+at+"&as=page&limit=1000", "", nil, nil)
	if d.Batch == "" {
		return
	}
	v.get("GET", d.Batch+at, "", nil, nil)
	type page struct {
		URL string `json:"url"`
	}
	var q struct {
		Pages []page `json:"pages"`
	}
	for _, u := range urls {
		if strings.HasPrefix(u, s.base) {
			q.Pages = append(q.Pages, page{u})
		}
	}
	b, err := json.Marshal(q)
	if err != nil {
		return
	}
	v.get("POST", d.Batch, "application/json", b, nil)
	if d.Site != "" {
		v.get("GET", d.Site, "", nil, nil)
	}
}

// seen returns what a response shows.
func (v *visitor) seen(u string, resp *http.Response, body []byte) record.Fetch {
	f := record.Fetch{At: time.Now(), URL: u, From: reader}
	if resp == nil {
		return f
	}
	body = decoded(resp.Header.Get("Content-Encoding"), body)
	f.Status, f.Location, f.Type = resp.StatusCode, resp.Header.Get("Location"), resp.Header.Get("Content-Type")
	f.Sum, f.Size = v.w.keep(body), int64(len(body))
	if f.Status == http.StatusOK && strings.HasPrefix(f.Type, "text/html") {
		readPage(&f, body)
	}
	return f
}

// readPage records what a page says about itself, and its links.
func readPage(f *record.Fetch, body []byte) {
	text, err := charset.NewReader(bytes.NewReader(body), f.Type)
	if err != nil {
		return
	}
	base, err := url.Parse(f.URL)
	if err != nil {
		return
	}
	based := false
	z := html.NewTokenizer(text)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			a := map[string]string{}
			for _, x := range t.Attr {
				a[x.Key] = x.Val
			}
			switch {
			case t.Data == "base" && a["href"] != "" && !based:
				if b, err := base.Parse(a["href"]); err == nil {
					base, based = b, true
				}
			case t.Data == "meta" && strings.EqualFold(a["name"], "robots"):
				says := strings.ToLower(a["content"])
				f.NoIndex, f.NoFollow, f.NoArchive = strings.Contains(says, "noindex"), strings.Contains(says, "nofollow"), strings.Contains(says, "noarchive")
			case t.Data == "link" && strings.EqualFold(a["rel"], "canonical"):
				if c, err := base.Parse(a["href"]); err == nil {
					f.Canonical = c.String()
				}
			case t.Data == "a" && a["href"] != "":
				if l, err := base.Parse(a["href"]); err == nil {
					l.Fragment = ""
					f.Links = append(f.Links, l.String())
				}
			}
		}
	}
}

func dial(address string, secure bool) (net.Conn, error) {
	if secure {
		return tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	}
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, fmt.Errorf("dial notifier: %w", err)
	}
	return c, nil
}
