package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/steer"
	"github.com/parleyweb/parley/internal/holder"
)

func pauseSites() *command.Command {
	return pausing("pause", "send no more requests to a site, or to any", `
    crawler pause https://www.example.org --into crawl/     one site
    crawler pause www.example.org --into crawl/             a host, on all its ports
    crawler pause --into crawl/                             all sites, as does the word all

A paused site gets no request of any kind: no page, robots.txt or manifest, and
its stream is closed. A request that was sent already is completed. Nothing is
lost: the site is followed again from the same cursor. The pause holds until
"crawler resume", in later runs, too, whether a crawler runs on DIR now or not.`, (*steer.Steering).Pause)
}

func resumeSites() *command.Command {
	return pausing("resume", "continue with paused sites", `
    crawler resume https://www.example.org --into crawl/    one site, named as it was paused
    crawler resume --into crawl/                            all sites`, (*steer.Steering).Resume)
}

// pausing returns the command "pause" or "resume".
func pausing(name, summary, help string, change func(*steer.Steering, []string) error) *command.Command {
	var c collectionFlags
	return onCollection(&command.Command{Name: name, Summary: summary, Help: help, Usage: "[SITE...] --into DIR",
		Args: []string{"..."}, Flags: c.flags(),
		Run: func(ctx context.Context, env *command.Env) error {
			names := env.Args
			if len(names) == 0 {
				names = []string{steer.All}
			}
			s, err := steerCrawl(ctx, &c, "/"+name, names, change, env.Log)
			if err != nil {
				return err
			}
			fmt.Fprintln(env.Stderr, printable(pausedText(&s.Steering)))
			if len(s.Unknown) > 0 {
				fmt.Fprintln(env.Stderr, printable(unknownText(s.Unknown)))
			}
			return nil
		}})
}

func changeRate() *command.Command {
	var c collectionFlags
	return onCollection(&command.Command{
		Name:    "rate",
		Summary: "change how many requests a running crawler makes",
		Usage:   "[NAME=VALUE...] --into DIR",
		Help: `
    crawler rate budget=5000 wait=30s --into crawl/    change some options of "crawler run"
    crawler rate budget=default --into crawl/          as "crawler run" was told
    crawler rate --into crawl/                         show what is changed

NAME is an option of "crawler run": budget, wait, wait-big, max-rate or per-address.
A new budget is in force after the next plan, within a minute; the others from
the next request to each site on. They hold in later runs, too. A crawler with
--wait 0 keeps it, and per-address does not change the number of connections.`,
		Args: []string{"..."}, Flags: c.flags(),
		Run: func(ctx context.Context, env *command.Env) error {
			var r steer.Rate
			fields := map[string]*string{"budget": &r.Budget, "wait": &r.Wait, "wait-big": &r.WaitBig, "max-rate": &r.MaxRate, "per-address": &r.PerAddress}
			err := settings(env.Args, fields, func(to *string, value string) { *to = value })
			if err != nil {
				return err
			}
			s, err := steerOrShow(ctx, &c, "/rate", r, len(env.Args) > 0, (*steer.Steering).SetRate, env.Log)
			if err == nil {
				fmt.Fprintln(env.Stdout, printable(cmp.Or(rateText(&s.Rate), "nothing is changed")))
			}
			return err
		},
	})
}

func changeScope() *command.Command {
	var c collectionFlags
	return onCollection(&command.Command{
		Name:    "scope",
		Summary: "change which URLs a running crawler crawls",
		Usage:   "[NAME=VALUE...] --into DIR",
		Help: `
    crawler scope reject=/archive/ 'reject=*.pdf$' --into crawl/    replace a list of "crawler run"
    crawler scope reject=none --into crawl/                         empty it
    crawler scope reject=default --into crawl/                      as "crawler run" was told
    crawler scope --into crawl/                                     show what is changed

NAME is an option of "crawler run": domain, accept or reject. Pages outside are
not fetched any more; they and their contents stay in the collection, and are
fetched again once they are inside. Sites outside of the domains get no request
at all; domain=none means the hosts of the start pages. Manifests, sitemaps and
feeds are read again, since they may list pages that are inside now. The scope
holds in later runs, too.`,
		Args: []string{"..."}, Flags: c.flags(),
		Run: func(ctx context.Context, env *command.Env) error {
			var sc steer.Scope
			fields := map[string]*[]string{"domain": &sc.Domain, "accept": &sc.Accept, "reject": &sc.Reject}
			err := settings(env.Args, fields, func(to *[]string, value string) { *to = append(*to, value) })
			if err != nil {
				return err
			}
			s, err := steerOrShow(ctx, &c, "/scope", sc, len(env.Args) > 0, (*steer.Steering).SetScope, env.Log)
			if err == nil {
				fmt.Fprintln(env.Stdout, printable(cmp.Or(scopeText(&s.Scope), "nothing is changed")))
			}
			return err
		},
	})
}

