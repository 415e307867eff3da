// Package command is shared by rdfgen, notifier and crawler: options from flags, environment and a file,
// help, logging, signals, progress, exit codes, and the place of the state.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/peterbourgon/ff/v3"
	"golang.org/x/net/idna"
)

// The exit codes of all commands. A command states any other in its help.
const (
	OK      = 0
	Failure = 1
	Misuse  = 2 // the command line is wrong
)

// envName returns the name of the environment variable that sets an option: --max-file is also PARLEY_MAX_FILE.
func envName(option string) string {
	return "PARLEY_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// fromEnv returns the value of an option in the environment, without a newline at its end, in which secrets of a CI and lists in YAML end.
func fromEnv(option string) string {
	return strings.TrimRight(os.Getenv(envName(option)), "\r\n")
}

// setFromEnv sets the options that the environment gives, one value on each line, and the command line did not.
func (o *options) setFromEnv() (err error) {
	o.fs.VisitAll(func(f *flag.Flag) {
		for line := range strings.Lines(fromEnv(f.Name)) {
			value := strings.TrimRight(line, "\r\n")
			if err != nil || value == "" || o.typed[f.Name] {
				continue
			}
			if err = o.fs.Set(f.Name, value); err != nil {
				err = Misusef("%s=%s: %w", envName(f.Name), value, plain(f, err))
			}
		}
	})
	return err
}

// A Command is a program, or a named part of one.
type Command struct {
	Name    string // as typed, such as "rdfgen" or "follow"
	Summary string // purpose, on one line, without a full stop
	Usage   string // follows the name, such as "BASE --into DIR [options]"
	Help    string // teaches by example

	Args     []string                          // names of the required arguments; a last "..." allows any number of others, "--into" one that sets this option
	Flags    []Flag                            // the options, besides those that every command has
	Required []string                          // options that must not be empty
	LogLevel slog.Level                        // default of --log-level
	Run      func(context.Context, *Env) error // nil if there are only parts

	// Groups are the options that most people set, which -h shows; --help-all
	// shows all. Without groups -h shows all.
	Groups []Group

	File File

	Sub []*Command // the parts
}

// A File says how a command reads the configuration file, which it may share with others.
type File struct {
	Sites Sites // what sections mean

	// Default is the path of the file that is read, if it exists, where neither --config nor any of the Required
	// options is given.
	Default string

	// Foreign names options of other programs, which are ignored. "*" means all that the command does not have itself.
	Foreign []string

	// Exclusive, if not nil, is called when the options of a site have been read, and returns what no other site of
	// the same file may use, such as "--out /srv/www/robots.rdf".
	Exclusive func() []string
}

// A Group is a set of related options of a Command.
type Group struct {
	Title   string // such as "The site"
	Options []string
}

// An Env is the environment that a Command runs in.
type Env struct {
	Args           []string        // as many as Command.Args, or more if that ends in "..."
	Flags          *flag.FlagSet   // the options, with their values
	Typed          map[string]bool // the options that the command line has set
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Log            *slog.Logger // to Stderr
}

// PrintJSON writes v to Stdout, indented.
func (e *Env) PrintJSON(v any) error {
	enc := json.NewEncoder(e.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// An ExitError ends a Command with a code of its own. Err, unless it is nil, is printed for the user.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Misusef returns the error of a Command that was called wrongly.
func Misusef(format string, args ...any) error {
	return &ExitError{Misuse, fmt.Errorf(format, args...)}
}

// Main runs a program with its arguments, without its name, and returns the exit code. SIGINT and SIGTERM
// cancel the context of Run; one that comes a second later or more kills the program: "timeout" sends two. Build makes the program anew for every site in a
// configuration file, so that no site gets another's options.
func Main(ctx context.Context, build func() *Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-signals:
		case <-ended:
		}
		cancel()
		select {
		case <-time.After(time.Second):
		case <-ended:
		}
		signal.Stop(signals)
	})
	defer wg.Wait()
	defer close(ended)
	env := Env{Stdin: stdin, Stdout: stdout, Stderr: stderr}
	c, name, rest := pick(build(), args)
	sites, err := c.sites(rest)
	switch {
	case err != nil:
		return env.ended(ctx, name, err)
	case len(sites) > 0:
		return runSites(ctx, build, c.File.Sites, args, sites, &env)
	}
	c, name, rest = pick(build(), args)
	return env.ended(ctx, name, c.run(ctx, name, rest, "", &env))
}

