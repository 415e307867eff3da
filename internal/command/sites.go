package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/peterbourgon/ff/v3"

	"github.com/parleyweb/parley/internal/pause"
)

// Sites is a command's way to handle a configuration file with sections. A line "[NAME]" begins the section
// of one site; lines before the first section apply to all sites.
//
//	retention 30d
//
//	[www]
//	base https://www.example.org/
//	docroot /srv/www
//
//	[blog]
//	base https://blog.example.org/
//	urls-cmd list-posts
type Sites int

const (
	OneSite    Sites = iota // it rejects sections
	Sequential              // it runs once for each site, one after the other
	Concurrent              // it runs for all sites at once, until they end
	NoSite                  // it concerns no site, and ignores all sections but the one that --site names
	NamedSite               // it is for the site that --site names, if there are sections
)

var sectionLine = regexp.MustCompile(`^\s*\[\s*([\pL\pN._-]+)\s*\]\s*(#.*)?$`)

// sectionOf returns the name of the section that a line begins. The name appears in logs and messages, so it is bounded: at
// most 100 letters. (A repetition with a bound in the pattern would take every command 7 ms to compile.)
func sectionOf(line string) (name string, ok bool) {
	m := sectionLine.FindStringSubmatch(line)
	if m == nil || utf8.RuneCountInString(m[1]) > 100 {
		return "", false
	}
	return m[1], true
}

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 4 << 20

// sites returns the sections that the command must run for; none if there is no configuration file, or it has
// none.
func (c *Command) sites(args []string) ([]string, error) {
	if c.Run == nil {
		return nil, nil
	}
	o := c.options("")
	if _, err := parse(o.fs, args); err != nil || o.version {
		return nil, nil // run reports the error
	}
	path := c.configFile(o)
	if path == "" {
		if o.site != "" {
			return nil, Misusef("--site %s names a section of a configuration file: name the file with --config", o.site)
		}
		return nil, nil
	}
	if c.File.Sites != OneSite {
		o.site = cmp.Or(o.site, fromEnv("site"))
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, Misusef("%w", err)
	}
	defer file.Close()
	var names []string
	err = eachLine(file, func(line string) error {
		if name, ok := sectionOf(line); ok {
			if slices.Contains(names, name) {
				return fmt.Errorf("section [%s] appears twice", name)
			}
			names = append(names, name)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, Misusef("%s: %w", path, err)
	case len(names) > 0 && c.File.Sites == OneSite:
		return nil, Misusef("%s has sections, but this command is for a single site: give its options on the command line", path)
	case o.site == "" && len(names) > 0 && c.File.Sites == NamedSite:
		return nil, Misusef("%s has sections: choose one with --site", path)
	case o.site == "" && c.File.Sites == NoSite:
		return nil, nil
	case o.site == "":
		return names, nil
	case !slices.Contains(names, o.site):
		return nil, Misusef("%s has no section [%s]", path, o.site)
	}
	return []string{o.site}, nil
}

// configFile returns the path of the configuration file, once the command line has been read: File.Default if none is
// named, nor what the file would have to say.
func (c *Command) configFile(o *options) string {
	if path := cmp.Or(o.fs.Lookup("config").Value.String(), fromEnv("config")); path != "" || c.File.Default == "" {
		return path
	}
	for _, name := range c.Required {
		if o.fs.Lookup(name).Value.String() != "" || fromEnv(name) != "" {
			return ""
		}
	}
	if _, err := os.Stat(c.File.Default); err != nil {
		return ""
	}
	return c.File.Default
}

func eachLine(r io.Reader, f func(line string) error) error {
	s := bufio.NewScanner(io.LimitReader(r, maxConfig+1))
	s.Buffer(nil, maxConfig)
	n := 0
	for s.Scan() {
		if n += len(s.Bytes()) + 1; n > maxConfig {
			return fmt.Errorf("more than %d bytes", maxConfig)
		}
		if err := f(s.Text()); err != nil {
			return err
		}
	}
	return s.Err()
}

// configParser reads the options for all sites and those of one, and notes where each was set.
func (c *Command) configParser(o *options, site string) ff.ConfigFileParser {
	return func(r io.Reader, set func(name, value string) error) error {
		last := ""
		first := make(map[string]int) // the line of an option in this section
		return EachOption(r, func(number int, section, name, value string) error {
			if section != last {
				last = section
				clear(first)
			}
			if section != "" && section != site {
				return nil
			}
			where := fmt.Sprintf("%s:%d", o.fs.Lookup("config").Value, number)
			f := o.fs.Lookup(name)
			switch {
			case f == nil && (slices.Contains(c.File.Foreign, name) || slices.Contains(c.File.Foreign, "*")):
				return nil
			case name[0] == '[':
				return fmt.Errorf("%s: the name of a section has up to 100 letters, digits, dots, dashes and underscores: [www.example.org]", where)
			case f == nil:
				return fmt.Errorf("%s: unknown option %q%s", where, name, didYouMean("", name, slices.Values(append(slices.Collect(optionNames(o.fs)), c.File.Foreign...))))
			case first[name] > 0 && !isRepeatable(f):
				return fmt.Errorf("%s: %s %s: it is already set on line %d, and has one value", where, name, value, first[name])
			case value == "" && isBool(f):
				value = "true"
			case value == "":
				return fmt.Errorf("%s: option %s needs a value", where, name)
			}
			first[name] = number
			o.places[name] = where
			if err := set(name, value); err != nil {
				return fmt.Errorf("%s: %s %s: %w", where, name, value, plain(f, cmp.Or(errors.Unwrap(err), err)))
			}
			return nil
		})
	}
}

// EachOption calls f for each line of a configuration file that sets an option, with the line's number, from 1, and the
// section that it is in: "" before the first. It ends with an error of f.
func EachOption(r io.Reader, f func(number int, section, name, value string) error) error {
	number, section := 0, ""
	return eachLine(r, func(line string) error {
		number++
		if name, ok := sectionOf(line); ok {
			section = name
			return nil
		}
		name, value, ok := splitLine(line)
		if !ok {
			return nil
		}
		return f(number, section, name, value)
	})
}

// splitLine returns the option in a line, if there is one, and its value. A comment begins with "#", at the
// beginning or between two spaces: in the middle of a word it may be part of a pattern or of a command.
func splitLine(line string) (name, value string, ok bool) {
	line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
	if line == "" || line[0] == '#' {
		return "", "", false
	}
	if i := inlineComment.FindStringIndex(line); i != nil {
		line = line[:i[0]]
	}
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], strings.TrimSpace(line[i:]), true
	}
	return line, "", true
}

