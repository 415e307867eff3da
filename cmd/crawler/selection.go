package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
)

// A selection holds the options of "crawler follow" for which changes a site sends that a Copy has in another form.
type selection struct {
	as, where, agent string
	only             []string
}

// flags returns the options of a selection, and those of the copy that it is applied to.
func (s *selection) flags(c *crawl.Copy) []command.Flag {
	bind := command.Bind
	s.as = "auto"
	return []command.Flag{
		bind("as", &s.as, "receive changes in `FORM`: auto, meta, delta, page, batch or site"),
		bind("only", &s.only, "receive only changes that `PARAM=VALUE` selects: "+strings.Join(onlyNames(), ", ")+" (repeatable; values of the same name are alternatives)"),
		bind("where", &s.where, "receive only changes for which the CEL expression `EXPR` is true: 'page.language == \"en\" && change.op != \"delete\"'"),
		bind("program", &s.agent, "have the site run a program of yours, `DIGEST or FILE.wasm`, as the filter; a file is uploaded first, and needs --token"),
		bind("token", &c.Token, "bearer `TOKEN` that identifies you to the site; other users of this machine see it unless it is in a file or the environment"),
		bind("every", &c.BundleEvery, "with --as batch: receive a bundle every `TIME`, 1s to 24h (0: as soon as there is a change)"),
		bind("count", &c.BundleCount, "with --as batch: receive a bundle as soon as there are `N` changes, at most 100000 (0: only --every decides)"),
		bind("max-archive", &c.MaxArchive, "do not download archives over `SIZE` (0: 1 GiB, and with --as site 16 GiB)"),
	}
}

// onlyNames returns the parameters of --only.
func onlyNames() (names []string) {
	for _, n := range protocol.FilterNames() {
		if n != "where" && n != "agent" {
			names = append(names, n)
		}
	}
	return names
}

// apply sets the selection on a copy.
func (s *selection) apply(ctx context.Context, env *command.Env, c *crawl.Copy) (err error) {
	if s.as != "auto" && s.as != "" {
		if c.As, err = protocol.ParseForm(s.as); err != nil {
			return command.Misusef("--as %s: want auto, meta, delta, page, batch or site", s.as)
		}
	}
	every, count := c.BundleEvery, c.BundleCount
	switch {
	case c.As != protocol.AsBatch && (every != 0 || count != 0):
		return command.Misusef("--every and --count need --as batch")
	case every != 0 && (every < time.Second || every > 24*time.Hour):
		return command.Misusef("--every %s: want from 1s to 24h", command.FormatDuration(every))
	case count < 0 || count > 100_000:
		return command.Misusef("--count %d: want from 1 to 100000", count)
	}
	q := url.Values{}
	for _, o := range s.only {
		name, value, ok := strings.Cut(o, "=")
		if !ok || !slices.Contains(onlyNames(), name) {
			return command.Misusef("--only %s: want PARAM=VALUE, PARAM being one of %s", o, strings.Join(onlyNames(), ", "))
		}
		q.Add(name, value)
	}
	if s.where != "" {
		q.Set("where", s.where)
	}
	if c.Filter, err = protocol.ParseFilter(q); err != nil {
		return command.Misusef("--only or --where: %v", err)
	}
	if s.agent == "" {
		return nil
	}
	if c.As == protocol.AsBatch || c.As == protocol.AsSite {
		return command.Misusef("--program does not work with --as %s: want --as auto, meta, delta or page", c.As)
	}
	src := &client.Source{Base: c.Base, UserAgent: crawl.UserAgent(c.Contact), Token: c.Token}
	c.Filter.Agent, err = agentOf(ctx, env, src, s.agent)
	return err
}

// agentOf returns the digest of a program that runs at a site. A program named by its file is uploaded first.
func agentOf(ctx context.Context, env *command.Env, src *client.Source, name string) (protocol.Digest, error) {
	if d, err := protocol.ParseDigest(name); err == nil {
		return d, nil
	}
	program, err := os.ReadFile(name)
	if err != nil {
		return protocol.Digest{}, command.Misusef("--program %s: want a digest, sha-256=:...:, or a file: %v", name, err)
	}
	d, err := client.SendAgent(ctx, src, program)
	if err != nil {
		if status := new(client.StatusError); src.Token == "" && errors.As(err, &status) && status.Status == http.StatusUnauthorized {
			err = fmt.Errorf("%w: identify yourself with --token TOKEN", err)
		}
		return protocol.Digest{}, err
	}
	env.Log.Info("the program is stored at the site", "agent", d.String())
	return d, nil
}
