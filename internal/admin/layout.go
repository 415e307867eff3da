package admin

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/digits"
)

//go:embed layout.html
var layoutText string

var layout = template.Must(Templates().Parse(layoutText))

// Templates returns an empty template with the functions for what the sections show:
//
//	{{cut 80 .Text}}   text from outside, at most 80 characters of it, without characters that change its direction or that are invisible
//	{{ago .Time}}      a time: on a live page how long ago it was, otherwise when it was. A zero time is shown as "never"
//	{{at .Time}}       when a time was, in UTC
//	{{count .N}}       an integer, with its thousands apart
//	{{many .N "page" "pages"}}  an integer and its noun
//	{{bytes .N}}       a number of bytes
//	{{percent .F}}     a share of 1; negative: unknown
func Templates() *template.Template {
	return template.New("").Funcs(template.FuncMap{"cut": cut, "ago": ago, "at": at, "count": count, "many": Many, "bytes": Size, "percent": percent})
}

// Invisible characters that words of some languages, and emoji, need.
const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'

// cut returns the first n characters of text, which may be of any length and content.
func cut(n int, text string) string {
	var b strings.Builder
	for i := 0; i < len(text); n-- {
		r, width := utf8.DecodeRuneInString(text[i:])
		if n <= 0 {
			return b.String() + "…"
		}
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsPrint(r) && r != zeroWidthNonJoiner && r != zeroWidthJoiner:
			r = utf8.RuneError
		}
		b.WriteRune(r)
		i += width
	}
	return b.String()
}

func at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

func ago(t time.Time) template.HTML {
	if t.IsZero() {
		return "never"
	}
	return template.HTML(`<time datetime="` + t.UTC().Format("2006-01-02T15:04:05Z") + `">` + at(t) + `</time>`)
}

// count formats any integer.
func count(n any) string {
	return digits.Group(fmt.Sprint(n), "\u202f")
}

// Many formats an integer with its noun: "1 page", "2 pages".
func Many(n any, one, more string) string {
	if s := count(n); s != "1" {
		return s + " " + more
	}
	return "1 " + one
}

// Size formats a number of bytes for people.
func Size(n int64) string {
	for _, unit := range []struct {
		of   int64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= unit.of {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.of), unit.name)
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

func percent(share float64) string {
	if !(share >= 0) {
		return "unknown"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// A view is what the layout shows.
type view struct {
	Title, Subtitle string
	Parts           []part        // of a live page
	Body            template.HTML // of any other
	Text            string        // of a reply
	Login           bool
	Live, Session   bool
	After, Now      int64 // the rendering that a live page shows; the Unix time in ms
}

type part struct {
	Section
	HTML template.HTML
}

func (v view) write(w http.ResponseWriter, status int) {
	var b bytes.Buffer
	if err := layout.Execute(&b, v); err != nil {
		panic("admin: " + err.Error()) // the layout is wrong
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}

// Show responds with a page that is not live, such as the answer to a question.
func Show(w http.ResponseWriter, title string, body template.HTML) {
	view{Title: title, Body: body}.write(w, http.StatusOK)
}

// Reply responds with one sentence, such as the result of a form: as a page to browsers, and to programs as
// application/problem+json (RFC 9457), or, if status is below 400, as {"detail": text}.
func Reply(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	if wantsHTML(r) {
		view{Title: title, Text: text}.write(w, status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	reply := map[string]any{"detail": text}
	if status >= http.StatusBadRequest {
		w.Header().Set("Content-Type", "application/problem+json")
		reply["status"], reply["title"] = status, title
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(reply)
}

func showLogin(w http.ResponseWriter) {
	view{Title: "Log in", Login: true}.write(w, http.StatusUnauthorized)
}

func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }
