package command

import (
	"flag"
	"fmt"
)

// didYouMean suggests the option nearest to an unknown one, as the end of a sentence; it is empty if none is
// near.
func didYouMean(fs *flag.FlagSet, prefix, name string) string {
	best, least := "", len(name)/3+1
	fs.VisitAll(func(f *flag.Flag) {
		if d := distance(name, f.Name); d <= least && f.Name != listOption && (best == "" || d < least) {
			best, least = f.Name, d
		}
	})
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", prefix+best)
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
