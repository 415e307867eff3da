package command_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
)

func TestSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "12": 12, "12B": 12, "500k": 500_000, "500kB": 500_000, "100MB": 100_000_000, "100 mb": 100_000_000,
		"1.5G": 1_500_000_000, "1.5GiB": 3 << 29, "64Ki": 64 << 10, "2T": 2e12, ".5k": 500, "0.0001k": 0, "8EB": -1,
		"": -1, "MB": -1, "-1": -1, "+1": -1, "1e3": -1, "1kk": -1, "1i": -1, "1.2.3": -1, "1 k B": -1, "k1": -1,
		"9223372036854775807": -1, "99999999T": -1, "1MBx": -1, "inf": -1, "nan": -1, "0x1p4": -1, "1_000": -1,
	} {
		s := command.Size(-1)
		err := s.Set(in)
		if int64(s) != want || (err != nil) != (want == -1) {
			t.Errorf("%q: %d, %v; want %d", in, s, err, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 1: "1", 999: "999", 1000: "1kB", 1500: "1500", 100e6: "100MB", 1 << 20: "1MiB", 2e12: "2TB", 5e15: "5000TB"} {
		s := command.Size(n)
		if got := s.String(); !strings.EqualFold(got, want) {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour,
		"1d12h": 36 * time.Hour, "0d": 0, "1.5s": 1500 * time.Millisecond,
		"": -1, "d": -1, "-1s": -1, "-1d": -1, "1d-2h": -1, "1.5d": -1, "30": -1, "1h1d": -1, "99999999999d": -1, "106752d": -1, "106751d24h": -1,
	} {
		d := command.Duration(-1)
		err := d.Set(in)
		if time.Duration(d) != want || (err != nil) != (want == -1) {
			t.Errorf("%q: %v, %v; want %v", in, time.Duration(d), err, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", time.Minute: "1m", 2 * time.Hour: "2h", 90 * time.Minute: "1h30m",
		24 * time.Hour: "1d", 36 * time.Hour: "1d12h", 15 * time.Millisecond: "15ms", time.Hour + time.Second: "1h0m1s",
	} {
		v := command.Duration(d)
		if got := v.String(); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// A default value, as shown in the help, is parsed as the same value.
func FuzzFlags(f *testing.F) {
	f.Add("1.5GiB", int64(math.MaxInt64))
	f.Add("1d12h", int64(time.Hour))
	f.Fuzz(func(t *testing.T, in string, n int64) {
		var s, s2 command.Size
		if s.Set(in) == nil && s < 0 {
			t.Fatalf("%q is negative", in)
		}
		// Beyond 2^53 a size is not exact.
		if s = command.Size(n % (1 << 53)); s >= 0 {
			if err := s2.Set(s.String()); err != nil || s != s2 {
				t.Fatalf("%d shown as %s: %d, %v", s, s.String(), s2, err)
			}
		}
		var d, d2 command.Duration
		if d.Set(in) == nil && d < 0 {
			t.Fatalf("%q is negative", in)
		}
		if d = command.Duration(n); d >= 0 {
			if err := d2.Set(d.String()); err != nil || d != d2 {
				t.Fatalf("%d shown as %s: %d, %v", d, d.String(), d2, err)
			}
		}
	})
}

func TestStateName(t *testing.T) {
	seen := map[string]string{}
	for base, want := range map[string]string{
		"https://www.example.org/":        "www.example.org.db",
		"https://example.org":             "example.org.db",
		"http://localhost:8080/docs/":     "localhost+8080_docs.db",
		"https://example.org/a_b/":        "example.org_a%5Fb.db",
		"https://example.org/a/b/":        "example.org_a_b.db",
		"https://example.org/a-b/":        "example.org_a-b.db",
		"https://EXAMPLE.net/Docs/":       "example.net_%44ocs.db",
		"http://[::1]:80/":                "%5B++1%5D+80.db",
		"https://example.org/../../etc/":  "example.org_.._.._etc.db",
		"https://example.org/a%2F..%2Fb/": "example.org_a%252%46..%252%46b.db",
		"https://bücher.example/é/":       "b%C3%BCcher.example_%25%433%25%419.db",
	} {
		got, err := command.StateName(base)
		if err != nil || got != want || filepath.Base(got) != got {
			t.Errorf("%s: %s, %v; want %s", base, got, err, want)
		}
		if other, ok := seen[strings.ToLower(got)]; ok {
			t.Errorf("%s and %s share %s", base, other, got)
		}
		seen[strings.ToLower(got)] = base
	}
	a, _ := command.StateName("https://a.example/" + strings.Repeat("x", 500))
	b, _ := command.StateName("https://a.example/" + strings.Repeat("x", 501))
	if len(a) > 220 || a == b || !strings.HasPrefix(a, "a.example_xxx") {
		t.Errorf("long names: %s, %s", a, b)
	}
	for _, bad := range []string{"", "example.org", "/docs/", "https:///x", "https://%zz/", "::"} {
		if got, err := command.StateName(bad); err == nil {
			t.Errorf("%q: %s", bad, got)
		}
	}
}

func TestStateDir(t *testing.T) {
	env := map[string]string{"HOME": "/home/u"}
	get := func(k string) string { return env[k] }
	all, none := func(string) bool { return true }, func(string) bool { return false }
	want := func(want string, mayWrite func(string) bool) {
		t.Helper()
		if got, err := command.StateDir("linux", get, mayWrite); err != nil || filepath.ToSlash(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	want("/home/u/.local/state/parley", none)
	want("/var/lib/parley", all)
	env["XDG_STATE_HOME"] = "relative"
	want("/home/u/.local/state/parley", none)
	env["XDG_STATE_HOME"] = "/home/u/state"
	want("/home/u/state/parley", none)
	env["STATE_DIRECTORY"] = "/var/lib/private/parley:/var/lib/other"
	want("/var/lib/private/parley", all)
	clear(env)
	if got, err := command.StateDir("linux", get, none); err == nil {
		t.Errorf("no home: %s", got)
	}
}

func TestStatePath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	t.Setenv("STATE_DIRECTORY", dir)
	got, err := command.StatePath("https://example.org/")
	if err != nil || got != filepath.Join(dir, "example.org.db") {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := command.StatePath("example.org"); err == nil || !strings.Contains(err.Error(), "want a URL") {
		t.Errorf("no URL: %v", err)
	}
	file := filepath.Join(dir, "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("STATE_DIRECTORY", file)
	if _, err := command.StatePath("https://example.org/"); err == nil || !strings.Contains(err.Error(), "--state") {
		t.Errorf("no folder: %v", err)
	}
}
