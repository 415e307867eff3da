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
	"github.com/parleyweb/parley/internal/must"
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
	c, err := openIn("crawl", quick(), lasting(base), archiving, func(o *collection.Options) { o.Now = now })
	if err != nil {
		return err
	}
	go func() {
		for heldIn(c.Collection) < killedPages {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		os.Exit(0)
	}()
	err = c.Run(context.Background())
	return errors.Join(err, c.Collection.Close())
}

// lasting are the settings of a crawl that does not end.
func lasting(start string) crawl.Settings {
	revisit := eager(0)
	return crawl.Settings{Start: []string{start}, Revisit: &revisit}
}

func running(t *testing.T, dir, start string) *crawl.Engine {
	t.Helper()
	return open(t, dir, quick(), lasting(start), archiving)
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
	files := pages(killedPages - 1)
	files["index.html"] = page("home")
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
				c := running(t, filepath.Join(dir, "crawl"), site.Base)
				before := heldIn(c.Collection)
				end := begin(t, c)
				until(t, c, fmt.Sprintf("a crawl that ended at transaction %d with %d pages has all", n, before), func() bool { return heldIn(c.Collection) == killedPages })
				end()
				must.OK(t, c.Collection.Close())
				if idle || before == killedPages {
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
