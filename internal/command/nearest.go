package command

import (
	"flag"
	"fmt"
	"iter"
)

// didYouMean suggests the nearest of the names to an unknown one, as the end of a sentence; it is empty if none is
// near.
func didYouMean(prefix, name string, names iter.Seq[string]) string {
	best, least := "", len(name)/3+1
	for n := range names {
		if d := distance(name, n); d <= least && (best == "" || d < least) {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", prefix+best)
}

func optionNames(fs *flag.FlagSet) iter.Seq[string] {
	return func(yield func(string) bool) {
		more := true
		fs.VisitAll(func(f *flag.Flag) {
			if more && f.Name != listOption {
				more = yield(f.Name)
			}
		})
	}
}

// distance returns the Levenshtein distance of a and b, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
