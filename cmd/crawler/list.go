package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/command"
)

// A column is a table column: its name and how to print a cell.
type column[T any] struct {
	name string
	of   func(*T) any
}

// A faulty row may say that the list is not complete.
type faulty interface{ fault() error }

// list prints the rows of the response to a GET request, which has one JSON object per line.
func list[T any](ctx context.Context, env *command.Env, c *collectionFlags, path string, columns []column[T]) (err error) {
	body, err := c.ask(ctx, "GET", path, nil, env.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if _, ends := any(new(T)).(faulty); c.form == "json" && !ends {
		_, err := io.Copy(env.Stdout, body)
		return err
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	var row func([]string) error
	var flush func() error
	from := io.Reader(body)
	switch c.form {
	case "json":
		from, row, flush = io.TeeReader(body, env.Stdout), func([]string) error { return nil }, func() error { return nil }
	case "csv":
		w := csv.NewWriter(env.Stdout)
		row, flush = w.Write, func() error { w.Flush(); return w.Error() }
	default:
		w := env.Table()
		n := 0
		row = func(cells []string) error {
			for i, c := range cells {
				cells[i] = printable(c)
			}
			if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
				return err
			}
			if n++; n%1000 == 0 { // align at most 1000 rows at a time: a list may have no end
				return w.Flush()
			}
			return nil
		}
		flush = w.Flush
	}
	if err := row(names); err != nil {
		return err
	}
	var fault error
	for dec := json.NewDecoder(from); ; {
		var t T
		switch err := dec.Decode(&t); {
		case err == io.EOF:
			return errors.Join(fault, flush())
		case err != nil:
			return errors.Join(err, flush())
		}
		if f, ok := any(&t).(faulty); ok {
			if err := f.fault(); err != nil {
				fault = err
				continue
			}
		}
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = fmt.Sprint(c.of(&t))
		}
		if err := row(cells); err != nil {
			return err
		}
	}
}

// collectionFlags are the options of every command that reads a collection.
type collectionFlags struct {
	dir, form string
	cluster   clusterName
}

func (c *collectionFlags) flags(more ...command.Flag) []command.Flag {
	more = append(more, command.Bind("into", &c.dir, "`DIR` of the collection"))
	return append(more, c.cluster.flags("ask the crawl of several machines, through NATS at `URLS` as \"crawler run\" has them, instead of --into")...)
}

// onCollection completes a command about a collection, which needs --into or --cluster.
func onCollection(c *command.Command) *command.Command {
	c.LogLevel = slog.LevelWarn
	run := c.Run
	c.Run = func(ctx context.Context, env *command.Env) error {
		switch into, servers := env.Flags.Lookup("into").Value.String(), env.Flags.Lookup("cluster").Value.String(); {
		case into != "" && servers != "" && env.Typed["into"] != env.Typed["cluster"]: // the other one is that of a service, from the environment
			for _, option := range []string{"into", "cluster"} {
				if !env.Typed[option] {
					env.Flags.Set(option, "")
				}
			}
		case into == "" && servers == "":
			return command.Misusef("--into is required, or --cluster")
		case into != "" && servers != "":
			return command.Misusef("--into and --cluster exclude each other")
		}
		return run(ctx, env)
	}
	return c
}

// ask sends a request to whoever has the collection, or the partitions of the cluster.
func (c *collectionFlags) ask(ctx context.Context, method, path string, in any, log *slog.Logger) (io.ReadCloser, error) {
	if c.cluster.servers != "" {
		return c.cluster.ask(ctx, method, path, in)
	}
	return ask(ctx, c.dir, method, path, in, log)
}

// askJSON decodes a response.
func (c *collectionFlags) askJSON(ctx context.Context, method, path string, in, out any, log *slog.Logger) error {
	body, err := c.ask(ctx, method, path, in, log)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(out)
}

// withForm adds the option of commands that print a list.
func (c *collectionFlags) withForm(more ...command.Flag) []command.Flag {
	c.form = "table"
	return c.flags(append(more, command.Bind("format", &c.form, "print a table, csv, or json (one object per line)"))...)
}

func (c *collectionFlags) check() error {
	switch c.form {
	case "table", "csv", "json":
		return nil
	}
	return command.Misusef("--format %s: want table, csv or json", c.form)
}

func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func percent(f float64) string {
	if f < 0 {
		return "-"
	}
	return strconv.FormatFloat(100*f, 'f', 0, 64) + "%"
}

