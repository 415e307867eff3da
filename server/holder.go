package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/parleyweb/parley/internal/holder"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/internal/web"
	"github.com/parleyweb/parley/server/inventory"
)

// A Holder answers requests of other processes of this machine for the process that has
// a site's journal open, on a Unix socket beside the journal that only its owner may use:
//
//	GET  /status             the Publisher's Status
//	POST /look               scan everything now, write the manifest; a Report
//	POST /accept-deletions   the same, announcing every deletion
//	POST /self-check         fetch some pages from the web server; a Checked
//	GET  /NAME               the result of Answers[NAME]
//	POST /NAME?...           the result of Tasks[NAME]
//
// Answers are JSON; errors are application/problem+json. See [Ask].
type Holder struct {
	State string // path of the journal, which this process has open

	// Publisher is what is asked. Without an Inventory, in a process that has a copy of a site, it has a status only, and every
	// POST fails.
	Publisher *Publisher

	// HTTP fetches pages for a requested self-check; nil means direct requests.
	HTTP *http.Client

	// Answers are further queries: GET /NAME is answered with the JSON of the
	// function's result, which must encode. A name is one path segment, such as
	// "senders", and none of the above.
	Answers map[string]func(context.Context) (any, error)

	// Scanned, if not nil, is called after each scan that was asked for. The answer waits for it, and is its error if it fails.
	Scanned func(context.Context) error

	// Tasks are further actions, called in the same way with the parameters of the request.
	Tasks map[string]func(context.Context, url.Values) (any, error)

	Log *slog.Logger
}

// ErrNoHolder is returned by [Ask] when no process has the journal open.
var ErrNoHolder = holder.ErrNoHolder

// Run answers until ctx ends, which also ends requests in progress. It must be
// called with the journal open.
func (h *Holder) Run(ctx context.Context) error {
	return holder.Serve(ctx, h.State, h.Handler(), h.Log)
}

// Handler returns a handler that answers the same requests: for pages and programs that may do all that the owner of the journal may.
func (h *Holder) Handler() http.Handler {
	reply := func(f func(*http.Request) (any, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			v, err := f(r)
			if err != nil {
				web.Plain(http.StatusInternalServerError, err.Error()).Write(w, r)
				return
			}
			b, err := json.Marshal(v)
			if err != nil {
				panic("server: encode answer: " + err.Error()) // plain values always encode
			}
			web.WriteJSON(w, append(b, '\n'))
		}
	}
	m := http.NewServeMux()
	m.HandleFunc("GET /status", reply(func(*http.Request) (any, error) { return h.Publisher.Status(), nil }))
	for name, f := range h.Answers {
		m.HandleFunc("GET /"+name, reply(func(r *http.Request) (any, error) { return f(r.Context()) }))
	}
	m.HandleFunc("POST /{name}", reply(func(r *http.Request) (any, error) { return h.Do(r.Context(), r.PathValue("name"), r.URL.Query()) }))
	return m
}

// Do does what a POST to /name does.
func (h *Holder) Do(ctx context.Context, name string, parameters url.Values) (any, error) {
	if h.Publisher.Inventory == nil {
		return nil, errors.New("the process that has the state open has a copy of the site: ask the notifier that writes its log, on that one's machine")
	}
	switch name {
	case "look":
		return h.settled(ctx, h.Publisher.Turn)
	case "accept-deletions":
		return h.settled(ctx, h.Publisher.AcceptDeletions)
	case "self-check":
		return SelfCheck(ctx, h.Publisher.Journal, h.HTTP, 0)
	}
	if f := h.Tasks[name]; f != nil {
		return f(ctx, parameters)
	}
	return nil, fmt.Errorf("%.80q is no task", name)
}

// settlePatience is how long a requested scan waits for files that are being
// changed at that moment, so that a request right after a build reports the
// changes of the build.
const settlePatience = 5 * time.Second

// settled runs a turn, and repeats it while something is unsettled. The
// report adds up their results.
func (h *Holder) settled(ctx context.Context, do func(context.Context) (inventory.Report, error)) (inventory.Report, error) {
	begin := time.Now()
	rep, err := do(ctx)
	for err == nil && rep.Unsettled > 0 && time.Since(begin) < settlePatience && pause.For(ctx, 20*time.Millisecond) {
		var next inventory.Report
		next, err = do(ctx)
		rep.Add(next)
		rep.Duration, rep.Head = time.Since(begin), next.Head
	}
	if err == nil && h.Scanned != nil {
		if err = h.Scanned(ctx); err != nil {
			err = fmt.Errorf("the site was scanned and its changes were told, but doors elsewhere may still deliver what was withdrawn: %w", err)
		}
	}
	return rep, err
}

// Ask sends a request to the process that has the journal at state open, and decodes its
// JSON into out, a *Report or *Status. It returns ErrNoHolder when no process has
// the journal open: then the caller may open it. It waits up to 5 s for a holder
// that does not respond yet, and for the response until ctx ends.
func Ask(ctx context.Context, state, method, path string, out any) error {
	door := holder.Client{State: state, Held: func() (bool, error) { return isHeld(state) }}
	return door.Do(ctx, method, path, nil, out)
}

// isHeld reports whether another process has the journal at path open.
func isHeld(path string) (bool, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	j, err := journal.Open(path, &journal.Options{ReadOnly: true})
	switch {
	case errors.Is(err, journal.ErrHeld):
		return true, nil
	case err != nil:
		return false, nil // the caller's own attempt to open it returns the error
	}
	return false, j.Close()
}
