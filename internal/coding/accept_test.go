package coding_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
)

func TestAccept(t *testing.T) {
	for said, want := range map[string]string{
		"":                              "",
		"gzip":                          "gzip",
		"gzip, zstd":                    "zstd gzip",
		"gzip;q=0.9, zstd;q=0.8":        "gzip zstd",
		"GZIP ; q=0.5":                  "gzip",
		"x-gzip":                        "gzip",
		"*":                             "zstd gzip",
		"*, zstd;q=0":                   "gzip",
		"gzip;q=0, *;q=0":               "",
		"br, deflate":                   "",
		"identity, zstd;q=0.5":          "",
		"identity;q=0.5, zstd, gzip":    "zstd gzip",
		"zstd;q=2, gzip;q=-1":           "",
		"zstd;q=NaN, gzip;q=some":       "",
		strings.Repeat("x,", 100):       "",
		"identity;q=0, gzip;q=0.001, *": "zstd gzip",
	} {
		if got := strings.Join(coding.ParseAccept([]string{said}).Order("zstd", "gzip"), " "); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
	if a := coding.ParseAccept([]string{"*, gzip", "dcz;q=0.1"}); !a.Names("dcz") || a.Names("zstd") {
		t.Errorf("%v", a)
	}
}

// For any Accept-Encoding, a coding that is refused by name is never used.
func FuzzAccept(f *testing.F) {
	f.Add("gzip;q=0, zstd;q=1e400")
	f.Add("identity;q=0.3,*;q=0.2;x")
	f.Fuzz(func(t *testing.T, said string) {
		a := coding.ParseAccept(strings.Split(said, "\n"))
		if len(a) > 20 {
			t.Fatalf("%d codings", len(a))
		}
		for _, name := range a.Order("zstd", "gzip") {
			if q, ok := a[name]; ok && !(q > 0 && q <= 1) || a.Names("identity") && !slices.ContainsFunc([]string{name, "x-gzip", "*"}, a.Names) {
				t.Fatalf("%s of %v", name, a)
			}
		}
	})
}
