package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

func mem() string {
	b, _ := os.ReadFile("/proc/self/status")
	var s []string
	for _, l := range strings.Split(string(b), "\n") {
		for _, k := range []string{"VmHWM", "RssAnon", "RssFile"} {
			if strings.HasPrefix(l, k) {
				s = append(s, strings.Join(strings.Fields(l), " "))
			}
		}
	}
	return strings.Join(s, "; ")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func items(n int) iter.Seq[protocol.Item] {
	return func(yield func(protocol.Item) bool) {
		for i := 0; i < n; i++ {
			u := fmt.Sprintf("https://www.example.org/s%02d/t%03d/u%05d/page-%06d.html", i/10000, i/100%100, i/50, i)
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], uint64(i))
			if !yield(protocol.Item{URL: u, Title: fmt.Sprint(i), Modified: time.UnixMilli(1700000000000 + int64(i)), Length: int64(1000 + i%500), Type: "text/html", Digest: sha256.Sum256(b[:])}) {
				return
			}
		}
	}
}

func main() {
	f := os.Args[1]
	ctx := context.Background()
	what := os.Args[2]
	n := 1_000_000
	t := time.Now()
	lap := func(s string) {
		fmt.Printf("%-22s %8.2fs  %s\n", s, time.Since(t).Seconds(), mem())
		t = time.Now()
	}
	j := must(journal.Open(f, nil))
	lap("open")
	switch what {
	case "fill":
		var steps []journal.Step
		src := items(n)
		runtime.GC()
		lap("list of urls")
		for it := range src {
			steps = append(steps, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: it, Stamp: []byte("0123456789012345678901234567890123456789")}})
			if len(steps) == 1000 {
				must(j.Append(ctx, steps))
				steps = steps[:0]
			}
		}
		lap("fill")
		if err := j.Settle(); err != nil {
			panic(err)
		}
		lap("settle")
	case "scan":
		v := must(j.View())
		c := 0
		for _, err := range v.Entries() {
			if err != nil {
				panic(err)
			}
			c++
		}
		v.Close()
		lap(fmt.Sprint("scan ", c))
	case "renew":
		src := items(n)
		runtime.GC()
		lap("list of urls")
		if err := j.Renew(ctx, func(y func(protocol.Item, error) bool) {
			for it := range src {
				if !y(it, nil) {
					return
				}
			}
		}); err != nil {
			panic(err)
		}
		lap("renew")
		if err := j.Settle(); err != nil {
			panic(err)
		}
	case "append":
		src := items(n)
		k := 0
		lap("list of urls")
		for it := range src {
			k++
			if k%1000 != 0 {
				continue
			}
			it.Digest[3]++
			must(j.Append(ctx, []journal.Step{{Op: protocol.Update, Entry: journal.Entry{Item: it}}}))
		}
		lap("1000 appends of 1")
	}
	j.Close()
	st, _ := os.Stat(f)
	fmt.Println(st.Size()>>20, "MiB")
}
