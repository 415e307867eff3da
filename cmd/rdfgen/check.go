package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/check"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/html"
)

const checkHelp = `
Report what is wrong with any site's robots.txt, sitemap, feed or robots.rdf,
what that costs, and what to do. The kind of file is detected from its content.

Check a list on the Web, and 20 of the pages that it lists:
    rdfgen check https://www.example.org/sitemap.xml
    rdfgen check https://www.example.org/robots.txt

Check a file before it is published, without any request:
    rdfgen check public/sitemap.xml.gz

The same, and fetch 100 of its pages at five requests a second, a rate for your
own site only:
    rdfgen check public/sitemap.xml --fetch --sample 100 --rate 5

In a build that should fail if something is wrong:
    rdfgen check --strict public/robots.rdf

The cost of each finding, for a program:
    rdfgen check https://www.example.org/feed.xml --json | jq '.findings[] | {rule, count, cost}'

The sample is spread over the list, and the same each time. Each page is fetched
once, and once more with its validators to see whether the server answers 304.
Then a page is requested that does not exist, which the server should answer 404.
robots.txt is obeyed. Redirects to other hosts are not followed.

Exit codes: 0 no errors found; 1 errors found (with --strict also warnings), or
something failed; 2 wrong usage.`

type checking struct {
	json, strict, fetch bool
	sample              int
	rate                float64
	env                 *command.Env
}

func checkCommand() *command.Command {
	bind := command.Bind
	c := checking{sample: 20, rate: 1}
	return &command.Command{
		Name:     "check",
		Summary:  "report mistakes in a robots.txt, sitemap, feed or robots.rdf, and what they cost",
		Usage:    "URL|FILE [options]",
		Help:     checkHelp,
		Args:     []string{"URL|FILE"},
		LogLevel: slog.LevelWarn,
		Flags: []command.Flag{
			bind("json", &c.json, "print the findings as JSON"),
			bind("strict", &c.strict, "exit with 1 for warnings too"),
			bind("fetch", &c.fetch, "fetch robots.txt and pages from the site also when the list is a FILE"),
			bind("sample", &c.sample, "fetch `N` of the listed pages; 0 for none"),
			bind("rate", &c.rate, "send at most `N` requests a second, such as 0.2 or 5"),
		},
		Run: func(ctx context.Context, env *command.Env) error {
			c.env = env
			return c.run(ctx, env.Args[0])
		},
	}
}

func (c *checking) run(ctx context.Context, target string) error {
	if c.sample < 0 || c.sample > 10_000 {
		return command.Misusef("--sample %d: want 0 to 10000", c.sample)
	}
	if !(c.rate >= 0.001 && c.rate <= 1000) {
		return command.Misusef("--rate %v: want 0.001 to 1000", c.rate)
	}
	agent := "parley-check"
	if version, _, _ := strings.Cut(command.Version(), " "); strings.HasPrefix(version, "v") {
		agent += "/" + version
	}
	every := time.Duration(float64(time.Second) / c.rate)
	bar, shown := c.env.Progress("checking", -1), 0
	checker := &check.Checker{
		Agent:  agent + " (+https://github.com/parleyweb/parley)",
		Sample: c.sample,
		Every:  every,
		Wait:   10*time.Minute + 2*time.Duration(c.sample+50)*every,
		Page: func(url string, page []byte) (bool, string) {
			p := html.Read(url, page, html.Options{})
			return p.NoIndex, p.Canonical
		},
		Progress: func(done, _ int) {
			bar.Add(int64(done - shown))
			shown = done
		},
		Log: c.env.Log,
	}
	if c.sample == 0 {
		checker.Sample = -1
	}
	look := func() (*check.Report, error) { return checker.File(ctx, target, c.fetch) }
	if low := strings.ToLower(target); strings.HasPrefix(low, "http://") || strings.HasPrefix(low, "https://") {
		look = func() (*check.Report, error) { return checker.URL(ctx, target) }
	}
	found, err := look()
	bar.Done()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; a URL on the Web begins with https://", err)
	} else if err != nil {
		return err
	}
	if c.json {
		err = c.env.PrintJSON(found)
	} else {
		err = found.WriteText(c.env.Stdout)
	}
	if err != nil {
		return err
	}
	if found.Count(check.Error) > 0 || c.strict && found.Count(check.Warning) > 0 {
		return &command.ExitError{Code: command.Failure} // the report names the findings
	}
	return nil
}
