package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/parleyweb/parley/internal/digits"
)

// Invisible characters that words of some languages, and emoji, need.
const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'

// Cut returns at most n characters of text, which may be of any length and content, without characters that change its direction or that
// are invisible.
func Cut(n int, text string) string {
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

// Inside is [Cut] as a node that does not change the direction of the text around it.
func Inside(n int, text string) g.Node { return g.El("bdi", g.Text(Cut(n, text))) }

// At says when a time was, in UTC. A zero time is "never".
func At(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

// Ago says when a time was, and on a live page how long ago that is. A zero time is "never".
func Ago(t time.Time) g.Node {
	if t.IsZero() {
		return g.Text(At(t))
	}
	return h.Time(h.DateTime(t.UTC().Format("2006-01-02T15:04:05Z")), g.Text(At(t)))
}

// Count formats an integer, with its thousands apart.
func Count[N int | int32 | int64 | uint64](n N) string { return digits.Group(fmt.Sprint(n), "\u202f") }

// Many formats an integer with its noun: "1 page", "2 pages".
func Many[N int | int32 | int64 | uint64](n N, one, more string) string {
	if s := Count(n); s != "1" {
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

// Percent formats a share of 1. A negative one is unknown.
func Percent(share float64) string {
	if !(share >= 0) {
		return "unknown"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// A view is what surrounds the content of a page.
type view struct {
	title, subtitle string
	live            []g.Node // attributes of a live page; nil for any other
	controls, nav   g.Node   // of a live page
	content         g.Node
}

func (v view) write(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	title := Cut(120, v.title)
	inTab := title
	if v.subtitle != "" {
		inTab += " · " + v.subtitle
	}
	h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.TitleEl(g.Text(inTab)),
			h.Link(h.Rel("icon"), h.Href("/admin.svg")),
			h.Link(h.Rel("stylesheet"), h.Href("/admin.css")),
			g.If(v.live != nil, h.Script(h.Src("/admin.js"), h.Defer())),
		),
		h.Body(append(v.live,
			h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the content")),
			h.Header(h.Div(g.If(v.subtitle != "", h.P(h.Class("program"), g.Text(v.subtitle))), h.H1(g.El("bdi", g.Text(title)))), v.controls),
			v.nav,
			h.Main(h.ID("main"), h.TabIndex("-1"), v.content),
		)...),
	)).Render(w)
}

// Show responds with a page that is not live, such as the answer to a question.
func Show(w http.ResponseWriter, title string, body g.Node) { showBody(w, http.StatusOK, title, body) }

func showBody(w http.ResponseWriter, status int, title string, body g.Node) {
	view{title: title, content: g.Group{body, h.P(h.A(h.Href("/"), g.Text("Back to the first page")))}}.write(w, status)
}

// Reply responds with one sentence, such as the result of a form: as a page to browsers, and to programs as
// application/problem+json (RFC 9457), or, if status is below 400, as {"detail": text}.
func Reply(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	if wantsHTML(r) {
		showBody(w, status, title, h.P(h.Class("reply"), g.Text(Cut(2000, text))))
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
	view{title: "Log in", content: h.Form(h.Class("login"), h.Method("post"), h.Action("/login"),
		h.P(g.Text("This page is for those who have a token: a line of the file that the option "), h.Code(g.Text("--admin-token")), g.Text(" names.")),
		h.Label(h.For("token"), g.Text("Token")),
		h.Input(h.ID("token"), h.Name("token"), h.Type("password"), h.AutoComplete("current-password"), h.Required(), h.AutoFocus()),
		h.Button(g.Text("Log in")))}.write(w, http.StatusUnauthorized)
}

func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }
