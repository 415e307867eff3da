package siteflags

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// senders are the options for notifying search engines, hubs, and commands and webhooks of the site's own, which do
// not request changes themselves.
type senders struct {
	engines ping.IndexNow
	hubs    []string
	ownHub  bool // the notifier is a hub itself
	hooks   ping.Hooks
	secret  string // FILE of the secret of webhooks
}

func (s *senders) options() []command.Flag {
	bind := command.Bind
	engines := &s.engines.Options
	engines.MinSignificance = 0.01
	return []command.Flag{
		bind("indexnow", &engines.Engines, "notify `ENGINE` of changed pages at once: bing, yandex, naver, seznam, yep, indexnow, or a URL; the engines inform each other (repeatable)"),
		bind("indexnow-significance", &engines.MinSignificance, "do not notify engines of updates that changed less than this `SHARE` of the main text (0: notify them of all)"),
		bind("indexnow-key", &engines.Key, "IndexNow `KEY` that proves that the site is yours (default: generated, and stored in the state)"),
		bind("indexnow-rotate", &engines.AutoRotate, "generate a new key when an engine rejects the old one for good"),
		bind("indexnow-all", &engines.SendAll, "notify a new engine of all pages, not only of later changes"),
		bind("websub", &s.hubs, "notify the WebSub hub at `URL` of each new manifest and feed (repeatable)"),
		bind("on-change", &s.hooks.Options.Commands, "run `COMMAND` after changes, with one JSON object a line for each change on its standard input, in order; words are separated by spaces, and no shell is used; repeated with the same changes until it exits with 0 (repeatable)"),
		bind("webhook", &s.hooks.Options.URLs, "POST changes as JSON to `URL`, in order; repeated until it answers with 2xx (repeatable)"),
		bind("webhook-secret", &s.secret, "sign webhooks with the secret in `FILE`: the header X-Hub-Signature-256 has the HMAC-SHA256 of the body"),
	}
}

// does returns the options for the tasks that are requested.
func (s *senders) does() (does []string) {
	for _, x := range []struct {
		option string
		values []string
	}{{"indexnow", s.engines.Options.Engines}, {"websub", s.hubs}, {"on-change", s.hooks.Options.Commands}, {"webhook", s.hooks.Options.URLs}} {
		for _, value := range x.values {
			does = append(does, "--"+x.option+" "+value)
		}
	}
	return does
}

func (s *senders) check(f *Flags) error {
	if err := s.hooks.Check(); err != nil {
		return command.Misusef("--%w", err) // it begins with the option
	}
	if s.secret != "" {
		if len(s.hooks.Options.URLs) == 0 {
			return command.Misusef("--webhook-secret needs --webhook")
		}
		if err := f.outside("webhook-secret", s.secret, "everybody could read it"); err != nil {
			return err
		}
		b, err := os.ReadFile(s.secret)
		if err != nil {
			return fmt.Errorf("--webhook-secret: %w", err)
		}
		if s.hooks.Options.Secret = bytes.TrimSpace(b); len(s.hooks.Options.Secret) < shortestSecret {
			return command.Misusef("--webhook-secret %s: want a secret of at least %d characters: \"openssl rand -hex 16\" makes a good one", s.secret, shortestSecret)
		}
	}
	if least := s.engines.Options.MinSignificance; least < 0 || least > 1 {
		return command.Misusef("--indexnow-significance %g: want 0 to 1", least)
	}
	return nil
}

// shortestSecret is the minimum length of the secret of webhooks, in bytes.
const shortestSecret = 16

// Hooks returns the sender to commands and webhooks; nil if there are none. Call Check before.
func (f *Flags) Hooks(j *server.Journal, public func(string) bool, log *slog.Logger) *ping.Hooks {
	o := &f.senders.hooks.Options
	if len(o.Commands)+len(o.URLs) == 0 {
		return nil
	}
	o.Journal, o.Base, o.Manifest, o.Public, o.Log = j, f.Base, f.ManifestURL(), public, log
	return &f.senders.hooks
}

// HubURL returns the hub named in the manifest and the feeds; empty if there is none.
func (f *Flags) HubURL() string {
	switch s := &f.senders; {
	case s.ownHub:
		return f.Base + "parley/hub"
	case len(s.hubs) > 0:
		return s.hubs[0]
	}
	return ""
}

// IndexNow returns the sender to search engines, always the same one; nil if there are none. Call Check before.
func (f *Flags) IndexNow(j *server.Journal, public func(string) bool, log *slog.Logger) *ping.IndexNow {
	n := &f.senders.engines.Options
	if len(n.Engines) == 0 {
		return nil
	}
	if n.MinSignificance == 0 { // which means the default there
		n.MinSignificance = -1
	}
	n.Journal, n.Base, n.Public, n.Log = j, f.Base, public, log
	if f.Docroot != "" {
		n.KeyDir, _ = filepath.Abs(f.Docroot)
	}
	return &f.senders.engines
}

// keyFile returns the file that proves the IndexNow key; empty if there is none.
func (f *Flags) keyFile(j *server.Journal) string {
	if j == nil || f.Docroot == "" {
		return ""
	}
	n := f.IndexNow(j, nil, nil)
	if n == nil {
		return ""
	}
	p, err := n.KeyPath()
	if err != nil { // the sender reports it
		return ""
	}
	return filepath.Join(n.Options.KeyDir, path.Base(p))
}

// topics returns the URLs that can be subscribed to, and their files.
func (f *Flags) topics() map[string]string {
	o := &f.outputs.feeds
	t := map[string]string{f.ManifestURL(): f.manifest()}
	for _, file := range []string{o.RSS, o.Atom, o.JSON} {
		if file != "" {
			t[f.url(file)] = file
		}
	}
	return t
}

// WebSub returns the sender to hubs; nil if there are none.
func (f *Flags) WebSub(j *server.Journal, published func() protocol.Cursor, log *slog.Logger) *ping.WebSub {
	if len(f.senders.hubs) == 0 {
		return nil
	}
	w := &ping.WebSub{Journal: j, Hubs: f.senders.hubs, Published: published, Log: log}
	w.Topics = slices.Sorted(maps.Keys(f.topics()))
	return w
}

// Hub returns the site's own hub; nil if it has none. Its Client is to be set.
func (f *Flags) Hub(j *server.Journal, published func() protocol.Cursor, log *slog.Logger) *ping.Hub {
	if !f.senders.ownHub {
		return nil
	}
	topics, feeds := f.topics(), &f.outputs.feeds
	types := map[string]string{feeds.RSS: "application/rss+xml", feeds.Atom: "application/atom+xml", feeds.JSON: "application/feed+json"}
	return &ping.Hub{Options: ping.HubOptions{Journal: j, URL: f.Base + "parley/hub", Topics: slices.Sorted(maps.Keys(topics)), Published: published, Log: log,
		Topic: func(_ context.Context, url string) (string, []byte, error) {
			file, ok := topics[url]
			if !ok {
				return "", nil, fmt.Errorf("no such topic: %s", url)
			}
			body, err := ping.ReadTopic(file)
			return cmp.Or(types[file], "application/rdf+xml"), body, err
		}}}
}
