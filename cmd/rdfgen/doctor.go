package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

const doctorHelp = `
Check a site that rdfgen or notifier publishes: its files, its state, the
notifier, and what the web server makes of them. Nothing is changed.

    rdfgen doctor                            every site in /etc/parley.conf
    rdfgen doctor --site www --json

Run it as root, or as the user of the notifier: others may not read the state.
Each line is a check: "ok"; "note" for what could be better, or cannot be known;
"fault" for what needs you, with what to do. If there are faults, all checks are
made again after 2 s, since a notifier may just have been started.

If the web server's name leads to this machine, responses come from a loopback
or private address. Then a check cannot show what other machines get: name a
proxy on another machine with --ask-via.

Exit codes: 0 no fault; 1 faults, or something failed; 2 wrong usage.`

// The results of a check.
const (
	fine  = "ok"
	note  = "note"  // it could be better, or cannot be known
	fault = "fault" // a person is needed
)

// A diagnosis is what one check has found.
type diagnosis struct {
	Check string `json:"check"` // what was checked, such as "docroot"
	State string `json:"state"` // ok, note or fault
	Says  string `json:"says"`
	Fix   string `json:"fix,omitempty"` // what to do
}

// A doctor checks an installation. It is for one goroutine.
type doctor struct {
	job       job // of an rdfgen with the same options
	listen    string
	lookEvery time.Duration

	// What the last examination has found.
	status   server.Status    // zero if the state cannot be read
	held     bool             // a process has the state open
	notifier bool             // and it is a notifier
	first    bool             // and its first scan is not over, so that nothing is published yet
	shown    *evidence.Status // of the notifier; may be nil
	found    []diagnosis
}

func doctorCommand() *command.Command {
	bind := command.Bind
	d := &doctor{listen: "127.0.0.1:8639", lookEvery: 10 * time.Minute}
	return &command.Command{
		Name:     "doctor",
		Summary:  "check a running installation, and say what to do",
		Usage:    "[options]",
		Help:     doctorHelp,
		Required: []string{"base"},
		LogLevel: slog.LevelError,
		File:     command.File{Sites: command.Sequential, Default: siteflags.ConfigFile, Foreign: append(siteflags.NotifierOnly(), siteflags.RdfgenOnly()...)},
		Groups: []command.Group{
			{Title: "The site", Options: []string{"config", "site", "docroot", "base", "state", "listen"}},
			{Title: "This run", Options: []string{"ask-via", "json"}},
		},
		Flags: slices.Concat(d.job.site.Options(0), d.job.site.DoorOptions(), []command.Flag{
			bind("listen", &d.listen, "`ADDRESS` at which the notifier listens for requests from the web server"),
			bind("look-every", &d.lookEvery, "the notifier scans the whole site every `TIME`"),
			bind("json", &d.job.json, "print the checks as JSON"),
		}),
		Run: func(ctx context.Context, env *command.Env) error {
			d.job.env = env
			return d.run(ctx)
		},
	}
}

