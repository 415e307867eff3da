package census

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
)

// parts are the borders within a power of ten, in billionths of it: the powers of the tenth root of ten.
var parts = [10]int64{1_000_000_000, 1_258_925_412, 1_584_893_192, 1_995_262_315, 2_511_886_432, 3_162_277_660, 3_981_071_706, 5_011_872_336, 6_309_573_445, 7_943_282_347}

// border returns the least number of the class with the given index: 0 to 9, 10, 13, 16, 20, 25, 32 and so on.
func border(class int) int64 {
	if class < 10 {
		return int64(class)
	}
	b, scale := parts[class%10], int64(1)
	for range min(class/10, 9) {
		scale *= 10
	}
	b = (b*scale + 500_000_000) / 1_000_000_000
	for range max(class/10-9, 0) {
		b *= 10
	}
	return b
}

// lastClass is the class of all greater numbers, too.
const lastClass = 189

// classOf returns the class of a number.
func classOf(n int64) int {
	return max(sort.Search(len(borders), func(class int) bool { return borders[class] > n })-1, 0)
}

// borders are those of all classes.
var borders = func() (list [lastClass + 1]int64) {
	for class := range list {
		list[class] = border(class)
	}
	return list
}()

// A histogram counts numbers by their class.
type histogram map[int]int64

func (h histogram) add(n int64) { h[classOf(n)]++ }

// classes adds a row for each class that is in one of the histograms: its borders, and the count in each.
func (t *Table) classes(list ...histogram) {
	for _, class := range sorted(list...) {
		to := int64(math.MaxInt64)
		if class < lastClass {
			to = borders[class+1] - 1
		}
		cells := []any{borders[class], to}
		for _, h := range list {
			cells = append(cells, h[class])
		}
		t.row(cells...)
	}
}

// counts adds a row for each key, in ascending order.
func counts[K int | int64 | string](t *Table, m map[K]int64) {
	for _, k := range sorted(m) {
		t.row(k, m[k])
	}
}

// sorted returns the keys of maps, each once.
func sorted[K cmp.Ordered, V any, M ~map[K]V](list ...M) []K {
	var keys []K
	for _, m := range list {
		keys = slices.AppendSeq(keys, maps.Keys(m))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
