// Rdfgen describes a document root as robots.rdf: which pages there are, and
// when each last changed. It is run by hand or from cron. Its manual is
// "rdfgen -h".
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

func main() {
	os.Exit(command.Main(context.Background(), rdfgen, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const help = `
Print the manifest of a site, without a state:
    rdfgen --docroot /var/www/html --base https://www.example.org/ > robots.rdf

List the pages that would be published, those left out, and why:
    rdfgen --docroot /var/www/html --base https://www.example.org/ --dry-run

Publish it from cron. The state remembers when each page changed, so a rebuild
or a touch does not count as a change. Unchanged files are not rewritten, and
nothing is printed unless something needs your attention:
    */5 * * * * rdfgen --docroot /var/www/html --base https://www.example.org/ --out /var/www/html/robots.rdf

If a notifier runs on the same state, rdfgen asks it to scan now instead.

The deletion of a missing page is announced by the next run. If more than half
of the site is missing, nothing is announced (exit code 1) until the pages
return or you confirm the deletion:
    rdfgen --docroot /var/www/html --base https://www.example.org/ --accept-deletions

What it cannot read stays as it was published. It is named after the rest has
been published, with the --exclude pattern that leaves it out (exit code 1).

Exit codes: 0 success; 1 something failed, or needs your attention; 2 wrong
usage.`

type job struct {
	site                      siteflags.Flags
	dryRun, selfCheck, accept bool
	robotsNow                 bool
	answered                  bool // by another process, which has the state open
	shown                     *evidence.Keeper
	rules                     siteflags.Rules // of what is published
	verbose, json             bool
	build                     *build // of which this is a part; nil for a docroot that a web server serves
	env                       *command.Env
}

func rdfgen() *command.Command {
	bind := command.Bind
	var j job
	return &command.Command{
		Name:     "rdfgen",
		Summary:  "describe a site as robots.rdf, a sitemap and feeds",
		Usage:    "--docroot DIR --base URL [options]",
		Sub:      append(shared(checkCommand(), reportCommand(), learnCommand(), setupCommand()), doctorCommand(), publishCommand()),
		File:     command.File{Sites: command.Sequential, Default: siteflags.ConfigFile, Foreign: siteflags.NotifierOnly(), Exclusive: j.site.Claims},
		Help:     help,
		Required: []string{"base"},
		LogLevel: slog.LevelError,
		Groups: []command.Group{
			{Title: "The site", Options: []string{"docroot", "base", "include", "exclude", "robots"}},
			{Title: "Output", Options: []string{"out", "sitemap", "atom", "state", "config"}},
			{Title: "This run", Options: []string{"dry-run", "verbose", "accept-deletions"}},
		},
		Flags: append(j.site.Options(0),
			bind("dry-run", &j.dryRun, "list the pages that would be published and those left out, and write nothing"),
			bind("self-check", &j.selfCheck, "after publishing, fetch up to 20 published pages from the web server and compare them with the files"),
			bind("accept-deletions", &j.accept, "announce all missing pages as deleted, now"),
			bind("robots-now", &j.robotsNow, "apply new permissions in robots.txt at once instead of after --robots-wait, unless the file is missing or has no rule"),
			bind("verbose", &j.verbose, "print the summary even if standard error is not a terminal"),
			bind("json", &j.json, "print the summary as JSON")),
		Run: func(ctx context.Context, env *command.Env) error {
			j.env = env
			return j.run(ctx)
		},
	}
}

// shared lets the subcommands read the configuration file of rdfgen: they ignore options that are not theirs.
func shared(parts ...*command.Command) []*command.Command {
	for _, p := range parts {
		p.File = command.File{Sites: command.NoSite, Foreign: []string{"*"}}
	}
	return parts
}

func (j *job) run(ctx context.Context) error {
	// If nothing is to be stored or published, a description of the site goes to standard output.
	publishes := j.site.Out != "" || j.site.State != "" || len(j.site.TaskOptions()) > len(j.site.MovedFrom()) // which writes nothing by itself
	stateless := j.dryRun || !publishes && !j.accept && !j.selfCheck && !j.robotsNow
	if !stateless {
		if err := j.site.StatePath(); err != nil {
			return err
		}
	}
	if err := j.site.Check(j.env.Log); err != nil {
		return err
	}
	if err := j.site.CheckDocroot(); err != nil {
		return fmt.Errorf("--%w", err) // the name of the option
	}
	switch {
	case j.dryRun:
		return j.list(ctx)
	case stateless:
		return j.describe(ctx)
	}

	for begin := time.Now(); ; {
		err := j.delegate(ctx)
		if errors.Is(err, server.ErrNoHolder) {
			err = j.publishOnce(ctx)
			if !errors.Is(err, server.ErrHeld) {
				return err
			}
		}
		if err == nil || ctx.Err() != nil || time.Since(begin) > contentionTimeout || j.answered || j.notified(ctx) {
			return err
		}
		// Another rdfgen held the state, and ended before it could answer.
		pause.For(ctx, 100*time.Millisecond)
	}
}

// contentionTimeout is how long several rdfgen processes on one state may get in each other's way.
const contentionTimeout = time.Minute

// ask asks the process that holds the state. It returns ErrNoHolder if there is none.
func (j *job) ask(ctx context.Context, method, path string, answer any) error {
	return server.Ask(ctx, j.site.State, method, path, answer)
}

// notified reports whether a notifier holds the state, in which case its answer is final.
func (j *job) notified(ctx context.Context) bool {
	var does []string
	return j.ask(ctx, "GET", "/does", &does) == nil
}

// delegate tells the process that holds the state to scan. It returns ErrNoHolder if there is none.
func (j *job) delegate(ctx context.Context) error {
	if j.robotsNow {
		var none any
		if err := j.ask(ctx, "POST", "/robots-now", &none); err != nil {
			return err
		}
	}
	verb := "/look"
	if j.accept {
		verb = "/accept-deletions"
	}
	var found inventory.Report
	if err := j.ask(ctx, "POST", verb, &found); err != nil {
		return err
	}
	if err := errors.Join(j.sameManifest(ctx), j.sameWork(ctx)); err != nil {
		return err
	}
	var checked *server.Checked
	if j.selfCheck {
		if err := j.ask(ctx, "POST", "/self-check", &checked); err != nil {
			return err
		}
	}
	j.answered = true
	return j.report(found, checked)
}

// sameManifest makes sure that the holder publishes where this call is to publish.
func (j *job) sameManifest(ctx context.Context) error {
	if j.site.Out == "" {
		return nil
	}
	var s server.Status
	if err := j.ask(ctx, "GET", "/status", &s); err != nil {
		return err
	}
	theirs, err := os.Stat(s.Path)
	if err != nil {
		return err
	}
	if ours, err := os.Stat(j.site.Out); err != nil || !os.SameFile(ours, theirs) {
		return fmt.Errorf("a notifier uses this state and publishes at %s: give the notifier --out %s, or omit --out here", s.Path, j.site.Out)
	}
	return nil
}

// sameWork makes sure that the holder does everything that this call asks for.
func (j *job) sameWork(ctx context.Context) error {
	var theirs []string
	if err := j.ask(ctx, "GET", "/does", &theirs); err != nil {
		j.env.Log.Debug("cannot compare options with the process that uses the state, probably another rdfgen", "err", err)
		return nil
	}
	for _, does := range j.site.TaskOptions() {
		if !slices.Contains(theirs, does) {
			return fmt.Errorf("a notifier uses this state without %s: give it that option too, or use one --config for both", does)
		}
	}
	return nil
}

// publishOnce runs the publisher's loop once.
func (j *job) publishOnce(ctx context.Context) error {
	open, tell := j.open, j.send
	if j.build != nil {
		open, tell = j.build.open, j.build.prepare // what has changed is sent once it is live
	}
	journal, err := open(ctx)
	if err != nil {
		return err
	}
	defer journal.Close()
	p, looked, err := j.publisher(journal)
	if err != nil {
		return err
	}
	m := &p.Snapshot.Manifest
	m.Stream, m.Changes, m.Discovery = "", "", "" // rdfgen does not serve them
	take := p.Turn
	if j.accept {
		take = p.AcceptDeletions
	}
	// Another rdfgen that is started meanwhile can ask this one.
	holding, stop := context.WithCancel(ctx)
	var held sync.WaitGroup
	held.Go(func() {
		if err := (&server.Holder{State: j.site.State, Publisher: p, HTTP: j.site.HTTP(), Log: j.env.Log}).Run(holding); err != nil {
			j.env.Log.Warn("other processes cannot reach this process", "err", err)
		}
	})
	defer held.Wait()
	defer stop()
	begun := j.begin(ctx, p) // a receiver that cannot be notified does not prevent publishing
	found, err := take(ctx)
	if err == nil && j.build != nil && found.HeldNow > 0 && !found.MassHeld {
		var gone inventory.Report // a build is complete: what it lacks does not return
		gone, err = p.AcceptDeletions(ctx)
		found.Add(gone)
		found.Head = gone.Head
	}
	if err == nil && j.shown != nil {
		// The web server is asked about changes once they are in the journal.
		var other bool
		if other, err = j.shown.Once(ctx); err == nil && other {
			found, err = p.Turn(ctx)
		}
		if s := j.shown.Status(); err == nil && s.Mass {
			err = fmt.Errorf("the web server refuses %d or more pages that used to be public: no deletion is announced until it serves them again, or until you run notifier recheck --accept-refusals", s.Suspect)
		}
	}
	looked()
	if err != nil {
		return errors.Join(err, begun, tell(ctx, p)) // the entries in the journal are true all the same
	}
	trouble, said, _ := j.rules.RobotsProblem()
	if trouble != "" && !said {
		j.printInfo("robots.txt: " + trouble)
	}
	var checked *server.Checked
	if j.selfCheck {
		c, err := server.SelfCheck(ctx, journal, j.site.HTTP(), 0)
		if err != nil {
			return err
		}
		checked = &c
	}
	// The date of the file is that of the last scan, even if that found no change: doctor reads it.
	if err := os.Chtimes(j.site.State, time.Time{}, time.Now()); err != nil {
		j.env.Log.Debug("the state cannot be dated", "err", err)
	}
	err = errors.Join(j.report(found, checked), begun, tell(ctx, p))
	if err == nil && said { // robots.txt is lost: a person is needed, and was told
		err = &command.ExitError{Code: command.Failure}
	}
	return err
}

func (j *job) open(ctx context.Context) (*server.Journal, error) {
	return server.OpenJournal(ctx, j.site.State, j.site.JournalOptions(j.env.Log))
}

// printInfo prints messages about success, or about trouble that passes by itself.
func (j *job) printInfo(lines ...string) {
	if j.verboseOutput() {
		for _, line := range lines {
			fmt.Fprintln(j.env.Stderr, line)
		}
	}
}

// verboseOutput reports whether success is to be reported too.
func (j *job) verboseOutput() bool { return j.verbose || j.env.IsTerminal() }

// inventory returns the site's inventory, with the rules of its robots.txt as this run wants them.
func (j *job) inventory(journal *server.Journal) (inventory.Inventory, error) {
	site, err := j.site.Inventory(journal, j.env.Log)
	if err != nil {
		return nil, err
	}
	if j.rules = siteflags.RulesOf(site); j.robotsNow {
		j.rules.AcceptRobots()
	}
	return site, nil
}

// publisher shows its progress on a terminal until done is called.
func (j *job) publisher(journal *server.Journal) (p *server.Publisher, done func(), err error) {
	site, err := j.inventory(journal)
	if err != nil {
		return nil, nil, err
	}
	// Pages that a notifier has found refused stay so, though nothing is fetched here.
	if j.shown, err = j.site.Evidence(site, journal, j.env.Log); err != nil {
		return nil, nil, err
	}
	if j.shown != nil {
		site = j.shown.Watching(site)
	}
	p = j.site.Publisher(site, journal, j.env.Log)
	p.Pace.Once = true
	bar, shown := j.env.Progress("scanning", -1), 0
	p.Progress = func(r inventory.Report) {
		n := r.New + r.Changed + r.Moved + r.Touched + r.Unchanged
		bar.Add(int64(n - shown))
		shown = n
	}
	return p, bar.Done, nil
}

// report reports the result: nothing, unless asked to or a person is needed.
func (j *job) report(found inventory.Report, checked *server.Checked) error {
	if j.json {
		if err := j.env.PrintJSON(found); err != nil {
			return err
		}
	}
	if j.verboseOutput() {
		fmt.Fprintln(j.env.Stderr, found)
		if next := j.next(found); next != "" {
			fmt.Fprintln(j.env.Stderr, "Next:", next)
		}
		j.adviseRobots()
	}
	if checked != nil {
		for _, f := range checked.Findings {
			fmt.Fprintln(j.env.Stderr, f)
		}
		if j.verboseOutput() || len(checked.Findings) > 0 {
			fmt.Fprintln(j.env.Stderr, "Self-check:", checked)
		}
	}
	return errors.Join(j.incomplete(&found), attention(&found, checked))
}

// adviseRobots prints what robots.txt lacks. With --write-robots it lacks nothing.
func (j *job) adviseRobots() {
	r := j.site.RobotsFile()
	if r == nil || slices.Contains(j.site.TaskOptions(), "--write-robots") {
		return
	}
	faults, err := r.Check()
	if err != nil {
		fmt.Fprintln(j.env.Stderr, "robots.txt:", err)
	}
	for _, f := range faults {
		fmt.Fprintln(j.env.Stderr, f)
	}
}

// next names the next step, where there is one.
func (j *job) next(found inventory.Report) string {
	switch {
	case found.Head.IsZero() || found.MassHeld:
		return ""
	case j.build != nil:
		return "deploy " + j.site.Docroot + ", then run the same command with --wait-live"
	case found.Head.Seq == 0 && found.New > 0 && j.site.Out != "":
		return "have the web server serve " + j.site.Out + " as application/rdf+xml, and run this command from cron, or run notifier"
	case found.Head.Seq == 0 && found.New > 0:
		return "publish the manifest with --out FILE, in a directory that the web server serves"
	case found.HeldNow > 0:
		return fmt.Sprintf("%d pages are missing; the next run, or --accept-deletions now, announces them as deleted", found.HeldNow)
	}
	return ""
}