// pick finds the part that the first arguments name, its full name, and the other arguments.
func pick(c *Command, args []string) (part *Command, name string, rest []string) {
	for name = c.Name; len(args) > 0; args = args[1:] {
		i := slices.IndexFunc(c.Sub, func(s *Command) bool { return s.Name == args[0] })
		if i < 0 {
			break
		}
		c = c.Sub[i]
		name += " " + c.Name
	}
	return c, name, args
}

// ended prints an error for the user, and returns the exit code.
func (e *Env) ended(ctx context.Context, name string, err error) int {
	if err == nil {
		return OK
	}
	code := Failure
	var exit *ExitError
	if errors.As(err, &exit) {
		code = exit.Code
	} else if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = errors.New("interrupted")
	}
	if exit == nil || exit.Err != nil {
		fmt.Fprintf(e.Stderr, "%s: %v\n", name, err)
	}
	if code == Misuse {
		fmt.Fprintf(e.Stderr, "%s -h shows the usage.\n", name)
	}
	return code
}

// run runs a command with the options of a site: "" means that the configuration file has no sections.
func (c *Command) run(ctx context.Context, name string, args []string, site string, env *Env) error {
	p := c.options(name)
	rest, err := c.read(p, args, site)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return c.help(env.Stdout, name, p.fs, false)
	case err != nil:
		return err
	case p.helpAll:
		return c.help(env.Stdout, name, p.fs, true)
	case p.list:
		return c.list(env, p.fs)
	case p.version:
		_, err := fmt.Fprintln(env.Stdout, strings.Fields(name)[0], Version())
		return err
	}
	env.Args, env.Flags, env.Typed, env.Log = rest, p.fs, p.typed, newLogger(env.Stderr, p.level.value, p.format.value)
	if site != "" {
		env.Log = env.Log.With("site", site)
	}
	return p.locate(c.Run(ctx, env))
}

// read reads all options, and returns the arguments. If help or the version is requested, nothing else
// counts.
func (c *Command) read(p *options, args []string, site string) (rest []string, err error) {
	rest, err = parse(p.fs, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, err
	case err != nil && c.Run == nil:
		return nil, Misusef("%s; options follow the command, which is one of %s", explain(p.fs, err), strings.Join(c.names(), ", "))
	case err != nil:
		return nil, Misusef("%s", explain(p.fs, err, c.File.Foreign...))
	case p.version, p.list, p.helpAll:
		return nil, nil
	case c.Run == nil && len(rest) > 0:
		return nil, Misusef("unknown command %s%s", rest[0], didYouMean("", rest[0], slices.Values(c.names())))
	case c.Run == nil:
		return nil, Misusef("missing command: want one of %s", strings.Join(c.names(), ", "))
	}
	for i, arg := range rest {
		rest[i] = ASCIIHost(arg)
	}
	want := slices.DeleteFunc(slices.Clone(c.Args), func(name string) bool { return name == "..." || strings.HasPrefix(name, "--") })
	for _, last := range c.Args[len(want):] {
		option, ok := strings.CutPrefix(last, "--")
		if ok && len(rest) == len(want)+1 && p.fs.Lookup(option).Value.String() == "" {
			p.fs.Set(option, rest[len(want)]) // a string
			rest = rest[:len(want)]
		}
	}
	// The command line has been read; options that it did not set may come from the environment and the file.
	p.fs.Visit(func(f *flag.Flag) { p.typed[f.Name] = true })
	if err := p.setFromEnv(); err != nil {
		return nil, err
	}
	if path := c.configFile(p); path != "" {
		p.fs.Set("config", path)
	}
	err = ff.Parse(p.fs, append([]string{"--"}, rest...),
		ff.WithConfigFileFlag("config"), ff.WithConfigFileParser(c.configParser(p, site)))
	if err != nil {
		return nil, Misusef("%w", err)
	}
	if len(rest) > len(want) && !slices.Contains(c.Args, "...") {
		return nil, Misusef("unexpected argument %q%s", rest[len(want)], didYouMean("", rest[len(want)], slices.Values(c.names())))
	}
	for _, r := range c.Required {
		if f := p.fs.Lookup(r); f.Value.String() == "" {
			return nil, Misusef("--%s is required", r)
		}
	}
	if len(rest) < len(want) {
		return nil, Misusef("%s is required", want[len(rest)])
	}
	return rest, nil
}

