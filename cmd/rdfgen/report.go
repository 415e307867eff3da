package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/report"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/manifest"
)

const reportHelp = `
Report what crawlers cost this site, and what each way of publishing changes
would have saved. It needs only the web server's access log.

Rotated files are read oldest first, and may be compressed with gzip or
Zstandard:
    rdfgen report --log /var/log/nginx/access.log*

Write one HTML page with charts, to look at and to print:
    rdfgen report --log /var/log/nginx/access.log* --html report.html

Read standard input, or write for a program:
    ssh www cat /var/log/apache2/access.log | rdfgen report --log -
    rdfgen report --log access.json.zst --json | jq .savings

Anybody can claim to be Googlebot. Given the addresses that its operator
publishes, false claims are listed separately; --verify-dns instead verifies
each address by DNS:
    rdfgen report --log 'access.log*' --ranges googlebot=googlebot.json
    rdfgen report --log 'access.log*' --verify-dns

One month, with hours in the time zone of Santiago:
    rdfgen report --log 'access.log*' --since 2026-10-01 --until 2026-11-01 --tz America/Santiago

The first sentence says what to do first. Below FAMILIES are URLs in which
crawlers find almost nothing new, such as those with ?sort=, with lines for
robots.txt and nginx to copy; nothing is written. No line forbids a page of
the manifest:
    rdfgen report --log 'access.log*' --manifest /var/www/html/robots.rdf

Formats are detected: common and combined, also with the virtual host in front,
and lines of JSON as nginx, Caddy, Traefik and Apache write them. Lines that
cannot be read are counted and shown. The report says which of its figures are
measured and which are bounds.

Exit codes: 0 success; 1 something failed, or the log has no request; 2 wrong
usage.`

type reporting struct {
	logs, ranges       []string
	json, dns          bool
	html, since, until string
	manifest           string
	tz                 string
	top                int
	env                *command.Env
}

func reportCommand() *command.Command {
	bind := command.Bind
	r := reporting{top: 20}
	return &command.Command{
		Name:     "report",
		Summary:  "report from access logs what crawlers cost, and what could be saved",
		Usage:    "--log FILE ... [options]",
		Help:     reportHelp,
		Required: []string{"log"},
		Args:     []string{"..."}, // what a shell made of --log's pattern
		LogLevel: slog.LevelWarn,
		Flags: []command.Flag{
			bind("log", &r.logs, "read the logs that `PATTERN` names, and those that follow as arguments; - is standard input (repeatable)"),
			bind("json", &r.json, "print the report as JSON"),
			bind("html", &r.html, "write the report to `FILE` as one HTML page, and print nothing"),
			bind("ranges", &r.ranges, "accept clients that claim to be NAME only from the addresses in FILE, as published by its operator: `NAME[,NAME]=FILE` (repeatable)"),
			bind("verify-dns", &r.dns, "verify by DNS that the addresses of crawlers belong to their operators"),
			bind("manifest", &r.manifest, "propose no rule that forbids a page of the manifest in `FILE`, such as DOCROOT/robots.rdf"),
			bind("top", &r.top, "list `N` crawlers and pages"),
			bind("since", &r.since, "ignore requests before `TIME`: a date, or a time such as 2026-10-01T12:00:00Z"),
			bind("until", &r.until, "ignore requests at `TIME` or later"),
			bind("tz", &r.tz, "compute hours and days in `ZONE`, such as Local, UTC or America/Santiago (default as logged)"),
		},
		Run: func(ctx context.Context, env *command.Env) error {
			r.env = env
			return r.run(ctx)
		},
	}
}

func (r *reporting) run(ctx context.Context) error {
	options, err := r.options()
	if err != nil {
		return err
	}
	files, err := accesslog.Open(append(r.logs, r.env.Args...), r.env.Stdin)
	if err != nil {
		return err
	}
	defer files.Close()
	bar := r.env.Progress("reading bytes", files.Size())
	files.Progress = bar.Add
	found, err := report.Build(ctx, files, options)
	bar.Done()
	if err != nil {
		return err
	}
	for name := range options.Ranges {
		known := false
		for _, c := range found.Crawlers {
			known = known || strings.EqualFold(c.Name, name)
		}
		if !known {
			r.env.Log.Warn("no client of that name is in this log", "ranges", name)
		}
	}
	if r.html != "" {
		if err := r.writeHTML(found); err != nil {
			return err
		}
	}
	switch {
	case r.json:
		return r.env.PrintJSON(found)
	case r.html != "":
		return nil
	}
	return found.WriteText(r.env.Stdout, r.top)
}

