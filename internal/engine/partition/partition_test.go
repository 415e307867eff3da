package partition_test

import (
	"bytes"
	"errors"
	"fmt"
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

// Nodes have about equally many partitions. When there is one more, it takes its share from all others, and nothing else moves.
func TestOwnersAreBalanced(t *testing.T) {
	const partitions = 1024
	var nodes []string
	for n := 1; n <= 12; n++ {
		nodes = append(nodes, fmt.Sprint("host-", n))
		count, moved := map[string]int{}, 0
		for i := 1; i <= partitions; i++ {
			was, is := partition.Owner(i, nodes[:n-1]), partition.Owner(i, nodes)
			if count[is]++; was != is {
				if moved++; is != nodes[n-1] {
					t.Fatalf("partition %d moves from %q to %q of %d", i, was, is, n)
				}
			}
		}
		for _, name := range nodes {
			if got, want := count[name], partitions/n; got < want/2 || got > want*3/2 {
				t.Errorf("%s of %d has %d partitions", name, n, got)
			}
		}
		if most := partitions * (10 + n) / (10 * n); moved > most {
			t.Errorf("with one more, %d partitions move to %d nodes", moved, n)
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

// received returns what comes for a partition, and the errors of what is damaged.
func received(t *testing.T, c partition.Carrier) (batches [][]partition.Find, damaged []error) {
	t.Helper()
	must.OK(t, c.Receive(t.Context(), func(finds []partition.Find, err error) error {
		batches = append(batches, finds)
		if err != nil {
			damaged = append(damaged, err)
		}
		return nil
	}))
	return batches, damaged
}

// What a crawler sends is what the others read, each its own. What is not stored comes again. Of a damaged file they read what comes before the damage.
func TestExchange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "exchange")
	at := func(n int) *partition.Exchange {
		return &partition.Exchange{Dir: dir, Partition: partition.Partition{Number: n, Of: 3}}
	}
	if batches, _ := received(t, at(2)); len(batches) > 0 {
		t.Fatalf("before anything is sent: %v", batches)
	}
	odd := partition.Find{Partition: 2, URL: "https://example.org/\"<>\u2028?a=1&b", Depth: 7}
	long := partition.Find{Partition: 2, URL: "https://example.org/" + strings.Repeat("\x01", 8192-20)}
	for _, list := range [][]partition.Find{{odd, {Partition: 3, URL: "https://example.com/"}}, {long}} {
		must.OK(t, at(1).Send(list))
	}
	longest := slices.Repeat([]partition.Find{{Partition: 3, URL: strings.Repeat("\x01", 8192)}}, partition.MostFinds+2)
	must.OK(t, at(2).Send(longest))
	batches, _ := received(t, at(3))
	var sizes []int
	for _, b := range batches {
		sizes = append(sizes, len(b))
	}
	if slices.Sort(sizes); !slices.Equal(sizes, []int{1, 2, partition.MostFinds}) {
		t.Errorf("batches of %v URLs for partition 3", sizes)
	}
	full := errors.New("no space left")
	if err := at(2).Receive(t.Context(), func([]partition.Find, error) error { return full }); !errors.Is(err, full) {
		t.Errorf("what cannot be stored: %v", err)
	}
	var urls []string
	batches, damaged := received(t, at(2))
	for _, b := range batches {
		urls = append(urls, b[0].URL)
	}
	if len(urls) != 2 || !slices.Contains(urls, odd.URL) || !slices.Contains(urls, long.URL) || len(damaged) > 0 {
		t.Errorf("read %.100q, %v", urls, damaged)
	}
	if batches, _ = received(t, at(2)); len(batches) > 0 {
		t.Errorf("what was stored comes again: %v", batches)
	}
	many := filepath.Join(dir, "2", "many.jsonl")
	must.OK(t, os.WriteFile(many, []byte(strings.Repeat(`{"url":"https://example.org/"}`+"\n", partition.MostFinds+1)), 0o600))
	if batches, damaged = received(t, at(2)); len(batches[0]) != partition.MostFinds || len(damaged) != 1 {
		t.Errorf("%d of too many URLs are read, %v", len(batches[0]), damaged)
	}
	for _, damage := range []string{"\x00\x00\x00", `{"url":""}`, `{"url":"https://example.org/","depth":-1}`, `{"url":"` + strings.Repeat("x", 100_000), `["https://example.org/"]`} {
		name := filepath.Join(dir, "2", "x.jsonl")
		must.OK(t, os.WriteFile(name, []byte(`{"url":"https://example.org/a","depth":1}`+"\n"+damage), 0o600))
		batches, damaged = received(t, at(2))
		if _, err := os.Stat(name + ".damaged"); err != nil || len(batches[0]) != 1 || len(damaged) != 1 || !strings.Contains(damaged[0].Error(), name) {
			t.Errorf("with %.20q at its end: %v, %v; %v", damage, batches, damaged, err)
		}
	}
}

// A batch is not longer than what carries it takes.
func TestBatchesAreBounded(t *testing.T) {
	var finds []partition.Find
	for i := range 5000 {
		finds = append(finds, partition.Find{Partition: i%2 + 1, URL: fmt.Sprint("https://example.org/", i)})
	}
	n := map[int]int{}
	for to, text := range partition.Pack(finds, 4000) {
		list, err := partition.Unpack(bytes.NewReader(text))
		if err != nil || len(text) > 4000 {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		n[to] += len(list)
	}
	if n[1] != 2500 || n[2] != 2500 {
		t.Errorf("%v URLs", n)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(`{"url":"https://example.org/","depth":1}` + "\n")
	f.Add("{}\n\n{")
	f.Fuzz(func(t *testing.T, text string) {
		finds, err := partition.Unpack(strings.NewReader(text))
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
