package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// offers makes a site say that it supports a form, with doors for bundles and archives.
func (s *fakeSite) offers(as protocol.Form) {
	s.setDoor("/.well-known/parley", func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"version": 1, "base": base, "manifest": base + "robots.rdf",
			"changes": base + "parley/changes", "stream": "ws://site.example/parley/stream",
			"forms": []protocol.Form{as}, "batch": base + "parley/batch", "site": base + "parley/site.wacz"})
	})
}

// headOf is a bundle that is broken after its head.
func headOf(t *testing.T, from, to protocol.Cursor) []byte {
	var b bytes.Buffer
	w := bundle.NewWriter(&b, bundle.Head{From: from, To: to, Changes: 1}, bundle.Gzip)
	c := put("b.html", "new")
	c.Seq = to.Seq
	packer := bundle.NewPacker(bundle.Gzip)
	records, _ := packer.Append(nil, to.Epoch, &c, bytes.Repeat([]byte("new"), 1000))
	must.OK(t, w.AddPacked(packer.Seal(nil, records), 1, 1))
	must.OK(t, w.Close())
	return b.Bytes()[:b.Len()-300]
}

// Content that is sent by reference and is never complete is requested less and less often; meanwhile
// changes are delivered without it.
func TestIncompleteContentIsRequestedLess(t *testing.T) {
	const changes = 44
	for _, as := range []protocol.Form{protocol.AsBatch, protocol.AsSite} {
		for _, pulled := range []bool{false, true} {
			for _, marks := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, "a.html")
					s.offers(as)
					tell := func(at protocol.Cursor) (m protocol.Message, ok bool) {
						m = protocol.Message{Kind: protocol.Bundle, From: at, To: s.cursor(), Head: s.cursor(), N: 1,
							Body: protocol.Body{Coding: protocol.CodingArchive, Href: base + "parley/batch?after=" + at.String(), Length: -1}}
						if as == protocol.AsSite {
							m.Kind, m.Body = protocol.Archive, protocol.Body{Href: base + "parley/site.wacz", Length: 17, Digest: protocol.Sum([]byte("no archive at all"))}
						}
						return m, m.From != m.To
					}
					s.setDoor("/parley/changes", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
						at, _ := protocol.ParseCursor(r.URL.Query().Get("after"))
						m, ok := tell(at)
						if !ok || r.URL.Query().Get("as") != string(as) {
							own(w, r)
							return
						}
						w.Header().Set("Content-Type", "application/json")
						w.Write(m.Encode())
					})
					s.setDoor("/parley/stream", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
						at, _ := protocol.ParseCursor(r.URL.Query().Get("after"))
						if r.URL.Query().Get("as") != string(as) || at.IsZero() {
							own(w, r)
							return
						}
						s.say(w, r, hello(at), func(send func(protocol.Message)) {
							if marks { // something, but no news
								send(protocol.Message{Kind: protocol.Mark, To: at, Head: at})
							}
							for {
								if _, _, more, _ := s.read(at, 1); at == s.cursor() {
									select {
									case <-more:
									case <-time.After(25 * time.Second):
										send(protocol.Message{Kind: protocol.Mark, To: at, Head: at})
									case <-r.Context().Done():
										return
									}
									continue
								}
								m, _ := tell(at)
								send(m)
								<-r.Context().Done()
								return
							}
						})
					})
					s.setDoor("/parley/batch", func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
						at, _ := protocol.ParseCursor(r.URL.Query().Get("after"))
						w.Header().Set("Content-Type", bundle.MediaType)
						w.Write(headOf(t, at, s.cursor()))
					})
					s.setDoor("/parley/site.wacz", func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
						fmt.Fprint(w, "no archive at all")
					})
					c := newCopier(s)
					src := s.source()
					src.As, src.NoStream = as, pulled
					c.follow(src, protocol.Cursor{}, c.caughtUp)
					s.change(put("b.html", "new"))
					path := map[protocol.Form]string{protocol.AsBatch: "/parley/batch", protocol.AsSite: "/parley/site.wacz"}[as]
					begun, before := time.Now(), s.count(path)
					told := time.Duration(0)
					done := make(chan bool)
					go func() {
						defer close(done)
						for n := 1; n < changes; n++ {
							time.Sleep(30 * time.Minute)
							s.change(put("b.html", fmt.Sprint("new ", n)))
						}
					}()
					c.follow(src, c.cursor, func() bool {
						if told == 0 && c.cursor.Seq == 1 {
							told = time.Since(begun)
						}
						return c.cursor.Seq == changes
					})
					<-done
					// Three times at first, then after 5, 10, 20 ... minutes, and never more than 6 hours.
					if n := s.count(path) - before; n < 6 || n > 14 || told > 15*time.Second {
						t.Errorf("%s, pulled %v, marks %v: requested %d times in %v, change received after %v; errors %v", as, pulled, marks, n, time.Since(begun), told, c.errs[:min(5, len(c.errs))])
					}
				})
			}
		}
	}
}

