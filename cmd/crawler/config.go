package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/seed"
)

// A seedRow is a setting named in the papers behind Parley (G01-G54), with our option for it, or the reason
// why there is none.
type seedRow struct{ id, name, theirs, option, note string }

// seedRows lists all of them.
var seedRows = []seedRow{
	{"G01", "collection/base", "/tmp/", "into", ""},
	{"G02", "collection/maxdoc", "10 million", "max-pages", ""},
	{"G03", "collection/maxsite", "100,000", "max-sites", ""},
	{"G04", "seeder/max-urls-per-site", "25,000", "per-site", ""},
	{"G05", "seeder/accept/domain-suffixes", ".cl", "domain", "default: the hosts of the start pages"},
	{"G06", "seeder/ext/download/static", "", "static-ext", ""},
	{"G07", "seeder/ext/download/dynamic", ".php, .pl, .cfm, ...", "dynamic-ext", ""},
	{"G08", "seeder/ext/log/group", "", "log-ext", ""},
	{"G09", "seeder/sessionids", "CFID, CFTOKEN, PHPSESSID, jsessionid, ...", "session-id", ""},
	{"G10", "manager/maxdepth/dynamic", "5", "max-depth-dynamic", ""},
	{"G11", "manager/maxdepth/static", "15", "max-depth", ""},
	{"G12", "manager/batch/size", "100,000", "batch", ""},
	{"G13", "manager/batch/samesite", "500", "same-site", ""},
	{"G14", "manager/score", "", "score", ""},
	{"G15", "manager/minperiod", "", "min-period", ""},
	{"G16", "harvester/resolvconf", "127.0.0.1", "resolver", "the system's own"},
	{"G17", "harvester/blocked-ip", "127.0.0.1", "blocked-ip", "and all addresses outside the public Internet, unless --allow-private"},
	{"G18", "harvester/nthreads/start", "300", "in-flight", ""},
	{"G19", "harvester/nthreads/min", "10", "min-in-flight", ""},
	{"G20", "harvester/timeout/connection", "30 s", "connect-timeout", ""},
	{"G21", "harvester/wait/normal", "15 s", "wait", ""},
	{"G22", "harvester/maxfilesize", "400,000 B", "max-file", "10 MB by default: pages are longer by now"},
	{"G23", "gatherer/maxstoredsize", "300,000 B", "max-file", "all bytes read are stored"},
	{"G24", "gatherer/discard", "", "", "bodies are stored as received; events --text drops markup"},
	{"G25", "gatherer/keep", "", "", "the same; --text markdown keeps headings, lists, links and tables"},
	{"G26", "gatherer/link", "", "", "a, area, iframe, frame, link, refresh, and the headers Link and Refresh; not rel=nofollow"},
	{"G30", "wait for big sites / threshold", "5 s / over 100 pages", "wait-big", ""},
	{"G31", "retry of a page that is down", "12 h", "retry", ""},
	{"G32", "DNS retry after failure", "one week", "dns-retry", ""},
	{"G33", "stop the cycle if DNS failures exceed", "90 %", "max-failed-lookups", ""},
	{"G34", "page size limit", "300-400 KB", "max-file", "--range asks servers for no more"},
	{"G35", "last-modified: ignore before", "1993", "dates-from", ""},
	{"G36", "last-modified in the future", "24 h", "dates-ahead", "up to that is now, more is ignored"},
	{"G37", "session inactivity", "30 min", "", "the same in crawler simulate browsing --log"},
	{"G38", "Pagerank jump probability", "0.15", "pagerank-jump", "for --score with pagerank, weighted or siterank, and for --strategy batch-pagerank or partial-pagerank"},
	{"G39", "objects per keep-alive connection", "100", "per-connection", ""},
	{"G39", "keep-alive idle timeout", "15 s", "idle-timeout", ""},
	{"G40", "manifest regeneration", "daily", "", "set by cron, which runs rdfgen"},
	{"G41", "include pattern of the generator", ".htm", "", "rdfgen --include"},
	{"G42", "requests per connection for a new server", "50", "per-connection", ""},
	{"G43", "pipelining saving factor p", "1.2", "", "only in crawler simulate servers"},
	{"G44", "smoothing alpha", "0.8", "", "only in crawler simulate servers"},
	{"G45", "max open connections in the Cao runs", "64", "in-flight", ""},
	{"G46", "advaRSS: M0, T0, ToE0", "4, 1, 0..3", "polls", "training, or advarss: fixed, as printed"},
	{"G47", "advaRSS: gain and weights", "0.3 / 0.2 and 0.8", "", "the same"},
	{"G48", "advaRSS: M range", "1..80", "", "the same"},
	{"G49", "advaRSS: cycle X", "6-10 min", "training-period", ""},
	{"G50", "advaRSS: training length", "4 weeks", "", "the same as G46"},
	{"G51", "advaRSS: min time between two retrievals", "10 min", "min-poll-period", "with every rule of --polls but fixed"},
	{"G52", "advaRSS: c", "0", "subscriber-weight", "times the numbers of --subscribers; and weighted by the site's importance"},
	{"G53", "advaRSS: posting-rate floor", "> 0", "", "learned: the rate of any hour is shrunk towards that of all"},
	{"G54", "other crawlers' waits", "60 s, 10 s, 1 s, 10 x the last download", "wait", "and always 10 x the last download, up to 5 min"},
}

