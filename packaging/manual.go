// Manual writes man pages and shell completions of programs, from what they print of themselves.
//
//	manual VERSION DATE OUT PROGRAM...
//
// It runs each program with --help-all and --help-json, and so each of its commands.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: manual VERSION DATE OUT PROGRAM...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func write(version, date, out string, programs []string) error {
	for _, dir := range []string{"man1", "bash", "zsh", "fish"} {
		if err := os.MkdirAll(filepath.Join(out, dir), 0o755); err != nil {
			return err
		}
	}
	for _, program := range programs {
		list, err := commands(program, nil)
		if err != nil {
			return err
		}
		name := filepath.Base(program)
		files := map[string]string{
			filepath.Join("bash", name):         bash(name, list),
			filepath.Join("zsh", "_"+name):      zsh(name, list),
			filepath.Join("fish", name+".fish"): fish(name, list),
		}
		for _, c := range list {
			page := strings.Join(append([]string{name}, c.path...), "-")
			files[filepath.Join("man1", page+".1")] = manual(page, version, date, c.help)
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(out, file), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// A command of a program, or the program itself, which has no path.
type command struct {
	path    []string
	help    string
	options []option
	sub     []sub
}

type option struct{ Name, Kind, Value, Usage string }

type sub struct{ name, summary string }

// commands returns the command at a path, and all below it.
func commands(program string, path []string) ([]command, error) {
	ask := func(arg string) ([]byte, error) {
		out, err := exec.Command(program, append(append([]string(nil), path...), arg)...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s %s %s: %w", program, strings.Join(path, " "), arg, err)
		}
		return out, nil
	}
	help, err := ask("--help-all")
	if err != nil {
		return nil, err
	}
	c := command{path: path, help: string(help)}
	table, err := ask("--help-json")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(table, &c.options); err != nil {
		return nil, err
	}
	list := []command{c}
	_, names, _ := strings.Cut(c.help, "\nCommands:\n")
	for line := range strings.Lines(names) {
		name, summary, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(line, "  ") || !ok {
			break
		}
		list[0].sub = append(list[0].sub, sub{name, strings.TrimSpace(summary)})
		below, err := commands(program, append(append([]string(nil), path...), name))
		if err != nil {
			return nil, err
		}
		list = append(list, below...)
	}
	return list, nil
}

var (
	heading = regexp.MustCompile(`^[A-Z][A-Za-z ,]*:$`)
	optLine = regexp.MustCompile(`^  --([a-z0-9-]+)(?: (.*))?$`)
)

// manual returns the help of a command as a man page.
func manual(page, version, date, help string) string {
	var b strings.Builder
	lines := strings.Split(strings.TrimRight(help, "\n"), "\n")
	_, summary, _ := strings.Cut(strings.TrimSuffix(lines[0], "."), ": ")
	fmt.Fprintf(&b, ".TH %s 1 %s \"Parley %s\" \"Parley\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(page)), date, version, roff(page), roff(summary))
	b.WriteString(".SH SYNOPSIS\n.nf\n" + roff(strings.TrimPrefix(lines[2], "Usage: ")) + "\n.fi\n.SH DESCRIPTION\n")
	example := false
	end := func() {
		if example {
			b.WriteString(".EE\n.RE\n")
			example = false
		}
	}
	for i := 3; i < len(lines); i++ {
		line := lines[i]
		m := optLine.FindStringSubmatch(line)
		switch {
		case line == "":
			end()
			b.WriteString(".PP\n")
		case heading.MatchString(line) && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ") && !strings.HasPrefix(lines[i+1], "    "):
			end()
			b.WriteString(".SH " + strings.ToUpper(strings.TrimSuffix(line, ":")) + "\n")
		case m != nil:
			end()
			fmt.Fprintf(&b, ".TP\n\\fB\\-\\-%s\\fR", roff(m[1]))
			if m[2] != "" {
				fmt.Fprintf(&b, " \\fI%s\\fR", roff(m[2]))
			}
			b.WriteString("\n")
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "        ") {
				i++
				b.WriteString(roff(strings.TrimSpace(lines[i])) + "\n")
			}
		case strings.HasPrefix(line, "  "):
			if !example {
				b.WriteString(".RS 4\n.EX\n")
				example = true
			}
			b.WriteString(roff(strings.TrimPrefix(strings.TrimPrefix(line, "  "), "  ")) + "\n")
		default:
			end()
			b.WriteString(roff(line) + "\n")
		}
	}
	end()
	b.WriteString(".SH SEE ALSO\n.BR rdfgen (1),\n.BR notifier (1),\n.BR crawler (1)\n.PP\nhttps://github.com/parleyweb/parley\n")
	return b.String()
}

// roff escapes a line of text.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// words returns what may follow a command: its commands, and its options.
func (c *command) words() string {
	var list []string
	for _, s := range c.sub {
		list = append(list, s.name)
	}
	for _, o := range c.options {
		list = append(list, "--"+o.Name)
	}
	return strings.Join(list, " ")
}

// isFile reports whether the value of an option is a file or a directory.
func (o *option) isFile() bool {
	return strings.HasPrefix(o.Value, "FILE") || strings.HasPrefix(o.Value, "DIR")
}

// bash returns a completion for bash, without names that are special in zsh. What no option says is a file name: URLs cannot be known.
func bash(name string, list []command) string {
	var words, files strings.Builder
	seen := map[string]bool{}
	for _, c := range list {
		fmt.Fprintf(&words, "        '%s') offers='%s' ;;\n", strings.Join(c.path, " "), c.words())
		for _, o := range c.options {
			if o.isFile() && !seen[o.Name] {
				seen[o.Name] = true
				files.WriteString("|--" + o.Name)
			}
		}
	}
	return fmt.Sprintf(`# bash completion of %[1]s
_parley_%[1]s() {
    local at='' word offers cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    for word in "${COMP_WORDS[@]:1:$((COMP_CWORD-1))}"; do
        case $word in -*) break ;; esac
        at="${at:+$at }$word"
    done
    case $prev in %[2]s) COMPREPLY=($(compgen -f -- "$cur")); return ;; esac
    while :; do
        case $at in
%[3]s        *) offers=- ;;
        esac
        [ "$offers" = - ] || break
        case $at in *' '*) at=${at%% *} ;; *) at='' ;; esac
    done
    case $cur in
        -*) COMPREPLY=($(compgen -W "$offers" -- "$cur")) ;;
        *) COMPREPLY=($(compgen -W "${offers%%%%--*}" -- "$cur") $(compgen -f -- "$cur")) ;;
    esac
}
complete -o filenames -F _parley_%[1]s %[1]s
`, name, strings.TrimPrefix(files.String(), "|"), words.String())
}

// zsh returns a completion for zsh, which uses that of bash.
func zsh(name string, list []command) string {
	return fmt.Sprintf("#compdef %[1]s\nautoload -Uz bashcompinit && bashcompinit\n%[2]s_bash_complete -o filenames -F _parley_%[1]s\n", name, bash(name, list))
}

// fish returns a completion for fish.
func fish(name string, list []command) string {
	var b strings.Builder
	quote := func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
	}
	for _, c := range list {
		when := "__fish_use_subcommand"
		for i, word := range c.path {
			if i == 0 {
				when = ""
			} else {
				when += "; and "
			}
			when += "__fish_seen_subcommand_from " + word
		}
		for _, s := range c.sub {
			fmt.Fprintf(&b, "complete -c %s -n %s -f -a %s -d %s\n", name, quote(when), s.name, quote(s.summary))
		}
		for _, o := range c.options {
			need := " -r"
			if o.Kind == "bool" {
				need = ""
			} else if !o.isFile() {
				need = " -x"
			}
			fmt.Fprintf(&b, "complete -c %s -n %s -l %s%s -d %s\n", name, quote(when), o.Name, need, quote(o.Usage))
		}
	}
	return b.String()
}