var inlineComment = regexp.MustCompile(`[ \t]+#([ \t].*)?$`)

func isRepeatable(f *flag.Flag) bool {
	_, ok := f.Value.(*stringsValue)
	return ok
}

func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// restartAfter is the pause before a failed site is restarted while others run.
const restartAfter = time.Minute

// runSites runs a command for each site, and returns the highest exit code.
func runSites(ctx context.Context, build func() *Command, how Sites, args, sites []string, env *Env) int {
	run := func(site string) (name string, err error) {
		c, name, rest := pick(build(), args)
		own := *env
		return name + " [" + site + "]", c.run(ctx, name, rest, site, &own)
	}
	if err := claimed(build, args, sites); err != nil {
		_, name, _ := pick(build(), args)
		return env.ended(ctx, name, err)
	}
	code := OK
	if how != Concurrent || len(sites) == 1 {
		for _, site := range sites {
			if ctx.Err() != nil {
				return max(code, Failure)
			}
			name, err := run(site)
			code = max(code, env.ended(ctx, name, err))
		}
		return code
	}
	env.Stdout, env.Stderr = shareable(env.Stdout), shareable(env.Stderr)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards code, and keeps messages apart
	for _, site := range sites {
		wg.Go(func() {
			for {
				name, err := run(site)
				var exit *ExitError
				over := err == nil || ctx.Err() != nil || errors.As(err, &exit)
				mu.Lock()
				if own := env.ended(ctx, name, err); over {
					code = max(code, own)
				}
				mu.Unlock()
				if over {
					return
				}
				pause.For(ctx, restartAfter) // the other sites run meanwhile
			}
		})
	}
	wg.Wait()
	return code
}

// shareable returns w for sites that write concurrently. A file keeps their writes apart by itself, and is
// returned as it is, so that a terminal is recognised.
func shareable(w io.Writer) io.Writer {
	if _, ok := w.(*os.File); ok || w == nil {
		return w
	}
	return &sharedWriter{to: w}
}

type sharedWriter struct {
	mu sync.Mutex
	to io.Writer // guarded by mu
}

func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// claimed returns an error if two sites would overwrite each other.
func claimed(build func() *Command, args, sites []string) error {
	by := make(map[string]string)
	for _, site := range sites {
		c, name, rest := pick(build(), args)
		if c.File.Exclusive == nil {
			return nil
		}
		if _, err := c.read(c.options(name), rest, site); err != nil {
			continue // its own run reports the error
		}
		for _, claim := range c.File.Exclusive() {
			if other, ok := by[claim]; ok && other != site {
				return Misusef("[%s] and [%s] both have %s: each site needs its own", other, site, claim)
			}
			by[claim] = site
		}
	}
	return nil
}
