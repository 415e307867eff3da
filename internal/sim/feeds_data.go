package sim

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/parleyweb/parley/internal/coding"
)

const (
	maxFeeds     = 100_000
	maxFeedItems = 10_000_000
	maxFeedBytes = 1 << 30 // of a file, uncompressed
)

// OpenFeeds reads real feeds from a folder with exactly one file of each form posts-*.csv.zst (time,source)
// and sources-*.csv. Sources with more than half of their items dated in groups of one second are left out:
// those are the dates of fetches. Days are counted from the first midnight, in UTC. Every feed lists the
// newest window items, or all for 0.
func OpenFeeds(dir string, window int) (*FeedWorld, error) {
	one := func(pattern string) (string, error) {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) != 1 {
			return "", fmt.Errorf("read feeds: %d files match %s in %s, want 1", len(found), pattern, dir)
		}
		return found[0], nil
	}
	sources, err := one("sources-*.csv")
	if err != nil {
		return nil, err
	}
	posts, err := one("posts-*.csv.zst")
	if err != nil {
		return nil, err
	}
	w := &FeedWorld{Name: "feeds-real"}
	byID := map[string]int{}
	err = readRows(sources, func(row map[string]string) error {
		share, err := strconv.ParseFloat(row["same_second5_share"], 64)
		if err != nil || !(share <= .5) {
			return err
		}
		if len(w.Feeds) == maxFeeds {
			return fmt.Errorf("more than %d sources", maxFeeds)
		}
		byID[row["id"]] = len(w.Feeds)
		w.Feeds = append(w.Feeds, Feed{Name: row["url"], Window: max(0, window)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	first, last, n := int64(0), int64(0), 0
	at := make([][]int64, len(w.Feeds))
	err = readRows(posts, func(row map[string]string) error {
		i, ok := byID[row["source"]]
		if !ok {
			return nil
		}
		t, err := strconv.ParseInt(row["time"], 10, 64)
		if err != nil {
			return err
		}
		if n++; n > maxFeedItems {
			return fmt.Errorf("more than %d items", maxFeedItems)
		}
		if n == 1 || t < first {
			first = t
		}
		last = max(last, t)
		at[i] = append(at[i], t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	w.Start = time.Unix(first, 0).UTC().Truncate(24 * time.Hour)
	w.Days = float64(last-w.Start.Unix()) / (24 * 3600)
	for i, list := range at {
		slices.Sort(list)
		for _, t := range list {
			w.Feeds[i].Items = append(w.Feeds[i].Items, float64(t-w.Start.Unix())/(24*3600))
		}
	}
	return w, nil
}

// readRows reads a file of comma-separated values whose first line names the columns.
func readRows(name string, row func(map[string]string) error) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read feeds: %w", err)
	}
	defer f.Close()
	plain, err := coding.NewReader(f)
	if err != nil {
		return fmt.Errorf("read feeds: %s: %w", filepath.Base(name), err)
	}
	defer plain.Close()
	r := csv.NewReader(io.LimitReader(plain, maxFeedBytes))
	r.ReuseRecord = true
	head, err := r.Read()
	head = slices.Clone(head)
	values := make(map[string]string, len(head))
	for err == nil {
		var rec []string
		if rec, err = r.Read(); err == nil {
			for i, v := range rec {
				values[head[i]] = v
			}
			err = row(values)
		}
	}
	if err != io.EOF {
		return fmt.Errorf("read feeds: %s: %w", filepath.Base(name), err)
	}
	return nil
}

// Cut returns the days from one to another as a world of their own. Rates are as they were.
func (w *FeedWorld) Cut(from, to float64) *FeedWorld {
	to = min(to, w.Days)
	cut := &FeedWorld{Name: w.Name, Start: w.Start.Add(dayTime(from)), Days: to - from, Feeds: slices.Clone(w.Feeds)}
	for i := range cut.Feeds {
		f := &cut.Feeds[i]
		var items []float64
		for _, t := range f.Items {
			if t >= from && t <= to {
				items = append(items, t-from)
			}
		}
		f.Items = items
	}
	return cut
}

// dayTime converts days to a duration, rounded to the millisecond.
func dayTime(days float64) time.Duration {
	return time.Duration(math.Round(days*24*3600*1000)) * time.Millisecond
}
