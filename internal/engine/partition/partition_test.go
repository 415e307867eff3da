package partition_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/must"
)

// of returns the partition that has a URL.
func of(n int, url string) int { return partition.Partition{Of: n}.Foreign(url) }

// Partitions have about equally many domains. When there is one more, it takes its share from all others, and nothing else moves.
func TestPartitionsAreBalanced(t *testing.T) {
	const domains = 20_000
	for _, n := range []int{2, 3, 8, 9, 64} {
		before, moved := make([]int, n+1), 0
		for i := range domains {
			url := fmt.Sprintf("https://www.site%d.example/page?q=1", i)
			was, is := of(n, url), of(n+1, url)
			if before[was]++; was != is {
				if moved++; is != n+1 {
					t.Fatalf("%s moves from %d to %d of %d", url, was, is, n+1)
				}
			}
		}
		for i, got := range before[1:] {
			if want := domains / n; got < want*3/4 || got > want*5/4 {
				t.Errorf("partition %d of %d has %d of %d domains", i+1, n, got, domains)
			}
		}
		if want := domains / (n + 1); moved < want*3/4 || moved > want*5/4 {
			t.Errorf("with one more than %d partitions %d of %d domains move", n, moved, domains)
		}
	}
}

// All hosts, ports and schemes of a domain are in one partition. What it is, is fixed: crawlers of different versions must agree.
func TestDomainsAreNotDivided(t *testing.T) {
	for _, urls := range [][]string{
		{"https://example.org/", "http://www.example.org/a", "https://a.b.EXAMPLE.org:8443/", "https://example.org./"},
		{"http://192.0.2.7/", "https://192.0.2.7:8443/x"},
		{"http://[2001:db8::1]/", "https://[2001:db8::1]:8443/x"},
	} {
		for _, u := range urls {
			if of(97, u) != of(97, urls[0]) {
				t.Errorf("%s is in partition %d, %s in %d", u, of(97, u), urls[0], of(97, urls[0]))
			}
		}
	}
	got := []int{of(8, "https://example.org/"), of(8, "https://example.com/"), of(8, "https://a.github.io/"), of(8, "https://b.github.io/"), of(8, "http://192.0.2.7/")}
	if want := []int{8, 4, 7, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("partitions of 8: %v, want %v", got, want)
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"2", "0/3", "4/3", "1/1025", "a/3", "1/3/5", "-1/3", "1/-3"} {
		if p, err := partition.Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
	if p, err := partition.Parse("2/8"); err != nil || p.String() != "2/8" || p.Foreign("https://example.org/") == 2 {
		t.Errorf("2/8 is read as %v, %v", p, err)
	}
	if p, err := partition.Parse(""); err != nil || p.Foreign("https://example.org/") != 0 {
		t.Errorf("without a partition a crawler has all hosts, not %v, %v", p, err)
	}
}

// What a crawler sends is what the others read, each its own. Of a damaged file they read what comes before the damage.
func TestExchange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "exchange")
	at := func(n int) *partition.Exchange {
		return &partition.Exchange{Dir: dir, Partition: partition.Partition{Number: n, Of: 3}}
	}
	if files, err := at(2).Waiting(); err != nil || len(files) > 0 {
		t.Fatalf("before anything is sent: %v, %v", files, err)
	}
	odd := partition.Find{Partition: 2, URL: "https://example.org/\"<>\u2028?a=1&b", Depth: 7}
	long := partition.Find{Partition: 2, URL: "https://example.org/" + strings.Repeat("\x01", 8192-20)}
	for _, list := range [][]partition.Find{{odd, {Partition: 3, URL: "https://example.com/"}}, {long}} {
		if err := at(1).Send(list); err != nil {
			t.Fatal(err)
		}
	}
	longest := slices.Repeat([]partition.Find{{Partition: 3, URL: strings.Repeat("\x01", 8192)}}, partition.MostFinds)
	must.OK(t, at(2).Send(longest))
	for _, f := range must.Get(at(3).Waiting()) {
		if finds, err := partition.Read(f); err != nil || len(finds) != 1 && len(finds) != partition.MostFinds {
			t.Errorf("%d URLs in %s, %v", len(finds), f, err)
		}
	}
	files, err := at(2).Waiting()
	if err != nil || len(files) != 2 {
		t.Fatalf("two files for partition 2: %v, %v", files, err)
	}
	var urls []string
	for _, f := range files {
		finds, err := partition.Read(f)
		if err != nil || len(finds) != 1 {
			t.Fatalf("%d URLs in %s, %v", len(finds), f, err)
		}
		urls = append(urls, finds[0].URL)
	}
	if !slices.Contains(urls, odd.URL) || !slices.Contains(urls, long.URL) {
		t.Errorf("read %.100q", urls)
	}
	if _, err := partition.Read(dir); !errors.As(err, new(*fs.PathError)) { // so that who reads can tell it from damage
		t.Errorf("a file that cannot be read: %v", err)
	}
	many := filepath.Join(dir, "2", "many.jsonl")
	must.OK(t, os.WriteFile(many, []byte(strings.Repeat(`{"url":"https://example.org/"}`+"\n", partition.MostFinds+1)), 0o600))
	if finds, err := partition.Read(many); err == nil || len(finds) != partition.MostFinds {
		t.Errorf("%d of too many URLs are read, %v", len(finds), err)
	}
	for _, damage := range []string{"\x00\x00\x00", `{"url":""}`, `{"url":"https://example.org/","depth":-1}`, `{"url":"` + strings.Repeat("x", 100_000), `["https://example.org/"]`} {
		name := filepath.Join(dir, "2", "x.jsonl")
		if err := os.WriteFile(name, []byte(`{"url":"https://example.org/a","depth":1}`+"\n"+damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if finds, err := partition.Read(name); err == nil || errors.As(err, new(*fs.PathError)) || len(finds) != 1 || !strings.Contains(err.Error(), name) {
			t.Errorf("with %.20q at its end: %v, %v", damage, finds, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"url":"https://example.org/","depth":1}` + "\n")
	f.Add("{}\n\n{")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		name := filepath.Join(dir, "1-x.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		finds, err := partition.Read(name)
		for _, x := range finds {
			if x.URL == "" || len(x.URL) > 8192 || x.Depth < 0 {
				t.Errorf("read %+v of %q", x, text)
			}
		}
		if lines := strings.Count(text, "\n") + 1; err == nil && len(finds) > lines {
			t.Errorf("%d URLs in %d lines", len(finds), lines)
		}
	})
}
