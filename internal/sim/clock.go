package sim

import (
	"math"
	"time"
)

// start is the beginning of every run: the crawler's packages use times, the simulator counts days.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	day      = 24 * time.Hour
	msPerDay = 24 * 3600 * 1000.
	never    = 36_500. // days
)

// clock converts a number of days to a time.
func clock(days float64) time.Time { return start.Add(time.Duration(min(days, never) * float64(day))) }

// daysAt converts a time to a number of days.
func daysAt(t time.Time) float64 { return float64(t.Sub(start)) / float64(day) }

// millis converts a number of days to the frontier's time, rounded up to a millisecond.
func millis(days float64) int64 {
	return start.UnixMilli() + int64(math.Ceil(min(days, never)*msPerDay-1e-4))
}

func daysOf(ms int64) float64 { return float64(ms-start.UnixMilli()) / msPerDay }
