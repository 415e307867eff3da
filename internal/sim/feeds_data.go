package sim

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
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
	w := &FeedWorld{Name: "feeds-real"}
	byID := map[string]int{}
	err := readFeeds(dir, "sources-*.csv", []string{"id", "url", "same_second5_share"}, func(row []string) error {
		share, err := strconv.ParseFloat(row[2], 64)
		if err != nil || !(share <= .5) {
			return err
		}
		if len(w.Feeds) == maxFeeds {
			return fmt.Errorf("more than %d sources", maxFeeds)
		}
		byID[row[0]] = len(w.Feeds)
		w.Feeds = append(w.Feeds, Feed{Name: row[1], Window: max(0, window)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	first, last, n := int64(0), int64(0), 0
	err = readFeeds(dir, "posts-*.csv.zst", []string{"source", "time"}, func(row []string) error {
		i, ok := byID[row[0]]
		if !ok {
			return nil
		}
		t, err := strconv.ParseInt(row[1], 10, 64)
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
		w.Feeds[i].Items = append(w.Feeds[i].Items, float64(t))
		return nil
	})
	if err != nil {
		return nil, err
	}
	w.Start = time.Unix(first, 0).UTC().Truncate(24 * time.Hour)
	w.Days = float64(last-w.Start.Unix()) / (24 * 3600)
	for _, f := range w.Feeds {
		slices.Sort(f.Items)
		for i := range f.Items {
			f.Items[i] = (f.Items[i] - float64(w.Start.Unix())) / (24 * 3600)
		}
	}
	return w, nil
}

// readFeeds reads the only file of a form in a folder.
func readFeeds(dir, form string, columns []string, f func(row []string) error) error {
	found, err := filepath.Glob(filepath.Join(dir, form))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("read feeds: %d files match %s in %s, want 1", len(found), form, dir)
	}
	file, err := os.Open(found[0])
	if err != nil {
		return fmt.Errorf("read feeds: %w", err)
	}
	defer file.Close()
	if err := readTable(file, maxFeedBytes, columns, f); err != nil {
		return fmt.Errorf("read feeds: %s: %w", filepath.Base(found[0]), err)
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
