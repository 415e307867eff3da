package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/client/index"
	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
)

// index writes the inverted index of the stored pages.
func (d *localAPI) index(w http.ResponseWriter, req *http.Request) {
	var b index.Builder
	defer b.Close()
	prefix := req.URL.Query().Get("prefix")
	for p, err := range d.col.Pages(req.Context()) {
		if site, _ := d.col.SiteByID(p.Site); err == nil && p.State == collection.Held && !p.NoIndex && !site.Withheld && strings.HasPrefix(p.URL, prefix) {
			err = d.addPage(&b, &p)
		}
		if err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := b.Write(req.Context(), w); err != nil {
		panic(http.ErrAbortHandler) // so that the client does not take it for complete
	}
}

// addPage adds the content of a page, if it can be read.
func (d *localAPI) addPage(b *index.Builder, p *collection.Page) error {
	content, err := d.col.Contents().Content(p.URL, p.Stored)
	if err != nil {
		d.log.Warn("page left out of the index: its content cannot be read", "url", p.URL, "err", err)
		return nil
	}
	defer content.Close()
	if content.Authorized {
		return nil
	}
	page, err := io.ReadAll(io.LimitReader(content, maxText))
	if err != nil {
		d.log.Warn("page left out of the index: its content cannot be read", "url", p.URL, "err", err)
		return nil
	}
	mediaType := p.Type
	if t := content.Header.Get("Content-Type"); t != "" {
		mediaType = t
	}
	return b.AddPage(index.Doc{URL: p.URL, Digest: p.Digest}, mediaType, page)
}

func indexes() *command.Command {
	return &command.Command{
		Name:    "index",
		Summary: "make, merge and search inverted indexes",
		Usage:   "COMMAND [options]",
		Help: `
Index the pages of a collection, or have a site index its own pages:
    crawler index build crawl.index --into crawl/
    crawler index build site.index --from https://www.example.org/ --program index.wasm --token TOKEN

Merge several indexes, and search the result:
    crawler index merge all.index crawl.index site.index
    crawler index search all.index "some words"`,
		Sub: []*command.Command{indexBuild(), indexMerge(), indexSearch()},
	}
}

func indexBuild() *command.Command {
	bind := command.Bind
	var dir, prefix, from, program, contact, token string
	var only []string
	return &command.Command{
		Name:    "build",
		Summary: "make an index of a collection, or from a program that runs at a site",
		Usage:   "OUT (--into DIR | --from BASE --program FILE) [options]",
		Help: `
Index a collection, whether a crawler runs on it or not, without pages that say
noindex:
    crawler index build crawl.index --into crawl/

Index a site that runs programs for its crawlers: the program indexes each page
there, and only the result is sent:
    crawler index build site.index --from https://www.example.org/ --program index.wasm --token TOKEN

examples/agents/index in Parley's sources is such a program. The command prints
the cursor of the site. Pages that change later are delivered after that cursor,
each with its own index, for "crawler index merge" to put over the old one.

OUT is replaced when the new index is complete.

Exit codes: 0 done; 1 something failed, and OUT is unchanged; 2 wrong usage.`,
		Args:     []string{"OUT", "--into"},
		LogLevel: slog.LevelWarn,
		Flags: []command.Flag{
			bind("into", &dir, "`DIR` of the collection"),
			bind("prefix", &prefix, "only pages whose URL begins with `TEXT`"),
			bind("from", &from, "`BASE` URL of a site, instead of a collection"),
			bind("program", &program, "`DIGEST or FILE.wasm` of the program that makes the index of a page"),
			bind("token", &token, "bearer `TOKEN` that identifies you to the site"),
			bind("contact", &contact, "`MAIL or URL` at which people reach you, sent with every request; required unless the site is on this machine"),
			bind("only", &only, "--from: only pages that `PARAM=VALUE` selects (repeatable)"),
		},
		Run: func(ctx context.Context, env *command.Env) error {
			switch {
			case (dir == "") == (from == ""):
				return command.Misusef("either --into or --from is required")
			case from != "" && program == "":
				return command.Misusef("--from needs --program")
			case from == "" && (program != "" || len(only) > 0):
				return command.Misusef("--program and --only need --from")
			}
			return replace(env.Args[0], func(out *os.File) error {
				if dir != "" {
					body, err := ask(ctx, dir, "GET", "/index?"+url.Values{"prefix": {prefix}}.Encode(), nil, env.Log)
					if err != nil {
						return err
					}
					_, err = io.Copy(out, body)
					return errors.Join(err, body.Close())
				}
				q := url.Values{}
				if prefix != "" {
					q.Set("prefix", prefix)
				}
				for _, o := range only {
					name, value, ok := strings.Cut(o, "=")
					if !ok {
						return command.Misusef("--only %s: want PARAM=VALUE", o)
					}
					q.Add(name, value)
				}
				filter, err := protocol.ParseFilter(q)
				if err != nil {
					return command.Misusef("--only or --prefix: %v", err)
				}
				o := crawl.DefaultOptions()
				o.Fetch.Contact, o.Fetch.AllowPrivate = contact, true // an index may be of any site
				if err := o.CheckURL(from); err != nil {
					return misuse(err)
				}
				src := &client.Source{Base: from, UserAgent: crawl.UserAgent(contact), Token: token, Filter: filter}
				if src.Filter.Agent, err = agentOf(ctx, env, src, program); err != nil {
					return err
				}
				return indexSite(ctx, env, src, out)
			})
		},
	}
}

// indexSite collects the indexes that a site's agent makes of its pages.
func indexSite(ctx context.Context, env *command.Env, src *client.Source, out io.Writer) error {
	var b index.Builder
	defer b.Close()
	pages, without := 0, 0
	progress := env.Progress("pages", -1)
	defer progress.Done()
	cursor, err := client.RunAgent(ctx, src, func(o protocol.AgentOutput) error {
		progress.Add(1)
		if pages++; len(o.Output) == 0 {
			without++
			env.Log.Warn("the program returned no index of a page", "url", o.URL, "reason", o.Failed)
			return nil
		}
		if err := soleIndex(o); err != nil {
			return err
		}
		return b.AddIndex(bytes.NewReader(o.Output))
	})
	if err != nil {
		return err
	}
	if err := b.Write(ctx, out); err != nil {
		return err
	}
	if without > 0 {
		fmt.Fprintf(env.Stderr, "%d of %d pages have no index\n", without, pages)
	}
	_, err = fmt.Fprintln(env.Stdout, cursor)
	return err
}

// soleIndex makes sure that the index of a page is about that page: a site must not speak of others' pages.
func soleIndex(o protocol.AgentOutput) error {
	doc, err := index.Sole(bytes.NewReader(o.Output))
	if err != nil {
		return fmt.Errorf("%s: %w", o.URL, err)
	}
	if doc.URL != o.URL || !o.Digest.IsZero() && doc.Digest != o.Digest {
		return fmt.Errorf("the program returned for %s the index of another page: %.200q", o.URL, doc.URL)
	}
	return nil
}

// replace writes a file anew, and keeps the old one if that fails.
func replace(name string, write func(*os.File) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".parley-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is gone if all went well
	if err := errors.Join(write(f), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return atomicfile.Replace(f.Name(), name)
}

func indexMerge() *command.Command {
	return &command.Command{
		Name:    "merge",
		Summary: "merge indexes into one",
		Usage:   "OUT IN...",
		Help: `
    crawler index merge all.index one.index two.index three.index

If a page is in several indexes, the last one wins: to update an index, name it
first, and the index of the changes after it. OUT may be one of the inputs: it is
replaced when the new index is complete. Memory: four bytes per page and 64 KiB
per index, whatever their size.

Exit codes: 0 done; 1 something failed, and OUT is unchanged; 2 wrong usage.`,
		Args:     []string{"OUT", "IN", "..."},
		LogLevel: slog.LevelWarn,
		Run: func(ctx context.Context, env *command.Env) error {
			out := env.Args[0]
			return replace(out, func(f *os.File) error {
				return index.MergeFiles(ctx, f, filepath.Dir(out), env.Args[1:]...)
			})
		},
	}
}

// A found is the output of "crawler index search --json".
type found struct {
	Found int   `json:"found"`
	Hits  []hit `json:"hits"`
}

type hit struct {
	URL   string  `json:"url"`
	Score float64 `json:"score"`
}

func indexSearch() *command.Command {
	limit, asJSON := 10, false
	return &command.Command{
		Name:    "search",
		Summary: "find the pages that have all words of a query",
		Usage:   "FILE QUERY [options]",
		Help: `
    crawler index search all.index "freshness of a page"
    crawler index search all.index "freshness of a page" --limit 3 --json

The most relevant come first (BM25).

Exit codes: 0 pages were found; 3 no page was found; 1 something failed; 2 wrong usage.`,
		Args:     []string{"FILE", "QUERY"},
		LogLevel: slog.LevelWarn,
		Flags: []command.Flag{
			command.Bind("limit", &limit, "print at most `N` pages; 0: all"),
			command.Bind("json", &asJSON, "print the results as JSON"),
		},
		Run: func(ctx context.Context, env *command.Env) error {
			if limit < 0 {
				return command.Misusef("--limit %d: want 0 or more", limit)
			}
			f, err := os.Open(env.Args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			st, err := f.Stat()
			if err != nil {
				return err
			}
			x, err := index.Open(f, st.Size())
			if err != nil {
				return fmt.Errorf("%s: %w", env.Args[0], err)
			}
			hits, n, err := x.Search(env.Args[1], limit)
			if err != nil {
				return fmt.Errorf("%s: %w", env.Args[0], err)
			}
			if err := printHits(env, hits, n, asJSON); err != nil || n > 0 {
				return err
			}
			return &command.ExitError{Code: 3}
		},
	}
}

func printHits(env *command.Env, hits []index.Hit, n int, asJSON bool) error {
	if asJSON {
		f := found{Found: n, Hits: []hit{}}
		for _, h := range hits {
			f.Hits = append(f.Hits, hit(h))
		}
		return env.PrintJSON(f)
	}
	w := env.Table()
	for _, h := range hits {
		fmt.Fprintf(w, "%.3f\t%s\n", h.Score, printable(h.URL))
	}
	fmt.Fprintf(env.Stderr, "%d of %d pages\n", len(hits), n)
	return w.Flush()
}