// options are a command's own options and those that every command has.
type options struct {
	fs            *flag.FlagSet
	version, list bool
	helpAll       bool
	site          string
	level, format choice

	typed  map[string]bool   // set on the command line
	places map[string]string // set in the configuration file: where, as in "parley.conf:3"
}

// A located error is about an option, and says where that was set.
type located struct {
	text string
	error
}

func (e *located) Error() string { return e.text }
func (e *located) Unwrap() error { return e.error }

// locate returns an error that begins with an option, such as "--base: ...", with the place where that option was
// set, unless this was the command line.
func (o *options) locate(err error) error {
	if err == nil {
		return nil
	}
	text, ok := strings.CutPrefix(err.Error(), "--")
	name := strings.FieldsFunc(text+" ", func(r rune) bool { return r == ' ' || r == ':' })
	switch {
	case !ok || len(name) == 0 || o.typed[name[0]]:
		return err
	case fromEnv(name[0]) != "":
		return &located{envName(name[0]) + text[len(name[0]):], err}
	case o.places[name[0]] != "":
		return &located{o.places[name[0]] + ": " + text, err}
	}
	return err
}

func (c *Command) options(name string) *options {
	o := &options{fs: flag.NewFlagSet(name, flag.ContinueOnError), typed: map[string]bool{}, places: map[string]string{}}
	o.fs.SetOutput(io.Discard)
	o.fs.Usage = func() {}
	for _, f := range c.Flags {
		f.define(o.fs)
	}
	o.level, o.format = choice{lower(c.LogLevel), levels()}, choice{"text", []string{"text", "json"}}
	if c.Run != nil {
		o.fs.String("config", "", "read options from `FILE`, one name and value per line")
		o.fs.Var(&o.level, "log-level", "log messages at least as severe as `LEVEL`: "+strings.Join(o.level.of, ", "))
		o.fs.Var(&o.format, "log-format", "log as `FORMAT`: text or json")
	}
	if c.Run != nil && c.File.Sites != OneSite {
		o.fs.StringVar(&o.site, "site", "", "use only the section `NAME` of the configuration file")
	}
	o.fs.BoolFunc("version", "print the version and exit", func(string) error { o.version = true; return nil })
	o.fs.BoolFunc("help-all", "show all options", func(string) error { o.helpAll = true; return nil })
	o.fs.BoolFunc(listOption, "", func(string) error { o.list = true; return nil })
	return o
}

// parse reads options, which may stand before and after arguments, and returns the arguments. Everything
// after "--" is an argument.
func parse(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		n := len(args) - fs.NArg()
		if fs.NArg() == 0 || n > 0 && args[n-1] == "--" {
			return append(rest, fs.Args()...), nil
		}
		rest, args = append(rest, args[n]), args[n+1:]
	}
}

// plain returns the error of a value that is no number, or neither true nor false.
func plain(f *flag.Flag, err error) error {
	switch kindOf(f) {
	case "bool":
		return errors.New("want true or false")
	case "int", "float64":
		return errors.New("want a number")
	}
	return err
}

// explain describes an error in the command line, with options in our notation. Foreign options are those of other programs.
func explain(fs *flag.FlagSet, err error, foreign ...string) string {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		name = strings.TrimPrefix(name, "-")
		if slices.Contains(foreign, name) {
			return fmt.Sprintf("unknown option --%s, which another program has that reads the same configuration file", name)
		}
		return fmt.Sprintf("unknown option --%s%s", name, didYouMean("--", name, optionNames(fs)))
	}
	return strings.NewReplacer(" --", " --", " -", " --").Replace(err.Error())
}

// ASCIIHost returns a URL with its internationalized host as the DNS has it (xn--...), and any other text as it is.
func ASCIIHost(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return text
	}
	name := u.Hostname()
	if host, err := idna.Lookup.ToASCII(name); err == nil && !strings.EqualFold(host, name) {
		return strings.Replace(text, name, host, 1)
	}
	return text
}

func (c *Command) names() (names []string) {
	for _, s := range c.Sub {
		names = append(names, s.Name)
	}
	return names
}
