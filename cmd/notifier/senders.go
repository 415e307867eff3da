package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parleyweb/parley/internal/site/ping"
)

// senders notify search engines, hubs, commands and webhooks, which do not subscribe. Each may be nil.
type senders struct {
	engines *ping.IndexNow
	hubs    *ping.WebSub
	hub     *ping.Hub
	hooks   *ping.Hooks
	hubURL  string // named in the manifest; empty if none
}

// tellersStatus is their state. Unused ones are missing.
type tellersStatus struct {
	IndexNow *ping.Status      `json:"indexnow,omitempty"`
	WebSub   []ping.PingStatus `json:"websub,omitempty"`
	Hub      *ping.HubStatus   `json:"hub,omitempty"`
	Hooks    []ping.HookStatus `json:"hooks,omitempty"`
}

func (t *senders) status() (s tellersStatus, err error) {
	if t.engines != nil {
		st, err := t.engines.Status()
		if err != nil {
			return s, err
		}
		s.IndexNow = &st
	}
	if t.hubs != nil {
		if s.WebSub, err = t.hubs.Status(); err != nil {
			return s, err
		}
	}
	if t.hub != nil {
		st, err := t.hub.Status()
		if err != nil {
			return s, err
		}
		for i := range st.Subscriptions {
			u, err := url.Parse(st.Subscriptions[i].Callback)
			if err != nil {
				return s, err
			}
			st.Subscriptions[i].Callback = u.Scheme + "://" + u.Host // the rest may be a secret of the subscriber
		}
		s.Hub = &st
	}
	if t.hooks != nil {
		if s.Hooks, err = t.hooks.Status(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// own runs those that exist.
func (t *senders) own(ctx context.Context, own func(what string, run func() error)) {
	if t.engines != nil {
		own("indexnow", func() error { return t.engines.Run(ctx) })
	}
	if t.hubs != nil {
		own("websub", func() error { return t.hubs.Run(ctx) })
	}
	if t.hub != nil {
		own("hub", func() error { return t.hub.Run(ctx) })
	}
	if t.hooks != nil {
		own("hooks", func() error { return t.hooks.Run(ctx) })
	}
}

// doors adds the hub to the doors of the notifier, and the file that proves the IndexNow key if no web server
// serves it.
func (t *senders) doors(n http.Handler, base string) http.Handler {
	path := ""
	if u, err := url.Parse(base); err == nil {
		path = u.Path
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case t.hub != nil && r.URL.Path == path+"parley/hub":
			t.hub.ServeHTTP(w, r)
		case t.engines != nil && t.engines.ServesPath(r.URL.Path):
			t.engines.ServeHTTP(w, r)
		default:
			if t.hubURL != "" && r.URL.Path == path+"robots.rdf" {
				w.Header().Set("Link", ping.Links(t.hubURL, base+"robots.rdf"))
			}
			n.ServeHTTP(w, r)
		}
	})
}
