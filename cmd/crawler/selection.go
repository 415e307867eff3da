package main

import (
	"context"
	"flag"
	"fmt"
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

// A selection is what "crawler follow" asks of a site: of what it wants to be told, and how.
type selection struct {
	as, where, agent, token string
	only                    command.Strings
	every                   command.Duration
	count                   int
	maxArchive              command.Size
}

func (s *selection) define(fs *flag.FlagSet) {
	fs.StringVar(&s.as, "as", "auto", "be told in `FORM`: auto, meta, delta, page, batch or site")
	fs.Var(&s.only, "only", "be told only of what `PARAM=VALUE` selects: "+strings.Join(onlyNames(), ", ")+"; may be repeated, of one name any of them")
	fs.StringVar(&s.where, "where", "", "be told only of changes for which `EXPR`, in CEL, is true")
	fs.StringVar(&s.agent, "agent", "", "have `DIGEST or FILE.wasm` decide at the site; a file is sent there first")
	fs.StringVar(&s.token, "token", "", "bearer `TOKEN` by which the site knows you")
	fs.Var(&s.every, "every", "--as batch: a bundle at most every `TIME`")
	fs.IntVar(&s.count, "count", 0, "--as batch: a bundle of at most `N` changes")
	fs.Var(&s.maxArchive, "max-archive", "take no archive of a site over `SIZE` (0: 1 GiB, and with --as site 16 GiB)")
}

// onlyNames are the parameters that --only takes.
func onlyNames() (names []string) {
	for _, n := range protocol.FilterNames() {
		if n != "where" && n != "agent" {
			names = append(names, n)
		}
	}
	return names
}

// formNamed reads --as: auto is empty.
func formNamed(name string) (protocol.Form, error) {
	if name == "" || name == "auto" {
		return "", nil
	}
	as, err := protocol.ParseForm(name)
	if err != nil {
		return "", command.Misusef("--as %s: want auto, meta, delta, page, batch or site", name)
	}
	return as, nil
}

// apply makes a copy of what was selected.
func (s *selection) apply(ctx context.Context, env *command.Env, c *crawl.Copy) (err error) {
	if c.As, err = formNamed(s.as); err != nil {
		return err
	}
	if c.As != protocol.AsBatch && (s.every != 0 || s.count != 0) {
		return command.Misusef("--every and --count are for --as batch")
	}
	if s.every < 0 || s.count < 0 || s.every != 0 && time.Duration(s.every) < time.Second {
		return command.Misusef("--every %s --count %d: want at least a second, and no number below 0", &s.every, s.count)
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
	c.Token, c.BundleEvery, c.BundleCount, c.MaxArchive = s.token, time.Duration(s.every), s.count, int64(s.maxArchive)
	return s.sendAgent(ctx, env, c)
}

// sendAgent names the program that decides, and sends it to the site where it is a file.
func (s *selection) sendAgent(ctx context.Context, env *command.Env, c *crawl.Copy) (err error) {
	if s.agent == "" {
		return nil
	}
	if c.Filter.Agent, err = protocol.ParseDigest(s.agent); err == nil {
		return nil
	}
	program, err := os.ReadFile(s.agent)
	if err != nil {
		return command.Misusef("--agent %s: want a digest, sha-256=:...:, or a file: %v", s.agent, err)
	}
	src := &client.Source{Base: c.Base, UserAgent: crawl.UserAgent(c.Contact), Token: s.token}
	if c.Filter.Agent, err = client.SendAgent(ctx, src, program); err != nil {
		return err
	}
	env.Log.Info("the site has the program", "agent", fmt.Sprint(c.Filter.Agent))
	return nil
}