func (d *doctor) run(ctx context.Context) error {
	site, env := &d.job.site, d.job.env
	if err := site.FindState(); err != nil {
		return err
	}
	if err := site.Check(env.Log); err != nil {
		return err
	}
	forms, err := site.Forms(env.Flags)
	if err != nil {
		return err
	}
	begin := time.Now()
	d.examine(ctx, &forms)
	// Right after a start, a process does not answer yet, or has not published yet. What takes long has waited already.
	if d.faults() > 0 && time.Since(begin) < doctorWait && pause.For(ctx, pause.AtMost(doctorAgain, site.Hurry)) {
		d.examine(ctx, &forms)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return d.print()
}

// examine makes all checks.
func (d *doctor) examine(ctx context.Context, forms *siteflags.Forms) {
	d.state(ctx)
	d.docroot(ctx)
	d.permissions(forms.Callers, d.job.site.Tokens())
	d.disk()
	d.doors(ctx, forms.Stream)
	d.watches()
	d.senders(ctx)
	if !d.first {
		d.manifest(ctx)
	}
	d.robots(ctx)
	d.pages(ctx)
}

func (d *doctor) add(check, state, says, fix string) {
	d.found = append(d.found, diagnosis{check, state, says, fix})
}

func (d *doctor) faults() (n int) {
	for _, f := range d.found {
		if f.State == fault {
			n++
		}
	}
	return n
}

func (d *doctor) print() error {
	env, faults := d.job.env, d.faults()
	if d.job.json {
		if err := env.PrintJSON(struct {
			Base   string      `json:"base"`
			Faults int         `json:"faults"`
			Checks []diagnosis `json:"checks"`
		}{d.job.site.Base, faults, d.found}); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(env.Stdout, d.job.site.Base)
		for _, f := range d.found {
			fmt.Fprintf(env.Stdout, "%-6s %-12s %s\n", f.State, f.Check, f.Says)
			if f.Fix != "" {
				fmt.Fprintf(env.Stdout, "%20sTo do: %s\n", "", strings.ReplaceAll(f.Fix, "\n", "\n"+strings.Repeat(" ", 20)))
			}
		}
		fmt.Fprintf(env.Stdout, "%d checks, %d faults\n", len(d.found), faults)
	}
	if faults > 0 {
		return &command.ExitError{Code: command.Failure} // the lines name them
	}
	return nil
}

// state checks that the state can be read, whose it is, and when the site was scanned last.
func (d *doctor) state(ctx context.Context) {
	site := &d.job.site
	d.notifier, d.first, d.shown, d.found = false, false, nil, nil
	var err error
	asking, stop := context.WithTimeout(ctx, doctorWait)
	defer stop()
	d.status, d.held, err = site.Status(asking, d.job.env.Log)
	stranger := "run doctor as root, or as the user of the notifier"
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.add("state", fault, err.Error(), stranger)
		return
	case asking.Err() != nil:
		d.add("state", fault, fmt.Sprintf("the process that has %s open does not answer", site.State), "restart the notifier (systemctl restart parley-notifier); its log may say why")
		return
	case err != nil:
		d.add("state", fault, err.Error(), "if notifier and rdfgen have another state, name it with --state; if it belongs to another user, "+stranger)
		return
	}
	d.add("state", fine, fmt.Sprintf("%s: %d pages, at %s", site.State, d.status.Items, d.status.Head), "")
	folder := filepath.Dir(site.State)
	owner, _ := ownerOf(site.State)
	if of, ok := ownerOf(folder); ok && of != 0 && of != owner {
		d.add("state", fault, site.State+" does not belong to the owner of its folder", fmt.Sprintf("run notifier and rdfgen as that user, and: chown --reference=%s %s*", folder, site.State))
	}

	var robots siteflags.RobotsStatus
	var forms struct{ Evidence *evidence.Status }
	if d.held {
		// Only a notifier answers these, and no rdfgen that is scanning now.
		d.notifier = d.job.ask(asking, "GET", "/forms", &forms) == nil
		if err := d.job.ask(asking, "GET", "/robots", &robots); err != nil {
			d.job.env.Log.Debug("the process that uses the state does not report on robots.txt", "err", err)
		}
	}
	d.shown = forms.Evidence
	if err := siteflags.Attention(d.status, robots, d.shown); err != nil {
		d.add("site", fault, err.Error(), "")
	}
	for _, o := range d.status.Outputs {
		if o.Error != "" {
			d.add("output", fault, o.Name+": "+o.Error, "let the user of the notifier write it")
		}
	}
	d.scans()
}

// cronPatience is how old the last scan of a site without a notifier may be: cron runs rdfgen every few minutes.
const cronPatience = time.Hour

func (d *doctor) scans() {
	last, most := d.status.Last.At, 2*d.lookEvery+time.Minute
	if d.first = d.held && d.status.Looks == 0; d.first {
		d.add("scans", note, "the first scan of the process that has the state open is in progress", "run doctor again when it is over")
		return
	}
	if !d.held {
		most = cronPatience
		if st, err := os.Stat(d.job.site.State); err == nil {
			last = st.ModTime() // see publishOnce
		}
	}
	age := time.Since(last).Round(time.Second)
	says := fmt.Sprintf("the site was scanned %s ago", command.FormatDuration(age))
	if age > most {
		d.add("scans", fault, says+", and not since", "start the notifier (systemctl enable --now parley-notifier), or run rdfgen from cron (systemctl enable --now parley-rdfgen.timer); their log says why they ended")
		return
	}
	d.add("scans", fine, says, "")
}