// settings reads arguments NAME=VALUE. They are no options, because those of "crawler run", which have the same names, may be in the
// environment or in a file.
func settings[T any](args []string, fields map[string]*T, set func(to *T, value string)) error {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if fields[name] == nil || value == "" {
			return command.Misusef("%s: want NAME=VALUE, with NAME one of %s", arg, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		set(fields[name], value)
	}
	return nil
}

// A nowSet is what a person has set on a crawl, after a change.
type nowSet struct {
	steer.Steering
	Unknown []string `json:"unknown,omitempty"` // names that the change paused, and that no site of the crawl has yet
}

// compare looks for the names of a change among the origins of the crawl's sites.
func (s *nowSet) compare(change any, origins iter.Seq[string]) {
	if names, ok := change.([]string); ok {
		s.Unknown = s.Steering.Unknown(names, origins)
	}
}

// steerCrawl changes what is set on a crawl: with --cluster in all partitions, else in the process that has it open or, if none has, in its state.
func steerCrawl[T any](ctx context.Context, c *collectionFlags, path string, in T, change func(*steer.Steering, T) error, log *slog.Logger) (s nowSet, err error) {
	if c.cluster.servers != "" {
		return c.cluster.steer(ctx, path, in)
	}
	dir := collectionIn(c.dir)
	if _, err := os.Stat(statePath(dir)); err != nil {
		return s, noCollection(dir)
	}
	var failed error // without a holder
	door := holder.Client{State: statePath(dir), Held: func() (held bool, err error) {
		failed = collection.EditSteering(dir, func(text []byte, origins iter.Seq[string]) ([]byte, error) {
			var err error
			if s.Steering, err = steer.Parse(text); err == nil {
				err = change(&s.Steering, in)
			}
			if err == nil {
				err = checkSteering(&s.Steering)
			}
			if err != nil {
				return nil, err
			}
			s.compare(in, origins)
			return s.Text(), nil
		})
		if errors.Is(failed, collection.ErrHeld) {
			return true, nil
		}
		return false, nil
	}}
	if err = door.Do(ctx, "POST", path, in, &s); errors.Is(err, holder.ErrNoHolder) {
		err = failed
	}
	return s, err
}

// checkSteering returns an error if what is set cannot be right for any crawl. The rest is checked when a crawler starts.
func checkSteering(s *steer.Steering) error {
	o := crawl.DefaultOptions()
	err := s.Rate.Apply(&o.Revisits.Budget, &o.Fetch.Wait, &o.Fetch.WaitBig, &o.Fetch.MaxRate, &o.Fetch.PerAddress)
	if err == nil {
		_, err = o.Harvester()
	}
	return misuse(err)
}

// steerOrShow changes what is set, or if nothing is to be changed returns it.
func steerOrShow[T any](ctx context.Context, c *collectionFlags, path string, in T, changes bool, change func(*steer.Steering, T) error, log *slog.Logger) (steer.Steering, error) {
	if changes {
		s, err := steerCrawl(ctx, c, path, in, change, log)
		return s.Steering, err
	}
	if c.cluster.servers != "" {
		s, err := c.cluster.status(ctx)
		return s.Steering, err
	}
	var s summary
	err := c.askJSON(ctx, "GET", "/status", nil, &s, log)
	return s.Steering, err
}

// steered returns the handler of a change of what is set on the running crawl: the request is JSON, such as the example, and so is the
// response, a nowSet.
func steered[T any](d *localAPI, example string, change func(*steer.Steering, T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		var in T
		dec := json.NewDecoder(io.LimitReader(req.Body, 16<<20))
		dec.DisallowUnknownFields()
		err := dec.Decode(&in)
		if names, ok := any(in).([]string); err == nil && ok && len(names) == 0 {
			err = errors.New("no site is named")
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, fmt.Errorf("%w: want JSON such as %s", err, example))
			return
		}
		s, err := steerRunning(d, in, change)
		if err != nil {
			refuse(w, http.StatusConflict, misuse(err))
			return
		}
		answer(w, s, nil)
	}
}

// steerRunning changes what is set on the running crawl.
func steerRunning[T any](d *localAPI, in T, change func(*steer.Steering, T) error) (s nowSet, err error) {
	if d.crawler == nil {
		return s, errNoCrawler
	}
	if s.Steering, err = d.crawler.Steer(func(s *steer.Steering) error { return change(s, in) }); err == nil {
		s.compare(in, d.origins)
	}
	return s, err
}

// origins yields the origins of all sites.
func (d *localAPI) origins(yield func(string) bool) {
	for s := range d.col.Sites() {
		if !yield(s.Origin) {
			return
		}
	}
}

// mostPaused is how many paused sites are named at most.
const mostPaused = 20

// pausedText says which sites are paused.
func pausedText(s *steer.Steering) string {
	switch n := len(s.Sites); {
	case s.All:
		return "all sites are paused"
	case n == 0:
		return "no site is paused"
	case n == 1:
		return s.Sites[0] + " is paused"
	}
	return firstOf(s.Sites) + " are paused"
}

func firstOf(names []string) string {
	if n := len(names) - mostPaused; n > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:mostPaused], ", "), n)
	}
	return strings.Join(names, ", ")
}

// unknownText says which names that were paused may be mistaken.
func unknownText(names []string) string {
	if len(names) == 1 {
		return names[0] + ": no site of this crawl has that name yet; it will be paused when found"
	}
	return firstOf(names) + ": no sites of this crawl have these names yet; they will be paused when found"
}

// rateText says which options of the rate are changed, empty if none is.
func rateText(r *steer.Rate) string {
	return given([]string{"budget", "wait", "wait-big", "max-rate", "per-address"}, [][]string{{r.Budget}, {r.Wait}, {r.WaitBig}, {r.MaxRate}, {r.PerAddress}})
}

// scopeText says which lists of the scope are changed, empty if none is.
func scopeText(s *steer.Scope) string {
	return given([]string{"domain", "accept", "reject"}, [][]string{s.Domain, s.Accept, s.Reject})
}

func given(names []string, values [][]string) string {
	var list []string
	for i, name := range names {
		for _, v := range values[i] {
			if v != "" {
				list = append(list, name+"="+v)
			}
		}
	}
	return strings.Join(list, " ")
}