// If a site sends plain changes to a client that has nothing and requests an archive, the manifest is used.
func TestPlainChangesInsteadOfArchive(t *testing.T) {
	for _, pulled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, "a.html")
			s.offers(protocol.AsSite)
			s.change(put("b.html", "1"))
			all := protocol.Message{Kind: protocol.Batch, To: s.cursor(), Head: s.cursor(), Changes: []protocol.Change{put("b.html", "1")}}
			all.Changes[0].Seq, all.Changes[0].At = 1, time.Now().UTC()
			s.setDoor("/parley/changes", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				if at, _ := protocol.ParseCursor(r.URL.Query().Get("after")); !at.IsZero() {
					own(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.Write(all.Encode())
			})
			s.setDoor("/parley/stream", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				at, _ := protocol.ParseCursor(r.URL.Query().Get("after"))
				if !at.IsZero() {
					own(w, r)
					return
				}
				s.say(w, r, hello(at), func(send func(protocol.Message)) {
					for r.Context().Err() == nil {
						send(protocol.Message{Kind: protocol.Ev, To: all.To, Changes: all.Changes})
						if !pause.For(r.Context(), time.Second) {
							return
						}
					}
				})
			})
			c := newCopier(s)
			src := s.source()
			src.As, src.NoStream = protocol.AsSite, pulled
			begun := time.Now()
			c.follow(src, protocol.Cursor{}, c.caughtUp)
			if d := time.Since(begun); d > 5*time.Second || len(c.errs) != 1 || fmt.Sprint(c.doors()) != "[manifest]" {
				t.Errorf("pulled %v: after %v by %v, errors %v", pulled, d, c.doors(), c.errs)
			}
			s.change(put("c.html", "1")) // and on from there
			c.follow(src, c.cursor, c.caughtUp)
		})
	}
}

// A site that never completes an archive, for whatever reason, gets only a few requests for it.
func TestEndlessArchiveGetsFewRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		most int
		part func(w http.ResponseWriter, r *http.Request, n int)
	}{
		{"varying length, no ETag", 7, func(w http.ResponseWriter, _ *http.Request, n int) {
			fmt.Fprint(w, strings.Repeat("x", 100+n%2*100))
		}},
		{"growing, no ETag", 7, func(w http.ResponseWriter, _ *http.Request, n int) {
			fmt.Fprint(w, strings.Repeat("x", 100+n))
		}},
		{"new ETag after each resumption", 14, func(w http.ResponseWriter, r *http.Request, n int) {
			if from, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && n%2 == 1 {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %s1000000/1000001", from))
				w.WriteHeader(http.StatusPartialContent)
			} else {
				w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n))
			}
			fmt.Fprint(w, "xx")
		}},
		{"one byte per response", 1000, func(w http.ResponseWriter, r *http.Request, n int) {
			w.Header().Set("ETag", `"one"`)
			if from, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %s1000000/1000001", from))
				w.WriteHeader(http.StatusPartialContent)
			}
			fmt.Fprint(w, "x")
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, "a.html")
			s.offers(protocol.AsSite)
			n := 0
			s.setDoor("/parley/site.wacz", func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
				tt.part(w, r, n)
				n++
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			c := newCopier(s)
			src := s.source()
			src.As, src.NoStream, src.NoChanges, src.Temp = protocol.AsSite, true, true, t.TempDir()
			c.follow(src, protocol.Cursor{}, c.caughtUp)
			if n < 6 || n > tt.most || c.doors()[0] != client.Manifest {
				t.Errorf("%s: %d requests, by %v; errors %v", tt.name, n, c.doors(), c.errs)
			}
		})
	}
}
