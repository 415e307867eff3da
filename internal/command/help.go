package command

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// help prints what a command is for and how to use it, with all of its options, or those that most people
// set.
func (c *Command) help(w io.Writer, name string, fs *flag.FlagSet, all bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s.\n\nUsage: %s %s\n", name, c.Summary, name, c.Usage)
	if c.Help != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.Help))
	}
	if len(c.Sub) > 0 {
		fmt.Fprintf(&b, "\nCommands:\n")
		for _, s := range c.Sub {
			fmt.Fprintf(&b, "  %-12s %s\n", s.Name, s.Summary)
		}
		fmt.Fprintf(&b, "%s COMMAND -h describes a command.\n", name)
	}
	shown := map[string]bool{listOption: true, "help-all": true}
	for _, g := range c.Groups {
		fmt.Fprintf(&b, "\n%s:\n", g.Title)
		for _, option := range g.Options {
			b.WriteString(describe(fs.Lookup(option)))
			shown[option] = true
		}
	}
	var more strings.Builder
	left := 0
	fs.VisitAll(func(f *flag.Flag) {
		if !shown[f.Name] {
			more.WriteString(describe(f))
			left++
		}
	})
	switch {
	case len(c.Groups) == 0:
		fmt.Fprintf(&b, "\nOptions:\n%s", &more)
	case all:
		fmt.Fprintf(&b, "\nOther options:\n%s", &more)
	default:
		fmt.Fprintf(&b, "\n%s --help-all shows %d more options.\n", name, left)
	}
	if c.Run != nil {
		fmt.Fprintf(&b, "\nEvery option can also be set in the environment (--max-file as PARLEY_MAX_FILE) and in\nthe file that --config names (\"max-file 2MB\"). The command line wins over the environment,\nand the environment over the file. To repeat an option, repeat its line in the file, or\nput one value on each line of the variable.\n")
		if c.File.Sites != OneSite {
			fmt.Fprintf(&b, "\nThe file may describe several sites: a line [NAME] begins the options of one, and the\nlines before the first such line are for all sites. --site NAME runs one site alone.\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// listOption prints the table of options for programs to read, such as a test that draws values for each.
// Help does not show it.
const listOption = "help-json"

// An Option is a row of that table.
type Option struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`    // bool, string, int, float64, duration, size, strings or choice
	Value   string `json:"value"`   // name of a value in the help
	Default string `json:"default"` // as written on a command line
	Usage   string `json:"usage"`
}

// list prints the table of options.
func (c *Command) list(env *Env, fs *flag.FlagSet) error {
	table := []Option{}
	fs.VisitAll(func(f *flag.Flag) {
		if f.Name == listOption || f.Name == "version" || f.Name == "help-all" {
			return
		}
		value, usage := flag.UnquoteUsage(f)
		table = append(table, Option{f.Name, kindOf(f), value, f.DefValue, usage})
	})
	return env.PrintJSON(table)
}

// kindOf returns the kind of an option, as in [Option].
func kindOf(f *flag.Flag) string {
	kind := strings.TrimSuffix(fmt.Sprintf("%T", f.Value), "Value")
	return strings.ToLower(kind[strings.LastIndexByte(kind, '.')+1:])
}

// describe returns the help text of an option, with its default.
func describe(f *flag.Flag) string {
	value, text := flag.UnquoteUsage(f)
	if value != "" {
		value = " " + value
	}
	if f.Name == "version" {
		return fmt.Sprintf("  --version\n        %s\n", text)
	}
	if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "0s" {
		text += fmt.Sprintf(" (default %s)", d)
	}
	return fmt.Sprintf("  --%s%s\n        %s\n", f.Name, value, text)
}

// Version names the build, such as "v0.1.0 (1a2b3c4d5e6f, go1.26.0)".
// A build from a working tree with changes has a "+" after the commit.
func Version() string {
	version, commit, changed := "unknown", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = "+"
			}
		}
	}
	if commit == "" {
		commit, changed = "no commit", ""
	}
	return fmt.Sprintf("%s (%s%s, %s)", version, commit, changed, runtime.Version())
}
