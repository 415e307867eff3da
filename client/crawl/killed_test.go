package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/sitetest"
)

// killEnv makes the test binary crawl the site it names into the directory "crawl", and
// exit as by kill -9, or fail as on a full disk, after a number of transactions has begun.
const killEnv = "PARLEY_TEST_KILLED"

// killedPages is how many pages that site has.
const killedPages = 30

// crawlUntilKilled is that child. A negative number makes it fail with a full disk. It ends without an error if it has all pages, and there
// are no more transactions.
func crawlUntilKilled(base, after string) error {
	n, err := strconv.Atoi(after)
	if err != nil {
		return err
	}
	begun := 0
	now := func() time.Time { // the collection calls it once for each transaction
		if begun++; begun == n {
			killSelf()
		}
		if begun == -n { // from now on no file can grow
			fillDisk()
		}
		return time.Now()
	}
	col, err := openWith("crawl", now)
	if err != nil {
		return err
	}
	go func() {
		for heldIn(col) < killedPages {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		os.Exit(0)
	}()
	err = running(col, base).Run(context.Background())
	return errors.Join(err, col.Close())
}

func openWith(dir string, now func() time.Time) (*collection.Collection, error) {
	return collection.Open(dir, &collection.Options{Strategy: frontier.BreadthFirst{}, Policy: fresh.Priced{Eager: true}, Quality: crawl.DefaultQuality.Of, Contents: collection.WARC, Now: now})
}

// running returns a crawler for a long run.
func running(col *collection.Collection, base string) *crawl.Engine {
	c := crawler(col, base)
	c.Once, c.Policy, c.Revisit = false, fresh.Priced{Eager: true}, &crawl.Revisit{Policy: fresh.Priced{Eager: true}}
	return c
}

func heldIn(col *collection.Collection) (n int) {
	for s := range col.Sites() {
		n += s.Held
	}
	return n
}

// A crawler that is killed, or whose disk is full, at any transaction, gets all
// pages in its next run, though the site announces nothing more: what was
// applied of its manifest is stored together with the cursor.
func TestKilledCrawlCompletesLater(t *testing.T) {
	files := map[string]string{"index.html": page("home")}
	for i := range killedPages - 1 {
		files[fmt.Sprintf("p%d.html", i)] = page(fmt.Sprint("page ", i))
	}
	site := sitetest.NewSite(t, files)
	site.Watch()
	for _, how := range []struct {
		name string
		sign int
	}{{"killed", 1}, {"disk full", -1}} {
		t.Run(how.name, func(t *testing.T) {
			for n := 1; ; n++ {
				dir := t.TempDir()
				child := exec.Command(os.Args[0])
				child.Env, child.Dir = append(os.Environ(), killEnv+"="+site.Base+" "+strconv.Itoa(how.sign*n)), dir
				idle := child.Run() == nil
				col, err := openWith(filepath.Join(dir, "crawl"), nil)
				if err != nil {
					t.Fatalf("after transaction %d: %v", n, err)
				}
				before := heldIn(col)
				ctx, cancel := context.WithCancel(t.Context())
				run := make(chan error, 1)
				go func() { run <- running(col, site.Base).Run(ctx) }()
				for deadline := time.Now().Add(20 * time.Second); heldIn(col) < killedPages; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Errorf("ended at transaction %d: %d pages of %d are stored, before the second run %d", n, heldIn(col), killedPages, before)
						break
					}
				}
				cancel()
				if err := errors.Join(<-run, col.Close()); err != nil {
					t.Errorf("ended at transaction %d: %v", n, err)
				}
				if idle || t.Failed() || before == killedPages {
					if n < 4 {
						t.Errorf("only %d transactions were tried", n)
					}
					t.Log(n, "transactions")
					break
				}
			}
		})
	}
}

// killedChild is what TestMain runs in such a child.
func killedChild(spec string) {
	base, after, _ := strings.Cut(spec, " ")
	fmt.Fprintln(os.Stderr, crawlUntilKilled(base, after))
	os.Exit(1)
}
