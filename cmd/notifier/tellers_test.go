package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A site without files: all its pages are announced, and a search engine, a webhook, a command, a hub's subscribers
// and the sitemap get them.
func TestAnnouncedSite(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		must.Write(t, name, text)
		return name
	}
	listen := front.FreeAddress()
	base := "http://" + listen + "/"
	var mu sync.Mutex
	var told, hooked []string
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		m, _ := protocol.ParseMessage(b)
		mu.Lock()
		defer mu.Unlock()
		for _, c := range m.Changes {
			hooked = append(hooked, string(c.Op)+" "+c.Item.URL)
		}
	}))
	defer hook.Close()
	engine := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var said struct{ URLList []string }
		json.NewDecoder(r.Body).Decode(&said)
		mu.Lock()
		defer mu.Unlock()
		told = append(told, said.URLList...)
	}))
	defer engine.Close()
	sitemap := filepath.Join(dir, "sitemap.xml")
	config := file("parley.conf", strings.Join([]string{"base " + base, "listen " + listen, "state " + filepath.Join(dir, "state"),
		"announce-tokens " + file("tokens", "# ours\n0123456789abcdef\n"), "robots " + file("robots.txt", "User-agent: *\nDisallow: /private/\n"),
		"indexnow " + engine.URL, "hub", "webhook " + hook.URL + "/purge?token=1", "on-change tee " + filepath.Join(dir, "changes"), "atom " + filepath.Join(dir, "news.atom"), "sitemap " + sitemap, "no-self-check", "write-every 50ms", "log-level error", "verbose"}, "\n"))

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	var errs bytes.Buffer
	go func() {
		ended <- command.Main(ctx, notifier, []string{"--config", config}, nil, io.Discard, &errs)
	}()
	defer func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d after stop: %s", code, errs.String())
		}
	}()
	announce := func(token, body string) (int, protocol.Announced) {
		req, err := http.NewRequestWithContext(ctx, "POST", base+"parley/announce", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, protocol.Announced{}
		}
		defer resp.Body.Close()
		var a protocol.Announced
		json.NewDecoder(resp.Body).Decode(&a)
		return resp.StatusCode, a
	}
	const pages = `[{"url":"a","modified":"2026-01-02T03:04:05Z"},{"url":"private/b","modified":"2026-01-02T03:04:05Z"}]`
	var first protocol.Announced
	until(t, func() bool {
		var code int
		code, first = announce("0123456789abcdef", pages)
		return code == http.StatusOK
	})
	if first.Created != 1 || len(first.Refused) != 1 || first.Refused[0].URL != "private/b" {
		t.Errorf("announced: %+v", first)
	}
	if _, again := announce("0123456789abcdef", pages); again.Unchanged != 1 || again.Cursor != first.Cursor {
		t.Errorf("announced again: %+v", again)
	}
	if code, _ := announce("another token!!!", pages); code != http.StatusUnauthorized {
		t.Errorf("with another token: %d", code)
	}
	until(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(told, []string{base + "a"}) && slices.Equal(hooked, []string{"create " + base + "a"})
	})
	until(t, func() bool {
		b, _ := os.ReadFile(sitemap)
		return bytes.Contains(b, []byte("<loc>"+base+"a</loc>")) && !bytes.Contains(b, []byte("private"))
	})
	resp := must.Get(http.Get(base + "robots.rdf"))
	resp.Body.Close()
	if link := resp.Header.Get("Link"); !strings.Contains(link, `<`+base+`parley/hub>; rel="hub"`) {
		t.Errorf("the manifest's Link is %q", link)
	}
	until(t, func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "changes"))
		return bytes.Contains(b, []byte(`"op":"create","url":"`+base+`a"`))
	})
	until(t, func() bool { // the engine is notified before the sender has recorded its answer
		var out, said strings.Builder
		if code := command.Main(t.Context(), notifier, []string{"status", "--config", config}, nil, &out, &said); code != 0 {
			t.Errorf("status: exit code %d: %s", code, said.String())
		}
		return strings.Contains(out.String(), "1 URLs accepted, 0 waiting") &&
			strings.Contains(out.String(), "webhook    "+hook.URL+"/purge: 1 changes accepted, 0 waiting\n") && strings.Contains(out.String(), "on-change  tee ") && strings.Contains(out.String(), "hub        0 subscribers of "+base)
	})
}