// docroot counts what cannot be read in the docroot, by this user or by the notifier.
func (d *doctor) docroot(ctx context.Context) {
	site := &d.job.site
	if site.Docroot == "" {
		return
	}
	if err := site.CheckDocroot(); err != nil {
		d.add("docroot", fault, err.Error(), "mount it, or correct docroot")
		return
	}
	var found inventory.Report
	inv, err := d.job.inventory(nil)
	if err == nil {
		files := siteflags.DocrootOf(inv)
		found, err = survey(ctx, inv, func(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
			f, err := files.Open(ctx, o)
			if err == nil {
				f.Close()
			}
			return o, err
		}, func(inventory.Offer, error) {})
	}
	if err != nil {
		d.add("docroot", fault, err.Error(), "")
		return
	}
	maps.Copy(found.Unreadable, d.status.Last.Unreadable)
	found.Unread = len(found.Unreadable)
	if err := d.job.incomplete(&found); err != nil {
		says, fix, _ := strings.Cut(err.Error(), ": ")
		d.add("docroot", fault, says, fix)
		return
	}
	says := fmt.Sprintf("%s: %d pages, which can all be read; %d files are left out by rules", site.Docroot, found.New, found.LeftOut)
	if owner, ok := ownerOf(site.State); ok && !d.held && int(owner) != os.Geteuid() {
		d.add("docroot", note, says, fmt.Sprintf("run this command again as the user of rdfgen, who may read less: sudo -u '#%d' ...", owner))
		return
	}
	d.add("docroot", fine, says, "")
}

// permissions checks who else can write the state and the configuration, and read the secrets.
func (d *doctor) permissions(secrets ...string) {
	if runtime.GOOS == "windows" {
		return
	}
	site, before := &d.job.site, len(d.found)
	check := func(path string, forbidden fs.FileMode, problem, fix string) {
		st, err := os.Stat(path)
		switch {
		case path == "" || errors.Is(err, fs.ErrNotExist):
		case err != nil:
			d.add("permissions", note, err.Error(), "")
		case st.Mode().Perm()&forbidden != 0 && st.Mode()&fs.ModeSticky == 0:
			d.add("permissions", fault, fmt.Sprintf("%s (%s) %s", path, st.Mode(), problem), fmt.Sprintf("chmod %s %s", fix, path))
		}
	}
	config := d.job.env.Flags.Lookup("config").Value.String()
	for _, path := range append([]string{site.State, config}, secrets...) {
		check(path, 0o022, "can be written by others than its owner", "go-w")
		if path != "" {
			check(filepath.Dir(path), 0o002, "can be written by everybody, who can replace "+filepath.Base(path), "o-w")
		}
	}
	for _, path := range secrets {
		check(path, 0o004, "can be read by everybody: it has tokens", "o-r")
	}
	if len(d.found) == before {
		d.add("permissions", fine, "only their owners can write state and configuration", "")
	}
}

// leastFree is how much disk space must be free, in bytes, besides as much as the state has.
const leastFree = 100 << 20

func (d *doctor) disk() {
	need, least := int64(leastFree), ""
	if st, err := os.Stat(d.job.site.State); err == nil {
		need += st.Size()
	}
	for _, file := range []string{d.job.site.State, d.job.site.Out} {
		dir := filepath.Dir(file)
		free, ok := atomicfile.Spare(dir, 1)
		switch {
		case file == "" || !ok:
		case free < need:
			d.add("disk", fault, fmt.Sprintf("only %d MB are free in %s", free>>20, dir), fmt.Sprintf("make room for %d MB: on a full disk nothing is published", need>>20))
			return
		case least == "":
			least = fmt.Sprintf("%d MB are free in %s", free>>20, dir)
		}
	}
	if least != "" {
		d.add("disk", fine, least, "")
	}
}

// watchLimit is where Linux has the number of directories that a user may watch.
const watchLimit = "/proc/sys/fs/inotify/max_user_watches"

// watches compares that limit with the directories of the docroot.
func (d *doctor) watches() {
	b, err := os.ReadFile(watchLimit)
	most, err2 := strconv.Atoi(strings.TrimSpace(string(b)))
	if !d.notifier || d.job.site.Docroot == "" || err != nil || err2 != nil {
		return
	}
	n := 0
	err = filepath.WalkDir(d.job.site.Docroot+string(filepath.Separator), func(_ string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			n++
		}
		return nil // what cannot be read is not watched either
	})
	if err == nil && n > most {
		d.add("watches", fault, fmt.Sprintf("the docroot has %d directories, and a user may watch %d: changes in the others are found only by the scan every %s", n, most, command.FormatDuration(d.lookEvery)),
			fmt.Sprintf("sysctl -w fs.inotify.max_user_watches=%d, and the same in /etc/sysctl.d; then restart the notifier", 2*n))
		return
	}
	d.add("watches", fine, fmt.Sprintf("the docroot has %d directories, and a user may watch %d", n, most), "")
}
