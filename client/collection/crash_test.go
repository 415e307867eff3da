package collection_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// crawlEnv makes the test binary crawl a small Web into the directory it names.
const crawlEnv = "PARLEY_TEST_COLLECTION"

const webPages = 3000

func webURL(n int) string {
	n %= webPages
	return fmt.Sprintf("https://%c.example/%d/%d", "abc"[n%3], n%17, n)
}

// webAnswer returns the response for page n of that Web: nearly always content, with
// links to some others.
func webAnswer(p *collection.Page) collection.Visit {
	var n int
	fmt.Sscan(p.URL[strings.LastIndexByte(p.URL, '/')+1:], &n)
	v := collection.Visit{Page: p.ID, Asked: webNow, Status: 200, Type: "text/html"}
	switch n % 29 {
	case 3:
		v.Status = 404
		return v
	case 5:
		v.Fault = "timeout"
		return v
	case 7:
		v.Status, v.Target = 301, &collection.Find{URL: webURL(n + 1), Depth: p.Depth, By: collection.ByLink}
		return v
	}
	v.References = refersTo(fmt.Sprintf("https://%d.example/%d.png", n%100, n))
	binary.LittleEndian.PutUint64(v.Digest[:], uint64(n)+1)
	binary.LittleEndian.PutUint64(v.Parsed[:], uint64(n%2500)+1) // some are duplicates
	for i := range 20 {
		v.Links = append(v.Links, collection.Find{URL: webURL(n*3 + i*i + 1), Depth: p.Depth + 1, By: collection.ByLink})
	}
	return v
}

var webNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func openWeb(dir string) (*collection.Collection, error) {
	c, err := collection.Open(dir, &collection.Options{Policy: daily{}, Now: func() time.Time { return webNow }})
	if err == nil {
		c.HoldBack(200)
	}
	return c, err
}

// crawlWeb continues the crawl of that Web until all of it is known.
func crawlWeb(dir string) error {
	c, err := openWeb(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		list, err := c.Sources(0)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			_, err = c.Commit(&collection.Commit{Finds: []collection.Find{{URL: webURL(0), By: collection.ByPerson}},
				Sources: []collection.Source{{Kind: collection.ManifestRDF, URL: "https://a.example/robots.rdf"}}})
			if err != nil {
				return err
			}
			continue
		}
		if list[0].Cursor.IsZero() {
			for i := range 10 { // a snapshot in parts
				step := client.Step{Door: client.Manifest, Reset: i == 0, Whole: i == 9}
				for n := i * 30; n < i*30+30; n += 3 {
					step.Changes = append(step.Changes, protocol.Change{Op: protocol.Create, Item: protocol.Item{URL: webURL(n), Length: -1}})
				}
				if i == 9 {
					step.Cursor = cursor(7)
				}
				if _, err := c.Apply(list[0].ID, step, collection.ByManifest, collection.ApplyOptions{}); err != nil {
					return err
				}
			}
			continue
		}
		var turn collection.Commit
		err = c.Queue().Sites(func(site frontier.SiteID, _ int) error {
			entries, err := c.Queue().Head(site, frontier.Entry{}, 20)
			if err != nil {
				return err
			}
			for _, e := range entries {
				p, _, err := c.PageByID(e.Page)
				if err != nil {
					return err
				}
				turn.Visits = append(turn.Visits, webAnswer(&p))
			}
			return nil
		})
		if err != nil || len(turn.Visits) == 0 {
			return err
		}
		if _, err := c.Commit(&turn); err != nil {
			return err
		}
	}
}

// TestCrawlingChild is not a test: it is the process that TestKilledAtAnyInstant kills.
func TestCrawlingChild(t *testing.T) {
	dir := os.Getenv(crawlEnv)
	if dir == "" {
		t.Skip("only for TestKilledAtAnyInstant")
	}
	must.OK(t, crawlWeb(dir))
}

// Killed at random instants, a crawl ends with the same collection as an
// uninterrupted one, and the files that it leaves at any instant are consistent.
func TestKilledAtAnyInstant(t *testing.T) {
	one, many := t.TempDir(), t.TempDir()
	must.OK(t, crawlWeb(one))
	rnd := rand.New(rand.NewPCG(1, 2))
	most := 200
	if testing.Short() {
		most = 25
	}
	kills, done := 0, false
	for !done && kills < most {
		child := exec.Command(os.Args[0], "-test.run=^TestCrawlingChild$")
		child.Env = append(os.Environ(), crawlEnv+"="+many)
		out := &strings.Builder{}
		child.Stdout, child.Stderr = out, out
		must.OK(t, child.Start())
		timer := time.AfterFunc(time.Duration(10+rnd.IntN(120))*time.Millisecond, func() { child.Process.Kill() })
		err := child.Wait()
		if timer.Stop() && err != nil {
			t.Fatalf("child: %v\n%s", err, out)
		}
		if done = err == nil; !done {
			kills++
		}
		c, err := openWeb(many)
		if err != nil {
			t.Fatalf("after kill %d: %v", kills, err)
		}
		check(t, c)
		if err := c.Close(); err != nil || t.Failed() {
			t.Fatalf("after kill %d: %v", kills, err)
		}
	}
	if !done { // a slow machine does not finish between one kill and the next
		must.OK(t, crawlWeb(many))
	}
	a := must.Get(openWeb(one))
	defer a.Close()
	b := must.Get(openWeb(many))
	defer b.Close()
	if x, y := dump(t, a), dump(t, b); x != y {
		i := 0
		for x[i] == y[i] {
			i++
		}
		t.Errorf("without kills:\n…%.900s\nkilled %d times:\n…%.900s", x[max(0, i-300):], kills, y[max(0, i-300):])
	}
	t.Logf("killed %d times, %d pages", kills, b.Len())
}
