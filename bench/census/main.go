// Census measures the time and memory of a census: of a generated collection, whose pages have 10 links each, by a process of its own.
//
//	go run ./bench/census -pages 1000000
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/census"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/references"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/protocol"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "census:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("census", flag.ContinueOnError)
	pages := flags.Int("pages", 100_000, "pages of the collection, 20 for each site")
	into := flags.String("into", "", "directory for the collection, which stays there; if it is there already, it is used")
	take := flags.Bool("take", false, "take the census in this process, and print how many rows its tables have")
	make := flags.Bool("make", false, "generate the collection in this process, and do nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *pages < 20 {
		return errors.New("-pages: want 20 or more")
	}
	switch {
	case *take:
		return takeOne(ctx, *into, out)
	case *make:
		return generate(*into, *pages)
	}
	if *into == "" {
		dir, err := os.MkdirTemp("", "census")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		*into = filepath.Join(dir, "crawl")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	// Each in a process of its own: the memory of a process is said to be at least that of its parent.
	if _, err := os.Stat(filepath.Join(*into, "state.db")); err != nil {
		if _, err := cost.Run(exec.CommandContext(ctx, program, "-make", "-into", *into, "-pages", strconv.Itoa(*pages))); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, program, "-take", "-into", *into)
	cmd.Stdout = out
	used, err := cost.Run(cmd)
	if err == nil {
		_, err = fmt.Fprintf(out, "%v\n", used)
	}
	return err
}

// takeOne takes a census, and prints how many rows its tables have.
func takeOne(ctx context.Context, dir string, out io.Writer) (err error) {
	begin := time.Now()
	col, err := collection.Open(dir, &collection.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, col.Close()) }()
	opened := time.Since(begin)
	c, err := census.Take(ctx, col, census.Options{})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d URLs; opened in %v, census in %v; rows:", col.Len(), opened.Round(time.Millisecond), (time.Since(begin) - opened).Round(time.Millisecond))
	for _, t := range c.Tables {
		fmt.Fprintf(out, " %s %d", t.Name, len(t.Rows))
	}
	_, err = fmt.Fprintln(out)
	return err
}

// generate makes a collection of the pages of a generated graph. Every hundredth has content.
func generate(dir string, pages int) (err error) {
	g := graph.Generate(graph.Model{Pages: pages, Hosts: pages / 20, Seed: 1})
	now := time.Now()
	col, err := collection.Open(dir, &collection.Options{Contents: collection.WARC, MaxSites: pages, Now: func() time.Time { return now }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, col.Close()) }()
	const atOnce = 2000
	find := func(page uint32) collection.Find {
		return collection.Find{URL: fmt.Sprintf("https://www.%s/section-%d/page-number-%d.html", g.Hosts[g.Host[page]], page%7, page), Depth: int(page % 9), By: collection.ByLink}
	}
	for i := 0; i < pages; i += atOnce {
		c := &collection.Commit{}
		for page := i; page < min(i+atOnce, pages); page++ {
			c.Finds = append(c.Finds, find(uint32(page)))
		}
		if _, err := col.Commit(c); err != nil {
			return err
		}
	}
	for i := 0; i < pages; i += atOnce {
		c := &collection.Commit{}
		for page := i; page < min(i+atOnce, pages); page++ {
			v := visit(page, now)
			for _, to := range g.Links(uint32(page)) {
				v.Links = append(v.Links, find(to))
			}
			c.Visits = append(c.Visits, v)
		}
		if _, err := col.Commit(c); err != nil {
			return err
		}
	}
	return nil
}

// visit is the visit of a page, whose ID is one more.
func visit(page int, now time.Time) collection.Visit {
	modified := now.Add(-time.Duration(page%50_000) * time.Hour).UTC()
	v := collection.Visit{Page: frontier.PageID(page + 1), Asked: now, Status: 200, Type: "text/html", ETag: `"5e-63a1b2c3d4"`, LastModified: modified.Format("Mon, 02 Jan 2006 15:04:05 GMT"),
		Modified: modified, Title: "A page about something or other", Language: "en", Length: int64(500 + page%40_000), Latency: 30 * time.Millisecond, Took: 50 * time.Millisecond}
	if page%100 == 0 {
		v.Body = []byte(strings.Repeat("<p>The page has some words that are of the kind to be counted.\n", 1+page%200))
		v.Length = int64(len(v.Body))
		v.Digest = protocol.Sum(v.Body)
	} else {
		binary.BigEndian.PutUint64(v.Digest[:], uint64(page))
	}
	v.References = referencesOf(page)
	binary.BigEndian.PutUint64(v.Parsed[:], uint64(page))
	v.Parsed[9] = 1
	return v
}

// referencesOf returns what a page refers to: some files, links to hosts of others, and images, of which each tenth is its own.
func referencesOf(page int) []byte {
	var c references.Counter
	c.Reset("https://www.site.example/")
	for i := range 8 {
		image := i + page%100
		if i == 0 && page%10 == 0 {
			image = 1000 + page
		}
		url := []byte(fmt.Sprintf("https://www.site.example/images/%d.png", image))
		c.Add(url, false)
		c.Embed(url)
	}
	for i := range 4 {
		c.Add([]byte(fmt.Sprintf("https://host-%d.%s/", page*(i+1)%200_000, [...]string{"com", "org", "net", "de"}[i])), true)
		c.Add([]byte(fmt.Sprintf("https://www.site.example/file-%d.%s", page, [...]string{"pdf", "zip", "txt", "gz"}[i])), true)
	}
	return c.Encode()
}
