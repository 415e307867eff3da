// Package admin serves the pages that the programs show of themselves: who may see them (Guard), and pages whose sections stay up to
// date while they are open (Page). A page needs no files, and makes no requests to other servers. Without scripts it is a snapshot.
//
//	page := &admin.Page{Title: base, Sections: []admin.Section{{ID: "alert", Title: "Needs you", Alert: true}, {ID: "pages", Title: "Pages"}},
//		Read: read, Done: ctx.Done()}
//	m := http.NewServeMux()
//	m.Handle("GET /{$}", page)
//	m.HandleFunc("GET /events", page.Events)
//	handler := (&admin.Guard{Tokens: tokens, Listener: ln.Addr()}).Handler(m)
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// A Page is an http.Handler of a page made of sections. All viewers share one rendering of each section. Its fields must not change
// once it serves.
type Page struct {
	Title    string // such as the address of the site
	Subtitle string // such as "notifier"

	Sections []Section

	// Read returns the present content of the sections, in their order. One without content is hidden. It is called when a viewer is
	// there, at most once in Every, and never twice at a time.
	Read  func(context.Context) ([]g.Node, error)
	Every time.Duration // 0: 1 s

	// Viewers is how many event streams are served at a time; 0: 100. Further ones are refused.
	Viewers int

	// Done ends all event streams when it is closed: a server cannot shut down while they are open.
	Done <-chan struct{}

	viewers atomic.Int32

	mu    sync.Mutex // guards the rest
	at    time.Time  // of the rendering
	shown []rendered // by section; nil: none yet
}

// A Section is a part of a page.
type Section struct {
	ID    string // in the page
	Title string
	Alert bool // screen readers announce its changes. It should not contain Ago
}

type rendered struct {
	html    string
	changed int64 // the Unix time in ns of the rendering that it came with first; later renderings have higher ones
}

const (
	writeTimeout = 10 * time.Second // of a viewer that does not read
	beatEvery    = 15 * time.Second // between messages on a stream, so that the script notices its end
	streamLength = time.Hour        // then the browser connects again, and must be admitted again
)

// sections returns the present rendering, which is made now if the last one is older than Every.
func (p *Page) sections(ctx context.Context) (list []rendered, newest int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown == nil || time.Since(p.at) >= p.every() {
		if err := p.render(ctx); err != nil {
			return nil, 0, err
		}
	}
	for _, s := range p.shown {
		newest = max(newest, s.changed)
	}
	return p.shown, newest, nil
}

func (p *Page) every() time.Duration {
	if p.Every > 0 {
		return p.Every
	}
	return time.Second
}

// Renew makes the next request render the page again, however young its last rendering is: after a form has changed something.
func (p *Page) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = time.Time{}
}

// render renders all sections. p.mu is held.
func (p *Page) render(ctx context.Context) error {
	content, err := p.Read(ctx)
	if err != nil {
		return fmt.Errorf("read the data of the page: %w", err)
	}
	now := time.Now().UnixNano()
	for _, s := range p.shown {
		now = max(now, s.changed+1)
	}
	next := make([]rendered, len(p.Sections))
	for i := range p.Sections {
		var b strings.Builder
		if content[i] != nil {
			content[i].Render(&b) // into memory
		}
		next[i] = rendered{b.String(), now}
		if p.shown != nil && p.shown[i].html == next[i].html {
			next[i].changed = p.shown[i].changed
		}
	}
	p.shown, p.at = next, time.Now() // a rendering that takes long does not follow at once on the one before
	return nil
}

// ServeHTTP serves the page as it is now.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list, newest, err := p.sections(r.Context())
	if err != nil {
		Reply(w, r, http.StatusInternalServerError, "Cannot show the page", err.Error())
		return
	}
	var names, sections g.Group
	for i, s := range p.Sections {
		hidden := g.If(list[i].html == "", g.Attr("hidden"))
		names = append(names, h.Li(hidden, h.A(h.Href("#"+s.ID), g.Text(s.Title))))
		sections = append(sections, h.Section(h.ID(s.ID), h.Aria("labelledby", "title-"+s.ID), hidden,
			h.H2(h.ID("title-"+s.ID), h.TabIndex("-1"), g.Text(s.Title)),
			h.Div(h.ID("live-"+s.ID), g.If(s.Alert, h.Class("alert")), g.If(s.Alert, h.Aria("live", "polite")), g.Raw(list[i].html))))
	}
	view{title: p.Title, subtitle: p.Subtitle, content: sections,
		live: []g.Node{h.Data("after", strconv.FormatInt(newest, 10)), h.Data("now", strconv.FormatInt(time.Now().UnixMilli(), 10))},
		controls: h.Div(h.Class("controls"),
			h.P(h.ID("state"), h.Role("status"), g.Text("Snapshot")),
			h.Button(h.Type("button"), h.ID("pause"), g.Attr("hidden"), g.Text("Pause updates")),
			g.If(hasSession(r), h.Form(h.Method("post"), h.Action("/logout"), h.Button(g.Text("Log out"))))),
		nav: g.Group{
			h.NoScript(h.P(h.Class("note"), g.Text("Without scripts this page does not update itself: reload it to see the present state."))),
			h.Nav(h.Aria("label", "Sections"), h.Ul(names))},
	}.write(w, http.StatusOK)
}

// hasSession reports whether the client has logged in, and can log out.
func hasSession(r *http.Request) bool {
	for _, c := range r.Cookies() {
		if strings.HasPrefix(c.Name, "parley-") {
			return true
		}
	}
	return false
}

// Events serves a stream of Server-Sent Events until the client leaves, Done is closed, or an hour has passed. Each event is a JSON
// object of the sections that changed, by ID: their HTML. Its id, or the parameter "after", is the rendering that the client has.
func (p *Page) Events(w http.ResponseWriter, r *http.Request) {
	most := p.Viewers
	if most <= 0 {
		most = 100
	}
	if p.viewers.Add(1) > int32(most) {
		p.viewers.Add(-1)
		w.Header().Set("Retry-After", "30")
		Reply(w, r, http.StatusServiceUnavailable, "Too many viewers", "Too many viewers have this page open: reload it to see the present state.")
		return
	}
	defer p.viewers.Add(-1)
	after := r.Header.Get("Last-Event-ID")
	if after == "" {
		after = r.FormValue("after")
	}
	seen, _ := strconv.ParseInt(after, 10, 64)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold the events back
	stream := http.NewResponseController(w)
	defer stream.SetWriteDeadline(time.Time{})
	send := func(text string) bool {
		stream.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, err := w.Write([]byte(text))
		return err == nil && stream.Flush() == nil
	}
	if !send("retry: 3000\n\n") {
		return
	}
	begin, sent := time.Now(), time.Now()
	tick := time.NewTicker(p.every())
	defer tick.Stop()
	for time.Since(begin) < streamLength {
		list, newest, err := p.sections(r.Context())
		if err != nil {
			return
		}
		if seen > newest {
			seen = 0 // of a program whose clock was ahead
		}
		changed := map[string]string{}
		for i, s := range p.Sections {
			if list[i].changed > seen {
				changed[s.ID] = list[i].html
			}
		}
		switch {
		case len(changed) > 0:
			b, err := json.Marshal(changed)
			if err != nil || !send(fmt.Sprintf("id: %d\ndata: %s\n\n", newest, b)) {
				return
			}
			seen, sent = newest, time.Now()
		case time.Since(sent) >= beatEvery:
			if !send("event: beat\ndata:\n\n") {
				return
			}
			sent = time.Now()
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-p.Done:
			return
		}
	}
}
