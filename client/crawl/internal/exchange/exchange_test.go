package exchange_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/exchange"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/must"
)

// A file is removed once its URLs are stored. One that is damaged is set aside, after what comes before the damage was stored.
func TestFilesOfURLs(t *testing.T) {
	col := must.Get(collection.Open(t.TempDir(), nil))
	defer col.Close()
	dir := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, "1"), 0o755))
	const line = `{"url":"https://example.org/","depth":1}` + "\n"
	damaged := filepath.Join(dir, "1", "2-b.jsonl")
	must.OK(t, os.WriteFile(filepath.Join(dir, "1", "2-a.jsonl"), []byte(line), 0o600))
	must.OK(t, os.WriteFile(damaged, []byte(line+"{"), 0o600))
	taken := new(atomic.Int64)
	busy, marked := 0, 0
	x := exchange.Exchanger{Collection: col, With: &partition.Exchange{Dir: dir, Partition: partition.Partition{Number: 1, Of: 2}}, Log: slog.New(slog.DiscardHandler),
		Admit: func(url string, depth int) collection.Find { return collection.Find{URL: url, Depth: depth} },
		Submit: func(_ context.Context, _ []collection.Visit, finds []collection.Find) error {
			if busy != 1 {
				t.Errorf("%d tasks under way while URLs are stored, want 1: the crawl could end meanwhile", busy)
			}
			_, err := col.Commit(&collection.Commit{Finds: finds})
			return err
		},
		Busy: func(n int) { busy += n; marked++ }, Sent: new(atomic.Int64), Taken: taken}
	x.Turn(t.Context())
	left := must.Get(filepath.Glob(filepath.Join(dir, "1", "*")))
	if _, ok, err := col.Page("https://example.org/"); !ok || err != nil || taken.Load() != 2 || !slices.Equal(left, []string{damaged + ".damaged"}) {
		t.Errorf("%d URLs taken in, page %v, %v; left %v", taken.Load(), ok, err, left)
	}
	before := marked
	if x.Turn(t.Context()); busy != 0 || before == 0 || marked != before {
		t.Errorf("tasks under way: %d after the exchange, counted %d times for files, %d times for none: each wakes the Manager", busy, before, marked-before)
	}
}

// Pages of other partitions are handed over and excluded, each by the rule. A page that another rule refuses, too, is left to that rule.
func TestPagesAreHandedOver(t *testing.T) {
	col := must.Get(collection.Open(t.TempDir(), nil))
	defer col.Close()
	p := partition.Partition{Number: 1, Of: 2}
	origin := "https://example.org"
	if p.Foreign(origin) == 0 {
		p.Number = 2
	}
	must.Get(col.Commit(&collection.Commit{Finds: []collection.Find{{URL: origin + "/"}, {URL: origin + "/refused"}}}))
	var visits []collection.Visit
	x := exchange.Exchanger{Collection: col, Partition: p,
		Admit: func(url string, depth int) collection.Find {
			if url != origin+"/" {
				return collection.Find{}
			}
			return collection.Find{URL: url, Depth: depth, Partition: p.Foreign(url), Exclude: "its host is in another partition"}
		},
		Submit: func(_ context.Context, v []collection.Visit, finds []collection.Find) error {
			visits = v
			_, err := col.Commit(&collection.Commit{Visits: v, Finds: finds})
			return err
		}}
	must.OK(t, x.HandOver(t.Context()))
	list, _, err := collection.Outgoing(col, 10)
	if err != nil || len(list) != 1 || list[0].URL != origin+"/" || len(visits) != 1 || visits[0].Exclude == "" {
		t.Errorf("handed over %+v, visits %+v, %v", list, visits, err)
	}
	if page, ok, err := col.Page(origin + "/refused"); err != nil || !ok || page.Visits > 0 || page.State != collection.Known {
		t.Errorf("the other page: %+v, %v, %v", page, ok, err)
	}
}