func config() *command.Command {
	var all, asJSON bool
	var profile string
	o, depth := crawl.DefaultOptions(), depthRule{}
	settings := append(append(crawlFlags(&o, &listeners{}), depth.flags()...), profileFlag(&profile))
	return &command.Command{
		Name:    "config",
		Summary: "explain the current settings",
		Usage:   "[options]",
		Help: `
It prints the settings that "crawler crawl" and "crawler run" would use with this
configuration file, environment and options.

    crawler config --config crawler.conf
    crawler config --all > crawler.conf        a file to start from
    crawler config --all --profile archive     what a profile sets

Each setting is printed as a line of a configuration file. --all prints all of
them, and then the settings named in the papers behind Parley (G01-G54), with
their values and the corresponding options.`,
		LogLevel: slog.LevelWarn,
		Groups:   append([]command.Group{{Title: "Output", Options: []string{"all", "json", "config"}}}, crawlGroups()...),
		Flags: append(settings,
			command.Bind("all", &all, "print all settings"),
			command.Bind("json", &asJSON, "print the settings as JSON")),
		Run: func(ctx context.Context, env *command.Env) error {
			if err := errors.Join(depth.set(env.Flags), setProfile(env.Flags, profile)); err != nil {
				return err
			}
			var list []setting
			env.Flags.VisitAll(func(f *flag.Flag) {
				ours := slices.ContainsFunc(settings, func(s command.Flag) bool { return s.Name == f.Name })
				if value, text := flag.UnquoteUsage(f); ours && (all || slices.Contains(common(), f.Name)) {
					list = append(list, setting{f.Name, f.Value.String(), f.DefValue, text, command.Values(f), value})
				}
			})
			if asJSON {
				return env.PrintJSON(list)
			}
			for _, l := range list {
				fmt.Fprintf(env.Stdout, "# %s\n", l.Text)
				l.print(env.Stdout)
			}
			if !all {
				return nil
			}
			fmt.Fprintf(env.Stdout, "\n# Settings named in the papers, with their values and our options:\n")
			w := env.Table()
			for _, r := range seedRows {
				here := r.note
				if r.option != "" {
					here = "--" + r.option + " " + inShort(r.option, command.Values(env.Flags.Lookup(r.option)))
					if r.note != "" {
						here += ": " + r.note
					}
				}
				fmt.Fprintf(w, "# %s\t%s\t%s\t%s\n", r.id, r.name, cmp.Or(r.theirs, "-"), here)
			}
			return w.Flush()
		},
	}
}

// A setting is one setting with its present value.
type setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Text    string `json:"text"`

	values []string
	kind   string // what the option calls a value
}

// print writes a setting as lines of a configuration file, one for each value, commented out if they are the default.
func (s *setting) print(w io.Writer) {
	mark, values := "", s.values
	if s.Value == s.Default {
		mark = "# "
	}
	if len(values) == 0 {
		values = builtIn(s.Name)
	}
	if strings.Join(values, "") == "" {
		values = []string{s.kind}
	}
	for _, v := range values {
		fmt.Fprintf(w, "%s%s %s\n", mark, s.Name, v)
	}
}

// builtIn returns the values that apply if an option has none.
func builtIn(option string) []string {
	rules := seed.BuiltIn()
	switch option {
	case "reject-word":
		return rules.RejectWords
	case "session-id":
		return rules.SessionIDs
	case "dynamic-ext":
		return rules.DynamicExt
	case "log-ext":
		return rules.LogExt
	case "per-address":
		return []string{"2/s,4"}
	}
	return nil
}

// inShort returns the values of an option for a table.
func inShort(option string, values []string) string {
	if len(values) == 0 {
		values = builtIn(option)
	}
	if n := len(values); n > 5 {
		return fmt.Sprintf("%s, ... (%d)", strings.Join(values[:4], ", "), n)
	}
	return cmp.Or(strings.Join(values, ", "), "(none)")
}