// options parses the command line.
func (r *reporting) options() (report.Options, error) {
	o := report.Options{Top: r.top}
	if r.top < 1 || r.top > 100_000 {
		return o, command.Misusef("--top %d: want 1 to 100000", r.top)
	}
	var err error
	if r.tz != "" {
		if o.Zone, err = time.LoadLocation(r.tz); err != nil {
			return o, command.Misusef("--tz %s: %v", r.tz, err)
		}
	}
	if o.Since, err = moment(r.since, o.Zone); err != nil {
		return o, command.Misusef("--since %s: %v", r.since, err)
	}
	if o.Until, err = moment(r.until, o.Zone); err != nil {
		return o, command.Misusef("--until %s: %v", r.until, err)
	}
	if r.manifest != "" {
		if o.Known, err = readManifest(r.manifest); errors.Is(err, fs.ErrNotExist) && strings.Contains(r.manifest, "://") {
			return o, command.Misusef("--manifest %s: want a file: DOCROOT/robots.rdf, or what curl -o robots.rdf %[1]s stores", r.manifest)
		} else if err != nil {
			return o, fmt.Errorf("read manifest %s: %w", r.manifest, err)
		}
	}
	if r.dns {
		o.Resolver = net.DefaultResolver
	}
	o.Ranges = map[string][]netip.Prefix{}
	for _, s := range r.ranges {
		names, file, ok := strings.Cut(s, "=")
		if !ok || names == "" || file == "" {
			return o, command.Misusef("--ranges %s: want NAME=FILE, such as googlebot=googlebot.json", s)
		}
		list, err := readRanges(file)
		if err != nil {
			return o, fmt.Errorf("read ranges %s: %w", file, err)
		}
		for _, name := range strings.Split(names, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			o.Ranges[name] = append(o.Ranges[name], list...)
		}
	}
	return o, nil
}

// readManifest returns the URLs of the pages of a manifest; the parts of one in parts are beside it.
func readManifest(file string) (urls []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := protocol.NewManifestReader(f, protocol.ManifestOptions{})
	for {
		record, err := m.Next()
		switch {
		case err == io.EOF && m.Head().Whole != nil:
			return readParts(file, m.Head())
		case err == io.EOF && len(urls) == 0:
			return nil, errors.New("it lists no page")
		case err == io.EOF:
			return urls, nil
		case err != nil:
			return nil, err
		case record.Gone == nil:
			urls = append(urls, record.Item.URL)
		}
	}
}

// readParts returns the URLs of the pages of a manifest in parts.
func readParts(file string, index protocol.Manifest) (urls []string, err error) {
	open := func(p *protocol.Part) ([]byte, error) {
		return os.ReadFile(filepath.Join(file+manifest.PartsSuffix, path.Base(p.URL)))
	}
	for record, err := range index.Whole.Snapshot(open, protocol.ManifestOptions{}) {
		if err != nil {
			return nil, err
		}
		urls = append(urls, record.Item.URL)
	}
	return urls, nil
}

func readRanges(file string) ([]netip.Prefix, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return report.ReadRanges(f)
}

// moment parses a date or a time. Without a zone of its own it is in zone, or in UTC if that is nil.
func moment(s string, zone *time.Location) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if zone == nil {
		zone = time.UTC
	}
	for _, form := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(form, s, zone); err == nil {
			return t, nil
		}
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Time{}, errors.New("want a date such as 2026-10-01, or a time such as 2026-10-01T12:00:00Z")
}

func (r *reporting) writeHTML(found *report.Report) error {
	var page strings.Builder
	if err := found.WriteHTML(&page, r.top); err != nil {
		return err
	}
	if err := atomicfile.Write(r.html, page.String(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
