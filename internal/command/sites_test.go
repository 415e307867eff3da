package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
)

// sitesCalled runs a command with a configuration file, and returns the options of each site that it ran
// for, its exit code and its stderr.
func sitesCalled(t *testing.T, how command.Sites, config string, run func(ctx context.Context, base string) error, args ...string) ([]string, int, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "parley.conf")
	must.Write(t, file, config)
	var mu sync.Mutex
	var told []string
	build := func() *command.Command {
		var base string
		var include []string
		return &command.Command{Name: "tool", File: command.File{Sites: how, Foreign: []string{"listen"}}, Required: []string{"base"},
			Flags: []command.Flag{command.Bind("base", &base, "a `URL`"), command.Bind("include", &include, "a `PATTERN`")},
			Run: func(ctx context.Context, env *command.Env) error {
				mu.Lock()
				told = append(told, fmt.Sprint(base, " ", include))
				mu.Unlock()
				env.Log.Error("here")
				if run == nil {
					return nil
				}
				return run(ctx, base)
			}}
	}
	var out, errs bytes.Buffer
	code := command.Main(t.Context(), build, append(args, "--config", file), nil, &out, &errs)
	slices.Sort(told)
	return told, code, errs.String()
}

const twoSites = "include all\nlisten :1\n[www]\nbase http://w/\ninclude own\n\n[ blog ] # the other\nbase http://b/\nlisten :2\n"

func TestSitesInTurn(t *testing.T) {
	told, code, said := sitesCalled(t, command.Sequential, twoSites, nil)
	if want := []string{"http://b/ [all]", "http://w/ [all own]"}; code != 0 || !slices.Equal(told, want) {
		t.Errorf("exit code %d, sites %q, stderr %s", code, told, said)
	}
	if !strings.Contains(said, "site=www") || !strings.Contains(said, "site=blog") {
		t.Errorf("the log does not name the sites: %s", said)
	}
	told, code, _ = sitesCalled(t, command.Sequential, twoSites, nil, "--site", "blog")
	if code != 0 || !slices.Equal(told, []string{"http://b/ [all]"}) {
		t.Errorf("exit code %d, sites %q", code, told)
	}
	// A failing site does not keep the others from running.
	told, code, said = sitesCalled(t, command.Sequential, twoSites, func(_ context.Context, base string) error {
		if base == "http://w/" {
			return errors.New("no disk")
		}
		return nil
	})
	if code != 1 || len(told) != 2 || !strings.Contains(said, "tool [www]: no disk") {
		t.Errorf("exit code %d, sites %q, stderr %s", code, told, said)
	}
}

func TestSitesTogether(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	told, code, said := sitesCalled(t, command.Concurrent, twoSites, func(context.Context, string) error {
		both.Done()
		both.Wait() // each waits for the other
		return nil
	})
	if code != 0 || len(told) != 2 {
		t.Errorf("exit code %d, sites %q, stderr %s", code, told, said)
	}
}

// A command that concerns no site reads the lines before the sections, and a section only if --site names it.
func TestApartCommandReadsNamedSection(t *testing.T) {
	one := "base http://common/\n[www]\nbase http://w/\n[blog]\nbase http://b/\n"
	if told, code, said := sitesCalled(t, command.NoSite, one, nil); code != 0 || !slices.Equal(told, []string{"http://common/ []"}) {
		t.Errorf("exit code %d, sites %q, stderr %s", code, told, said)
	}
	if told, code, said := sitesCalled(t, command.NoSite, one, nil, "--site", "www"); code != 0 || !slices.Equal(told, []string{"http://w/ []"}) {
		t.Errorf("exit code %d, sites %q, stderr %s", code, told, said)
	}
}

// A command for one site does not leave out what a section says of it.
func TestSectionMustBeNamed(t *testing.T) {
	one := "base http://common/\n[www]\nbase http://w/\n"
	if told, code, said := sitesCalled(t, command.NamedSite, one, nil); code != 2 || told != nil || !strings.Contains(said, "--site") {
		t.Errorf("exit code %d, sites %q, stderr %s", code, told, said)
	}
	if told, code, said := sitesCalled(t, command.NamedSite, one, nil, "--site", "www"); code != 0 || !slices.Equal(told, []string{"http://w/ []"}) {
		t.Errorf("exit code %d, sites %q, stderr %s", code, told, said)
	}
	if told, code, said := sitesCalled(t, command.NamedSite, "base http://w/\n", nil); code != 0 || !slices.Equal(told, []string{"http://w/ []"}) {
		t.Errorf("exit code %d, sites %q, stderr %s", code, told, said)
	}
}

func TestInvalidSectionsAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		how    command.Sites
		config string
		args   []string
		want   string
	}{
		"a command of one site":              {command.OneSite, twoSites, nil, "has sections"},
		"no such section":                    {command.Sequential, twoSites, []string{"--site", "shop"}, "has no section [shop]"},
		"duplicate section":                  {command.Sequential, "[a]\nbase x\n[a]\n", nil, "[a] appears twice"},
		"unknown option":                     {command.Sequential, "[a]\nbase x\nbaes y\n", nil, "baes"},
		"missing required option":            {command.Sequential, "[a]\nbase x\n[b]\n", nil, "tool [b]: --base is required"},
		"section of a file without sections": {command.Sequential, "base x\n", []string{"--site", "a"}, "has no section [a]"},
		"line too long":                      {command.Sequential, "base " + strings.Repeat("x", 5<<20), nil, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, code, said := sitesCalled(t, c.how, c.config, nil, c.args...); code != 2 || !strings.Contains(said, c.want) {
				t.Errorf("exit code %d, stderr %q", code, said)
			}
		})
	}
}

// Values of options are read byte for byte; only spaces around them and comments are removed.
func TestConfigurationLines(t *testing.T) {
	for line, want := range map[string]string{
		"include a":                   "[a]",
		"\ufeffinclude a":             "[a]",
		"include\ta":                  "[a]",
		"  include   a b  ":           "[a b]",
		"include a # why":             "[a]",
		"include a\t#":                "[a]",
		`include ^Build #\d+ "x" '\'`: `[^Build #\d+ "x" '\']`,
		"include a#b":                 "[a#b]",
		"# include a":                 "[]",
	} {
		told, code, said := sitesCalled(t, command.OneSite, "base b\n"+line+"\n", nil)
		if code != 0 || len(told) != 1 || told[0] != "b "+want {
			t.Errorf("%q: exit code %d, sites %q, want %q: %s", line, code, told, want, said)
		}
	}
	if _, code, said := sitesCalled(t, command.OneSite, "base\n", nil); code != 2 || !strings.Contains(said, "option base needs a value") {
		t.Errorf("code %d: %s", code, said)
	}
}
