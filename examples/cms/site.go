package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Site serves visitors, editors and crawlers.
type Site struct {
	Store    *Store
	Base     string   // URL, ending in "/"
	Password string   // of the editors, who may give any user name
	Notifier *url.URL // receives the requests for Parley's endpoints; nil: another server forwards them
}

// A Document is a page as served.
type Document struct {
	Title    string
	Body     []byte
	Modified time.Time
}

var templates = template.Must(template.New("").Parse(`
{{define "home"}}<!doctype html><html lang="en"><title>All pages</title><h1>All pages</h1>
<ul>{{range .}}<li><a href="/{{.Slug}}">{{.Title}}</a>{{end}}</ul></html>
{{end}}
{{define "page"}}<!doctype html><html lang="en"><title>{{.Title}}</title><article><h1>{{.Title}}</h1>
<p>{{.Body}}</article><p><a href="/">All pages</a></html>
{{end}}
{{define "admin"}}<!doctype html><html lang="en"><title>Edit</title><h1>Edit</h1>
{{range .}}<form method="post" action="/admin/save"><input type="hidden" name="old" value="{{.Slug}}">
<input name="slug" value="{{.Slug}}" placeholder="slug"> <input name="title" value="{{.Title}}" placeholder="title">
<select name="status"><option>{{.Status}}<option>public<option>draft<option>private</select><br>
<textarea name="body" rows="5" cols="60">{{.Body}}</textarea><br><button>Save</button>
{{if .Slug}}<button formaction="/admin/delete">Delete</button>{{end}}</form><hr>{{end}}
<form method="post" action="/admin/announce"><button>Tell the notifier of everything</button></form></html>
{{end}}`))

// Document returns the public page at a path, and false if there is none.
func (s *Site) Document(path string) (d Document, ok bool) {
	if path == "/" {
		list, changed := s.Store.Pages(Public)
		return Document{"All pages", render("home", list), changed}, true
	}
	p, _, ok := s.Store.Page(strings.TrimPrefix(path, "/"))
	if !ok || p.Status != Public {
		return d, false
	}
	return Document{p.Title, render("page", p), p.Modified}, true
}

func render(name string, data any) []byte {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the templates and their data are in this file
	}
	return bytes.TrimLeft(b.Bytes(), "\n")
}

// Handler serves the site.
func (s *Site) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "User-agent: *\nDisallow: /admin\n")
	})
	mux.HandleFunc("GET /", s.page)
	mux.HandleFunc("GET /admin", s.editor(s.admin))
	mux.HandleFunc("POST /admin/{do}", s.editor(s.edit))
	if s.Notifier != nil {
		doors := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(s.Notifier); r.SetXForwarded() },
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
				http.Error(w, "the notifier is unreachable", http.StatusServiceUnavailable)
			},
		}
		mux.Handle("GET /robots.rdf", doors)
		mux.Handle("GET /parley/", doors) // GET only, so that nobody can announce pages from outside
		mux.Handle("GET /.well-known/parley", doors)
	}
	// A form on another site must not make an editor's browser edit this one.
	return http.NewCrossOriginProtection().Handler(mux)
}

func (s *Site) page(w http.ResponseWriter, r *http.Request) {
	if d, ok := s.Document(r.URL.Path); ok {
		s.serve(w, r, d)
		return
	}
	p, moved, ok := s.Store.Page(strings.TrimPrefix(r.URL.Path, "/"))
	switch {
	case ok && p.Status == Private && s.isEditor(r):
		w.Header().Set("Cache-Control", "private")
		s.serve(w, r, Document{p.Title, render("page", p), p.Modified})
	case moved != "":
		if _, ok := s.Document("/" + moved); ok {
			http.Redirect(w, r, "/"+moved, http.StatusPermanentRedirect)
			return
		}
		fallthrough
	default: // the existence of a page that is not public is not revealed
		http.NotFound(w, r)
	}
}

// serve also answers conditional requests.
func (s *Site) serve(w http.ResponseWriter, r *http.Request, d Document) {
	sum := protocol.Sum(d.Body)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("ETag", fmt.Sprintf("\"%x\"", sum[:8]))
	http.ServeContent(w, r, "", d.Modified, bytes.NewReader(d.Body))
}

func (s *Site) isEditor(r *http.Request) bool {
	_, password, _ := r.BasicAuth()
	given, want := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(s.Password))
	return s.Password != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1
}

func (s *Site) editor(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.isEditor(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="edit"`)
			http.Error(w, "only editors may do this", http.StatusUnauthorized)
			return
		}
		h(w, r)
	}
}

func (s *Site) admin(w http.ResponseWriter, r *http.Request) {
	list, _ := s.Store.Pages(Public, Draft, Private)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(render("admin", append(list, Page{Status: Draft})))
}

// edit accepts a form, or the same fields as JSON, and saves or deletes a page, or announces all pages.
func (s *Site) edit(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	var in struct {
		Old string `json:"old"` // the present slug, empty for a new page
		Page
	}
	isJSON := strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
	var err error
	if isJSON {
		err = json.NewDecoder(r.Body).Decode(&in)
	} else if err = r.ParseForm(); err == nil {
		in.Old = r.PostForm.Get("old")
		in.Page = Page{Slug: r.PostForm.Get("slug"), Title: r.PostForm.Get("title"), Body: r.PostForm.Get("body"), Status: Status(r.PostForm.Get("status"))}
	}
	if err == nil {
		switch r.PathValue("do") {
		case "save":
			err = s.Store.Save(in.Old, in.Page)
		case "delete":
			err = s.Store.Delete(in.Old)
		case "announce":
			err = s.Store.OweAll()
		default:
			http.NotFound(w, r)
			return
		}
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case isJSON:
		w.WriteHeader(http.StatusNoContent)
	default:
		http.Redirect(w, r, "/admin", http.StatusSeeOther)
	}
}
