package command_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
)

// TestMain lets the test binary be a command that ends slowly.
func TestMain(m *testing.M) {
	if os.Getenv("COMMAND_TEST_CHILD") == "" {
		os.Exit(m.Run())
	}
	slow := command.Command{Name: "slow", Run: func(ctx context.Context, env *command.Env) error {
		fmt.Fprintln(env.Stdout, "running")
		<-ctx.Done()
		fmt.Fprintln(env.Stdout, "ending")
		if len(os.Getenv("COMMAND_TEST_HANG")) > 0 {
			select {}
		}
		return ctx.Err()
	}}
	os.Exit(command.Main(context.Background(), func() *command.Command { return &slow }, nil, os.Stdin, os.Stdout, os.Stderr))
}

// A call is what a command saw, and what came of it.
type call struct {
	docroot string
	include []string
	maxFile int64
	grace   time.Duration
	keep    bool
	args    []string

	code           int
	stdout, stderr string
}

// called runs a command with a bit of everything. Its part "follow" wants BASE and fails with err.
func called(err error, args ...string) call {
	var c call
	run := func(_ context.Context, env *command.Env) error {
		c.args = env.Args
		env.Log.Error("an error")
		env.Log.Info("an info", "n", 1, "every", 90*time.Minute)
		return err
	}
	build := func() *command.Command {
		c = call{maxFile: 100e6, grace: time.Minute}
		return &command.Command{
			Name: "tool", Summary: "does a bit of everything", Usage: "--docroot DIR [options]",
			Help: "For example:\n\n    tool --docroot /srv/www\n",
			Flags: []command.Flag{
				command.Bind("docroot", &c.docroot, "publish `DIR`"),
				command.Bind("include", &c.include, "publish `PATTERN` too; may be repeated"),
				command.Bind("max-file", &c.maxFile, "leave out files over `SIZE`"),
				command.Bind("grace", &c.grace, "hold deletions for `TIME`"),
				command.Bind("keep", &c.keep, "stay"),
			},
			Required: []string{"docroot"}, LogLevel: 8, Run: run,
			Sub: []*command.Command{
				{Name: "follow", Summary: "follows", Usage: "BASE [options]", Args: []string{"BASE"}, Run: run,
					Flags: []command.Flag{command.Bind("keep", &c.keep, "stay")}},
				{Name: "parts", Summary: "has parts only", Sub: []*command.Command{{Name: "a"}, {Name: "b"}}},
			},
		}
	}
	var stdout, stderr bytes.Buffer
	c.code = command.Main(context.Background(), build, args, strings.NewReader(""), &stdout, &stderr)
	c.stdout, c.stderr = stdout.String(), stderr.String()
	return c
}

func TestOptions(t *testing.T) {
	c := called(nil, "--docroot", "/a", "--include", "x", "-include=y", "--max-file=1k", "--keep")
	if c.code != 0 || c.docroot != "/a" || !slices.Equal(c.include, []string{"x", "y"}) || c.maxFile != 1000 || c.grace != time.Minute || !c.keep {
		t.Errorf("%+v", c)
	}
	if c.stdout != "" || !strings.Contains(c.stderr, `level=ERROR msg="an error"`) || strings.Contains(c.stderr, "an info") {
		t.Errorf("stdout %q, stderr %q", c.stdout, c.stderr)
	}
	if c = called(nil, "--docroot", "/a", "--log-level", "info"); !strings.HasSuffix(c.stderr, `msg="an info" n=1 every=1h30m`+"\n") {
		t.Errorf("%+v", c)
	}
	c = called(nil, "follow", "https://a.example/", "--keep", "--log-level=info", "--log-format", "json")
	if c.code != 0 || !c.keep || !slices.Equal(c.args, []string{"https://a.example/"}) || !strings.Contains(c.stderr, `"msg":"an info","n":1,"every":"1h30m"`) {
		t.Errorf("%+v", c)
	}
	for typed, want := range map[string]string{
		"https://bücher.example:8080/ü?bücher": "https://xn--bcher-kva.example:8080/ü?bücher",
		"http://WWW.Example.org/":              "http://WWW.Example.org/",
		"bücher.html":                          "bücher.html",
	} {
		if c = called(nil, "follow", typed); c.code != 0 || !slices.Equal(c.args, []string{want}) {
			t.Errorf("the argument %s is %q, exit code %d: %s", typed, c.args, c.code, c.stderr)
		}
	}
	if c = called(nil, "follow", "--", "--keep"); c.code != 0 || c.keep || !slices.Equal(c.args, []string{"--keep"}) {
		t.Errorf("after --: %+v", c)
	}
}

func TestEnvironmentAndFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parley.conf")
	text := "# of this machine\ndocroot /file\nmax-file 3k\ngrace 2m # short\nkeep\ninclude a b\ninclude c\n"
	must.Write(t, file, text)
	t.Setenv("PARLEY_CONFIG", file)
	c := called(nil)
	if c.code != 0 || c.docroot != "/file" || c.maxFile != 3000 || c.grace != 2*time.Minute || !c.keep || !slices.Equal(c.include, []string{"a b", "c"}) {
		t.Errorf("from the file: %+v", c)
	}
	t.Setenv("PARLEY_MAX_FILE", "2k")
	t.Setenv("PARLEY_INCLUDE", "**/*.{a,b}\nmy files/**\n")
	t.Setenv("PARLEY_VERSION", "1.2.3") // somebody else's
	c = called(nil, "--docroot", "/flag", "--keep=false")
	if c.code != 0 || c.docroot != "/flag" || c.maxFile != 2000 || c.grace != 2*time.Minute || c.keep || !slices.Equal(c.include, []string{"**/*.{a,b}", "my files/**"}) {
		t.Errorf("flag, then environment, then file: %+v", c)
	}
	t.Setenv("PARLEY_MAX_FILE", "much")
	if c = called(nil, "--docroot", "/"); c.code != command.Misuse || !strings.HasPrefix(c.stderr, "tool: PARLEY_MAX_FILE=much: want a size such as") {
		t.Errorf("bad value in the environment: %+v", c)
	}
	// As a CI sets variables: a secret was pasted with its newline, and a list in YAML ends in one.
	t.Setenv("PARLEY_CONFIG", file+"\n")
	t.Setenv("PARLEY_DOCROOT", "/secret\r\n")
	t.Setenv("PARLEY_MAX_FILE", "2k\n\n")
	t.Setenv("PARLEY_INCLUDE", "a\r\n\nb\n")
	if c = called(nil); c.code != 0 || c.docroot != "/secret" || c.maxFile != 2000 || c.grace != 2*time.Minute || !slices.Equal(c.include, []string{"a", "b"}) {
		t.Errorf("values with newlines: %+v", c)
	}
	if c = called(nil, "--docroot", "/", "--config", file+"x"); c.code != command.Misuse {
		t.Errorf("no such file: %+v", c)
	}
}

// Errors in a configuration file name the line.
func TestConfigErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"docroot /\n\nmax-fil 2k\n":      `:3: unknown option "max-fil"; did you mean "max-file"?`,
		"docroot /\nmax-file\n":          ":2: option max-file needs a value",
		"# all\ndocroot /\ngrace soon\n": ":3: grace soon: want a duration",
		"docroot /a\nkeep\ndocroot /b\n": ":3: docroot /b: it is already set on line 1, and has one value",
		"zzzz 1\n":                       `:1: unknown option "zzzz"` + "\n",
	} {
		file := filepath.Join(t.TempDir(), "tool.conf")
		must.Write(t, file, text)
		if c := called(nil, "--config", file); c.code != command.Misuse || !strings.Contains(c.stderr, file+want) {
			t.Errorf("%q: exit code %d, %s", text, c.code, c.stderr)
		}
	}
}

