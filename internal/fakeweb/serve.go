package fakeweb

import (
	"bytes"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// serve responds for a site.
func (s *Site) serve(w http.ResponseWriter, r *http.Request) {
	if s.Handler != nil && s.Handler(w, r) {
		return
	}
	if s.Latency > 0 && !pause.For(r.Context(), s.Latency) {
		return
	}
	if r.URL.Path == "/robots.txt" && s.Kind != Failing {
		s.serveText(w, s.Robots)
		return
	}
	if s.trouble(w, r) {
		return
	}
	s.serveHonest(w, r)
}

func (s *Site) serveText(w http.ResponseWriter, text string) {
	if text == "" {
		http.Error(w, "there is none", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, text)
}

func (s *Site) serveHonest(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/sitemap.xml" && s.Sitemap:
		s.serveSitemap(w, r)
		return
	case r.URL.Path == "/robots.rdf" && s.Speaks:
		s.serveManifest(w, r)
		return
	case r.URL.Path == "/parley/changes" && s.Speaks:
		s.serveChanges(w, r)
		return
	}
	s.web.mu.Lock()
	p := s.pages[r.URL.Path]
	if p == nil {
		s.web.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	body, modified := p.text(s.Host), p.modified
	if s.Undated {
		modified = time.Time{}
	}
	s.web.mu.Unlock()
	serveBody(w, r, "text/html; charset=utf-8", []byte(body), modified)
}

// serveBody responds with a validator of each kind.
func serveBody(w http.ResponseWriter, r *http.Request, kind string, body []byte, modified time.Time) {
	h := w.Header()
	sum := protocol.Sum(body)
	h.Set("Content-Type", kind)
	h.Set("ETag", fmt.Sprintf(`"%x"`, sum[:8]))
	http.ServeContent(w, r, "", modified.UTC(), bytes.NewReader(body))
}

func (s *Site) serveSitemap(w http.ResponseWriter, r *http.Request) {
	s.web.mu.Lock()
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n")
	newest := s.web.opts.Start
	for _, path := range s.paths() {
		at := s.pages[path].modified
		if s.Kind == Lying {
			at = time.Now()
		}
		if at.After(newest) {
			newest = at
		}
		fmt.Fprintf(&b, "<url><loc>%s%s</loc><lastmod>%s</lastmod></url>\n", s.Origin, path, at.UTC().Format(time.RFC3339))
	}
	b.WriteString("</urlset>\n")
	s.web.mu.Unlock()
	serveBody(w, r, "application/xml", b.Bytes(), newest)
}

func (s *Site) serveManifest(w http.ResponseWriter, r *http.Request) {
	s.web.mu.Lock()
	var items []protocol.Item
	newest := s.web.opts.Start
	for _, p := range s.pages {
		item := s.item(p)
		if s.Kind == Lying { // everything is new, and the digest is wrong
			item.Modified, item.Digest = time.Now().UTC().Truncate(time.Second), protocol.Sum([]byte(item.URL+time.Now().String()))
		}
		if item.Modified.After(newest) {
			newest = item.Modified
		}
		items = append(items, item)
	}
	m := protocol.Manifest{URL: s.Origin + "/robots.rdf", Base: s.Origin + "/", Complete: true, Items: len(items), Cursor: s.cursor()}
	if s.Kind == Lying || s.Kind == Flooding {
		m.Cursor = protocol.Cursor{} // so that it is always read whole
	} else if !s.Polled {
		m.Changes = s.Origin + "/parley/changes"
	}
	s.web.mu.Unlock()
	slices.SortFunc(items, func(a, b protocol.Item) int { return protocol.Compare(a.URL, b.URL) })
	var b bytes.Buffer
	if err := protocol.WriteManifest(&b, m, each(items), nil); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	serveBody(w, r, protocol.ManifestType, b.Bytes(), newest)
}

func each[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// serveChanges serves /parley/changes: the changes after a cursor, and with wait= a long poll.
func (s *Site) serveChanges(w http.ResponseWriter, r *http.Request) {
	after, err := protocol.ParseCursor(r.URL.Query().Get("after"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wait, _ := strconv.Atoi(r.URL.Query().Get("wait"))
	end := time.NewTimer(time.Duration(wait) * time.Second)
	defer end.Stop()
	for {
		s.web.mu.Lock()
		head, more := s.cursor(), s.more
		var list []protocol.Change
		if ok := after.Epoch == head.Epoch && after.Seq <= head.Seq; !ok {
			s.web.mu.Unlock()
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"title":"another epoch","status":409,"head":%q}`, head)
			return
		}
		list = slices.Clone(s.log[after.Seq:min(head.Seq, after.Seq+100)])
		s.web.mu.Unlock()
		if len(list) == 0 && wait > 0 {
			select {
			case <-more:
				continue
			case <-end.C:
				wait = 0
			case <-r.Context().Done():
				return
			}
		}
		to := after
		if len(list) > 0 {
			to.Seq = list[len(list)-1].Seq
		}
		m := protocol.Message{Kind: protocol.Batch, From: after, To: to, Head: head, Changes: list}
		w.Header().Set("Content-Type", "application/json")
		w.Write(append(m.Encode(), '\n'))
		return
	}
}

// anchors returns a page with links.
func anchors(title string, links ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<title>%s</title>\n<h1>%s</h1>\n", title, title)
	for _, l := range links {
		fmt.Fprintf(&b, "<p><a href=%q>%s</a></p>\n", l, l)
	}
	return b.String()
}
