package main

import "testing"

// TestIntervalMatchesSignTest compares the interval with the table of the sign test: of 20 values the 6th and the 15th enclose
// the median with 95.9 %, of 8 the 1st and the 8th with 99.2 %.
func TestIntervalMatchesSignTest(t *testing.T) {
	for n, want := range map[int][2]int{6: {0, 5}, 8: {0, 7}, 9: {1, 7}, 20: {5, 14}, 50: {17, 32}} {
		if low, high := order(n); low != want[0] || high != want[1] {
			t.Errorf("of %d values: %d and %d, want %v", n, low, high, want)
		}
	}
}