// An error about an option that the command finds itself says where the option was set.
func TestErrorsNameThePlaceOfTheOption(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tool.conf")
	must.Write(t, file, "max-file 3k\n\ndocroot /nowhere\n")
	wrong := command.Misusef("--docroot /nowhere: no such directory")
	fails := func(want string, args ...string) {
		t.Helper()
		if c := called(wrong, args...); c.code != command.Misuse || !strings.Contains(c.stderr, "\ntool: "+want+" /nowhere: no such directory\n") {
			t.Errorf("exit code %d, %s; want %s", c.code, c.stderr, want)
		}
	}
	fails("--docroot", "--config", file, "--docroot", "/nowhere")
	fails(file+":3: docroot", "--config", file)
	t.Setenv("PARLEY_DOCROOT", "/nowhere")
	fails("PARLEY_DOCROOT", "--config", file)
}

// The default configuration file is read where nothing says what the command is to work on.
func TestDefaultFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parley.conf")
	run := func(args ...string) (base string, code int) {
		build := func() *command.Command {
			base = ""
			return &command.Command{Name: "tool", Required: []string{"base"}, File: command.File{Default: file},
				Flags: []command.Flag{command.Bind("base", &base, "describe `URL`")},
				Run:   func(context.Context, *command.Env) error { return nil }}
		}
		code = command.Main(context.Background(), build, args, strings.NewReader(""), io.Discard, io.Discard)
		return base, code
	}
	if _, code := run(); code != command.Misuse {
		t.Errorf("without the file: exit code %d", code)
	}
	other := file + ".other"
	for name, text := range map[string]string{file: "base http://file/\n", other: "base http://other/\n"} {
		must.Write(t, name, text)
	}
	for want, args := range map[string][]string{"http://file/": nil, "http://typed/": {"--base", "http://typed/"}, "http://other/": {"--config", other}} {
		if got, code := run(args...); got != want || code != 0 {
			t.Errorf("%q: base %s, exit code %d; want %s", args, got, code, want)
		}
	}
	must.Write(t, file, "bas http://file/\n")
	if got, code := run("--base", "http://typed/"); got != "http://typed/" || code != 0 {
		t.Errorf("a file that is not read: base %s, exit code %d", got, code)
	}
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args, want string
	}{
		{"", "--docroot is required"},
		{"--docroot=", "--docroot is required"},
		{"--nonsense", "tool: unknown option --nonsense\n"},
		{"--docrot=/", `unknown option --docrot; did you mean "--docroot"?`},
		{"--garce=1m", `unknown option --garce; did you mean "--grace"?`},
		{"--grce=1m", `unknown option --grce; did you mean "--grace"?`},
		{"--docroot", "needs an argument: --docroot"},
		{"--docroot / --grace soon", "want a duration"},
		{"--docroot / --max-file -3", "want a size"},
		{"--docroot / --log-level loud", "want one of error, warn, info, debug"},
		{"--docroot / stray", `unexpected argument "stray"`},
		{"follow", "tool follow: BASE is required"},
		{"follow a b", `unexpected argument "b"`},
		{"parts", "missing command: want one of a, b"},
		{"parts c", "unknown command c"},
		{"parts --grace=1m a", "parts: unknown option --grace; options follow the command, which is one of a"},
		{"parts aa", `unknown command aa; did you mean "a"?`},
		{"folow", `unexpected argument "folow"; did you mean "follow"?`},
		{"--docroot / folow", `unexpected argument "folow"; did you mean "follow"?`},
	} {
		got := called(nil, strings.Fields(c.args)...)
		if got.code != 2 || got.stdout != "" || !strings.HasPrefix(got.stderr, "tool") || !strings.Contains(got.stderr, c.want) || !strings.Contains(got.stderr, " -h shows the usage.\n") {
			t.Errorf("tool %s: exit %d\nstdout: %s\nstderr: %s", c.args, got.code, got.stdout, got.stderr)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, flag := range []string{"-h", "--help"} {
		c := called(nil, flag)
		want := `tool: does a bit of everything.

Usage: tool --docroot DIR [options]

For example:

    tool --docroot /srv/www

Commands:
  follow       follows
  parts        has parts only
tool COMMAND -h describes a command.

Options:
  --config FILE
        read options from FILE, one name and value per line
  --docroot DIR
        publish DIR
  --grace TIME
        hold deletions for TIME (default 1m)
  --include PATTERN
        publish PATTERN too; may be repeated
  --keep
        stay
  --log-format FORMAT
        log as FORMAT: text or json (default text)
  --log-level LEVEL
        log messages at least as severe as LEVEL: error, warn, info, debug (default error)
  --max-file SIZE
        leave out files over SIZE (default 100MB)
  --version
        print the version and exit
`
		if c.code != 0 || c.stderr != "" || !strings.HasPrefix(c.stdout, want) {
			t.Errorf("exit %d\nstderr %s\nstdout %s", c.code, c.stderr, c.stdout)
		}
	}
	if c := called(nil, "follow", "x", "-h"); c.code != 0 || !strings.HasPrefix(c.stdout, "tool follow: follows.\n\nUsage: tool follow BASE [options]\n") {
		t.Errorf("%+v", c)
	}
	form := regexp.MustCompile(`^tool \S+ \([^,]+, go1\.[^)]+\)\n$`)
	for _, args := range [][]string{{"--version"}, {"follow", "--version"}, {"parts", "--version"}} {
		if c := called(nil, args...); c.code != 0 || !form.MatchString(c.stdout) {
			t.Errorf("%q: %+v", args, c)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{errors.New("read x: no"), 1, "tool: read x: no\n"},
		{context.Canceled, 1, "tool: context canceled\n"}, // not ours: nobody interrupted
		{command.Misusef("--a and --b exclude each other"), 2, "tool: --a and --b exclude each other\ntool -h shows the usage.\n"},
		{&command.ExitError{Code: 3, Err: errors.New("40 pages are gone")}, 3, "tool: 40 pages are gone\n"},
		{fmt.Errorf("look: %w", &command.ExitError{Code: 7, Err: io.EOF}), 7, "tool: look: EOF\n"},
		{&command.ExitError{Code: 3}, 3, ""},
	} {
		got := called(c.err, "--docroot", "/")
		_, said, _ := strings.Cut(got.stderr, "\n") // after the log
		if got.code != c.code || said != c.want {
			t.Errorf("%v: exit %d, stderr %q", c.err, got.code, got.stderr)
		}
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	env := command.Env{Stdout: &out}
	must.OK(t, env.PrintJSON(map[string]any{"url": "https://a.example/?a&b", "n": 1}))
	if want := "{\n  \"n\": 1,\n  \"url\": \"https://a.example/?a&b\"\n}\n"; out.String() != want {
		t.Errorf("%s", out.String())
	}
}

// The first signal ends the context; a second one does not wait.
func TestSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals to send on windows")
	}
	for _, hang := range []string{"", "yes"} {
		self := exec.Command(os.Args[0])
		self.Env = append(os.Environ(), "COMMAND_TEST_CHILD=yes", "COMMAND_TEST_HANG="+hang)
		var stderr bytes.Buffer
		self.Stderr = &stderr
		out := must.Get(self.StdoutPipe())
		must.OK(t, self.Start())
		defer self.Process.Kill()
		lines := bufio.NewReader(out)
		for _, want := range []string{"running\n", "ending\n"} {
			if line, err := lines.ReadString('\n'); line != want {
				t.Fatalf("said %q, %v; want %q", line, err, want)
			}
			self.Process.Signal(syscall.SIGTERM) // the second one at once, as "timeout" does
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			io.Copy(io.Discard, lines)
			self.Wait()
		}()
		for running := true; running; {
			select {
			case <-ended:
				running = false
			case <-time.After(50 * time.Millisecond):
				if hang != "" {
					self.Process.Signal(syscall.SIGTERM)
				}
			}
		}
		switch code := self.ProcessState.ExitCode(); {
		case hang == "" && (code != 1 || stderr.String() != "slow: interrupted\n"):
			t.Errorf("exit %d, stderr %q", code, stderr.String())
		case hang != "" && code != -1:
			t.Errorf("exit %d, want an end by a later signal", code)
		}
	}
}

func TestProgress(t *testing.T) {
	var screen bytes.Buffer
	for _, total := range []int64{3, -1} {
		screen.Reset()
		p := command.NewProgress(&screen, "first copy", total)
		p.Add(2)
		p.Done()
		if !strings.Contains(screen.String(), "first copy") || !strings.HasSuffix(screen.String(), "\r") {
			t.Errorf("total %d: screen %q", total, screen.String())
		}
	}
	screen.Reset()
	env := command.Env{Stderr: &screen}
	p := env.Progress("first copy", 3)
	p.Add(2)
	p.Done()
	if screen.Len() > 0 {
		t.Errorf("progress shown without a terminal: %q", screen.String())
	}
}

// A variadic command accepts any number of arguments beyond the required ones.
func TestVariadic(t *testing.T) {
	var got []string
	tool := func() *command.Command {
		return &command.Command{Name: "tool", Args: []string{"FIRST", "..."},
			Flags: []command.Flag{command.Bind("b", new(bool), "")},
			Run:   func(_ context.Context, env *command.Env) error { got = env.Args; return nil }}
	}
	for _, c := range []struct {
		args string
		code int
	}{{"", 2}, {"x", 0}, {"x --b y z", 0}} {
		got = nil
		args := strings.Fields(c.args)
		if code := command.Main(t.Context(), tool, args, nil, io.Discard, io.Discard); code != c.code {
			t.Errorf("tool %s: exit code %d, want %d", c.args, code, c.code)
		}
		if want := slices.DeleteFunc(args, func(s string) bool { return s == "--b" }); c.code == 0 && !slices.Equal(got, want) {
			t.Errorf("tool %s: arguments %q", c.args, got)
		}
	}
}

// One more argument sets the option that the command names for it, whatever the environment says, unless the command line sets it.
func TestLastArgumentSetsAnOption(t *testing.T) {
	t.Setenv("PARLEY_INTO", "env")
	for args, want := range map[string]string{
		"page dir": "dir [page]", "page --into dir": "dir [page]", "--into dir page": "dir [page]", "page": "env [page]",
		"page dir --into other": `unexpected argument "dir"`, "page dir more": `unexpected argument "dir"`, "": "PAGE is required",
	} {
		var out strings.Builder
		tool := func() *command.Command {
			into := ""
			return &command.Command{Name: "tool", Args: []string{"PAGE", "--into"}, Required: []string{"into"}, Flags: []command.Flag{command.Bind("into", &into, "`DIR`")},
				Run: func(_ context.Context, env *command.Env) error {
					_, err := fmt.Fprint(env.Stdout, into, " ", env.Args)
					return err
				}}
		}
		code := command.Main(t.Context(), tool, strings.Fields(args), nil, &out, &out)
		if got := out.String(); !strings.Contains(got, want) || (code == 0) != strings.HasSuffix(want, "]") {
			t.Errorf("tool %s: exit code %d, %s", args, code, got)
		}
	}
}

// The help of a command with many options shows, by groups, those that most people set.
func TestHelpGroupsOptions(t *testing.T) {
	tool := func() *command.Command {
		return &command.Command{Name: "tool", Groups: []command.Group{{Title: "What for", Options: []string{"usual"}}},
			Flags: []command.Flag{command.Bind("rare", new(bool), "hardly ever"), command.Bind("usual", new(bool), "always")},
			Run:   func(context.Context, *command.Env) error { return nil }}
	}
	for arg, texts := range map[string]map[string]bool{
		"-h":         {"What for:\n  --usual": true, "hardly ever": false, "tool --help-all shows 5 more options": true},
		"--help-all": {"What for:\n  --usual": true, "hardly ever": true, "--help-all shows": false, "Other options:\n  --config": true},
	} {
		var out strings.Builder
		if code := command.Main(t.Context(), tool, []string{arg}, nil, &out, io.Discard); code != 0 {
			t.Errorf("%s: exit code %d", arg, code)
		}
		for want, there := range texts {
			if strings.Contains(out.String(), want) != there {
				t.Errorf("%q in %s: want %v in\n%s", want, arg, there, &out)
			}
		}
	}
	if code := command.Main(t.Context(), tool, []string{"--rare"}, nil, io.Discard, io.Discard); code != 0 {
		t.Errorf("an option outside all groups is rejected: exit code %d", code)
	}
}
