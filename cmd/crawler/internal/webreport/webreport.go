// Package webreport is crawler report: what a crawl has found out about its part of the Web, as one HTML page, as CSV files, and as text.
// The numbers are those of internal/census.
package webreport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/census"
	"github.com/parleyweb/parley/internal/command"
)

// Open opens the collection in a directory for a long reading, whether a crawler runs on it or not, and returns a function that closes it.
type Open func(ctx context.Context, env *command.Env, dir string) (*collection.Collection, func() error, error)

// A request is what the options ask for.
type request struct {
	dir, other string
	html, csv  string
	asJSON     bool
	prices     prices
	logs       []string
	census     census.Options
}

// Command returns crawler report.
func Command(open Open) *command.Command {
	var r request
	bind := command.Bind
	return &command.Command{
		Name:    "report",
		Summary: "describe the crawled part of the Web: one page with charts, and tables",
		Usage:   "--into DIR [--html FILE] [--csv DIR] [options]",
		Help: `
What the crawl has found: pages by status, length, age, depth, language and type;
links and their scores; sites, and the graph of the links between them; and what
cooperation has saved. Beside the figures stand those of Castillo's thesis (2004).

    crawler report --into crawl/ --html report.html --csv tables/
    crawler report --into crawl/ --against older/ --html compared.html
    crawler report --into crawl/ --price-of-a-request 0.00001 --price-of-a-gigabyte 0.05

The text on standard output is a summary. The page needs no other file, has no
scripts, and shows the beginning of each table; the CSV files have all rows. The
same collection gives the same bytes.

While a crawler runs on the collection, the report is made from a copy of its
state.db, in the directory that TMPDIR names (or the system's), which is removed
at the end. Otherwise the collection itself is read, and no crawler can start on
it meanwhile.

Exit codes: 0 done; 1 something failed; 2 wrong usage.`,
		Args:     []string{"--into"},
		Required: []string{"into"},
		LogLevel: slog.LevelWarn,
		Flags: []command.Flag{
			bind("into", &r.dir, "`DIR` of the collection"),
			bind("html", &r.html, "write the page to `FILE`, such as report.html"),
			bind("csv", &r.csv, "write each table to a file in `DIR`, such as depths.csv"),
			bind("against", &r.other, "compare with the collection in `DIR`: both side by side, and their differences"),
			bind("json", &r.asJSON, "print all tables as JSON"),
			bind("price-of-a-request", &r.prices.Request, "what a request costs in `MONEY`, of any currency: adds what the crawl cost, and what was saved"),
			bind("price-of-a-gigabyte", &r.prices.Gigabyte, "what the transfer of 1,000,000,000 bytes costs in `MONEY`"),
			bind("empty-is-error", &r.census.EmptyIsError, "count answers with status 204, without content, as errors of the server, as the thesis does"),
			bind("log", &r.logs, "add the pages at which visitors enter, by depth of their directory, from the access logs that `PATTERN` names, quoted; - is standard input (repeatable)"),
		},
		Run: func(ctx context.Context, env *command.Env) error { return r.run(ctx, env, open) },
	}
}

func (r *request) run(ctx context.Context, env *command.Env, open Open) error {
	if err := r.prices.check(); err != nil {
		return err
	}
	began := time.Now()
	v := &view{Name: r.dir, Other: r.other, csv: r.csv != ""}
	var visits tables
	if len(r.logs) > 0 {
		t, err := entries(ctx, env, r.logs)
		if err != nil {
			return err
		}
		visits = tables{*t}
	}
	var err error
	if v.tables, err = r.take(ctx, env, open, r.dir); err != nil {
		return err
	}
	if r.other != "" {
		if v.others, err = r.take(ctx, env, open, r.other); err != nil {
			return err
		}
	}
	v.price(r.prices)
	v.tables = append(v.tables, visits...)
	if r.csv != "" {
		if err := v.writeCSV(r.csv); err != nil {
			return err
		}
	}
	if r.html != "" {
		var page strings.Builder
		if err := v.writeHTML(&page); err != nil {
			return err
		}
		if err := atomicfile.Write(r.html, page.String(), 0o644); err != nil {
			return err
		}
	}
	if r.asJSON {
		err = env.PrintJSON(v.all())
	} else {
		err = v.writeText(env)
	}
	fmt.Fprintf(env.Stderr, "the report took %s\n", time.Since(began).Round(100*time.Millisecond))
	return err
}

// take returns the census of the collection in a directory.
func (r *request) take(ctx context.Context, env *command.Env, open Open, dir string) (list tables, err error) {
	col, end, err := open(ctx, env, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	progress := env.Progress("counting pages of "+dir, -1)
	defer progress.Done()
	progress.Add(int64(col.Len())) // it shows that there is work, not how far it is
	c, err := census.Take(ctx, col, r.census)
	if err != nil {
		return nil, err
	}
	return newTables(c.Tables), nil
}

// brief are the tables of the sections that stand in the text.
const brief = " summary status lengths depths languages degrees site_pages site_graph bowtie saved money entries "

// writeText writes a summary, of lines of at most 94 columns.
func (v *view) writeText(env *command.Env) error {
	var b strings.Builder
	told := brief
	if v.tables.figure("pages")+v.others.figure("pages") == 0 {
		told = " summary saved entries "
	}
	for _, c := range v.chapters() {
		for _, s := range c.List {
			if !strings.Contains(told, " "+s.ID()+" ") {
				continue
			}
			fmt.Fprintln(&b, strings.ToUpper(s.Title))
			for _, p := range s.Says() {
				line := " "
				for _, word := range strings.Fields(p.Name + map[bool]string{true: ": "}[p.Name != ""] + p.Text) {
					if len(line)+1+len(word) > 94 {
						fmt.Fprintln(&b, line)
						line = " "
					}
					line += " " + word
				}
				fmt.Fprintln(&b, line)
			}
		}
	}
	_, err := io.WriteString(env.Stdout, b.String())
	return err
}
