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
		if len(name) > 2*len(n) {
			continue // a line of something else, which may be long
		}
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

// distance returns how many letters of a must be changed, added, left out, or swapped with the next one, to get b; in bytes.
func distance(a, b string) int {
	d := make([][]int, len(a)+1) // of the first i bytes of a, the first j of b
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			d[i][j] = min(d[i-1][j], d[i][j-1], d[i-1][j-1]) + 1
			switch {
			case a[i-1] == b[j-1]:
				d[i][j] = d[i-1][j-1]
			case i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1]:
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