func sites() *command.Command {
	var c collectionFlags
	var correlation bool
	return onCollection(&command.Command{
		Name:    "sites",
		Summary: "list the sites of a collection and their behaviour",
		Usage:   "--into DIR [options]",
		Help: `
For each site: the pages known, stored (HELD) and due for a fetch (READY); the
expected share of current pages (FRESH); how the site announces changes (TOLD BY),
and the share of announcements that were right (HONEST); the visits A DAY; and how
long it takes to CONNECT and from a request to the end of the RESPONSE, as moving
averages, and the requests over one connection (PER CONN).

    crawler sites --into crawl/
    crawler sites --into crawl/ --format csv > sites.csv
    crawler sites --into crawl/ --correlation          are good sites fast ones?`,
		Args: []string{"--into"},
		Flags: c.withForm(command.Bind("correlation", &correlation,
			"print, instead of the list, how the link scores of the sites (or if there are none, the numbers of their pages) and their speeds and latencies correlate")),
		Run: func(ctx context.Context, env *command.Env) error {
			if err := c.check(); err != nil {
				return err
			}
			if correlation {
				body, err := c.ask(ctx, "GET", "/sites", nil, env.Log)
				if err != nil {
					return err
				}
				return correlate(env, body, c.form)
			}
			return list(ctx, env, &c, "/sites", []column[siteRow]{
				{"SITE", func(r *siteRow) any { return r.Origin }},
				{"PAGES", func(r *siteRow) any { return r.Pages }},
				{"HELD", func(r *siteRow) any { return r.Held }},
				{"READY", func(r *siteRow) any { return r.Ready }},
				{"FRESH", func(r *siteRow) any { return percent(r.Fresh) }},
				{"TOLD BY", func(r *siteRow) any { return r.ToldBy }},
				{"HONEST", func(r *siteRow) any { return percent(r.Honest) }},
				{"A DAY", func(r *siteRow) any { return strconv.FormatFloat(r.PerDay, 'f', 1, 64) }},
				{"CONNECT", func(r *siteRow) any { return millis(r.Connect) }},
				{"RESPONSE", func(r *siteRow) any { return millis(r.Response) }},
				{"PER CONN", func(r *siteRow) any { return known(r.PerConnection > 0, strconv.Itoa(r.PerConnection)) }},
				{"TROUBLE", func(r *siteRow) any {
					if r.Paused {
						return strings.TrimSuffix("paused by a person; "+r.Fault, "; ")
					}
					return r.Fault
				}},
			})
		},
	})
}

var pageColumns = []column[pageRow]{
	{"URL", func(r *pageRow) any { return r.URL }},
	{"STATE", func(r *pageRow) any { return r.State }},
	{"STATUS", func(r *pageRow) any { return r.Status }},
	{"DEPTH", func(r *pageRow) any { return r.Depth }},
	{"BYTES", func(r *pageRow) any {
		if r.Cut {
			return fmt.Sprint(r.Length, "+")
		}
		return r.Length
	}},
	{"VISITS", func(r *pageRow) any { return r.Visits }},
	{"CHANGES", func(r *pageRow) any { return r.Changes }},
	{"LAST", func(r *pageRow) any { return ago(r.Last) }},
	{"NEXT", func(r *pageRow) any { return ago(r.Next) }},
	{"TITLE", func(r *pageRow) any { return r.Title }},
}

// states returns the names of the page states.
func states() (names []string) {
	for s := collection.Known; s <= collection.Excluded; s++ {
		names = append(names, s.String())
	}
	return names
}

func pages() *command.Command {
	var c collectionFlags
	var site, prefix, state string
	return onCollection(&command.Command{
		Name:    "pages",
		Summary: "list the pages of a collection",
		Usage:   "--into DIR [options]",
		Help: `
A + after BYTES marks a page longer than --max-file, stored only in part.

    crawler pages --into crawl/
    crawler pages --into crawl/ --site https://www.example.org --state excluded
    crawler pages --into crawl/ --prefix https://www.example.org/news/ --format json`,
		Args: []string{"--into"},
		Flags: c.withForm(
			command.Bind("site", &site, "only pages of `ORIGIN`, such as https://www.example.org"),
			command.Bind("prefix", &prefix, "only pages whose URL begins with `TEXT`"),
			command.Bind("state", &state, "only pages in `STATE`: known, held (content is stored), gone, moved, refused, failing or excluded")),
		Run: func(ctx context.Context, env *command.Env) error {
			if err := c.check(); err != nil {
				return err
			}
			if state != "" && !slices.Contains(states(), state) {
				return command.Misusef("--state %s: want %s", state, strings.Join(states(), ", "))
			}
			q := url.Values{"site": {strings.TrimSuffix(site, "/")}, "prefix": {prefix}, "state": {state}}
			return list(ctx, env, &c, "/pages?"+q.Encode(), pageColumns)
		},
	})
}

func links() *command.Command {
	var c collectionFlags
	var all bool
	return onCollection(&command.Command{
		Name:    "links",
		Summary: "list the pages that a page links to, or all links",
		Usage:   "[URL] --into DIR [options]",
		Help: `
    crawler links https://www.example.org/ --into crawl/
    crawler links --all --into crawl/ > links.csv           two columns, from and to`,
		Args:  []string{"..."},
		Flags: c.withForm(command.Bind("all", &all, "list all links between stored URLs, in CSV or with --format json")),
		Run: func(ctx context.Context, env *command.Env) error {
			if err := c.check(); err != nil {
				return err
			}
			switch {
			case all && len(env.Args) == 0:
				if c.form == "table" {
					c.form = "csv"
				}
				return list(ctx, env, &c, "/links?all=true", []column[linkRow]{{"from", func(r *linkRow) any { return r.From }}, {"to", func(r *linkRow) any { return r.To }}})
			case all || len(env.Args) != 1:
				return command.Misusef("want one URL, or --all without a URL")
			}
			return list(ctx, env, &c, "/links?"+url.Values{"url": {env.Args[0]}}.Encode(), pageColumns)
		},
	})
}
