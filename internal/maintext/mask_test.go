package maintext_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/internal/must"
)

func masks(t testing.TB, patterns ...string) maintext.Masks {
	t.Helper()
	return must.Get(maintext.ParseMasks(patterns))
}

// Text that a mask matches is removed as if it had never been there.
func TestMasks(t *testing.T) {
	for _, c := range []struct{ text, patterns, want string }{
		{"a b", "", "a b"},
		{"a b", "x", "a b"},
		{"build 17 of today", `\d+`, "build of today"},
		{"17 of today", `\d+`, "of today"},
		{"build 17", `\d+`, "build"},
		{"a1b", `\d+`, "ab"},
		{"a\n6.1.187\nb", `^\d+(\.\d+)+$`, "a\nb"},
		{"6.1.187\nb", `^\d+(\.\d+)+$`, "b"},
		{"a\n6.1.187", `^\d+(\.\d+)+$`, "a"},
		{"6.1.187", `^\d+(\.\d+)+$`, ""},
		{"since 6.1.187\nb", `^\d+(\.\d+)+$`, "since 6.1.187\nb"},
		{"a b c d", "b|c", "a d"},
		{"a b c d", "b c~c d~d", "a"},
		{"built 12 on monday", `built \d+~\d+ on`, "monday"}, // each is matched against the text as it is
		{"built 12 on monday", `\d+ on~built \d+`, "monday"},
		{"a x\ny b", `x\ny`, "a b"},
		{"a\nx y\nz\nb", `x y\nz`, "a\nb"},
		{"Ünïcode 1 日本", `\d\s*日`, "Ünïcode 本"},
		{"caf\xe9 1", `1`, "caf\xe9"},
		{"A a", `(?i)a`, ""},
	} {
		var patterns []string
		if c.patterns != "" {
			patterns = strings.Split(c.patterns, "~")
		}
		m := masks(t, patterns...)
		if got := m.Apply([]byte(c.text)); string(got) != c.want {
			t.Errorf("%q without %q: %q, want %q", c.text, patterns, got, c.want)
		}
		// The digest and the sketch are those of the remaining text.
		digest, sketch := m.Read([]byte(c.text))
		digest2, sketch2 := maintext.Masks(nil).Read([]byte(c.want))
		if digest != digest2 || !bytes.Equal(sketch, sketch2) {
			t.Errorf("%q without %q is not read as %q", c.text, patterns, c.want)
		}
	}
}

func TestBadMasks(t *testing.T) {
	for pattern, want := range map[string]string{
		`(`:                         `mask "("`,
		`\d*`:                       `mask "\\d*": matches the empty string`,
		`^$`:                        "the empty string",
		`(?=x)`:                     "mask",
		``:                          "the empty string",
		strings.Repeat("x", 10_000): "longer than 4096 bytes",
		`x{1001}`:                   "repeat",
	} {
		if m, err := maintext.ParseMasks([]string{"fine", pattern}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, %v", pattern, m, err)
		}
	}
	if _, err := maintext.ParseMasks(make([]string, 2000)); err == nil || !strings.Contains(err.Error(), "1000") {
		t.Errorf("2000 masks: %v", err)
	}
}

func FuzzMasks(f *testing.F) {
	f.Add("build 17\nof today 6.1.2 x", `\d+`, `^o`)
	f.Add("a b\nc", ` b\nc`, `a|$`)
	f.Add("日本 12", `本.`, `[^\d]`)
	f.Fuzz(func(t *testing.T, text, p, q string) {
		if len(text) > 1000 || len(p)+len(q) > 50 {
			return
		}
		text = strings.Join(strings.Fields(text), " ")
		m, err := maintext.ParseMasks([]string{p, q})
		if err != nil {
			return
		}
		got := m.Apply([]byte(text))
		if other := masks(t, q, p).Apply([]byte(text)); !bytes.Equal(got, other) {
			t.Fatalf("%q without %q and %q: %q, the other way round %q", text, p, q, got, other)
		}
		if s := string(got); s != strings.TrimSpace(s) || strings.Contains(s, "  ") || len(s) > len(text) {
			t.Fatalf("%q without %q and %q: %q", text, p, q, got)
		}
	})
}
