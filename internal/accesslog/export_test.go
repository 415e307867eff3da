package accesslog

import "time"

// What only tests ask.

// Of returns how often a path was requested. The path is as requested, from the first slash, with escapes,
// without query.
func (c *Counts) Of(path string) int { return c.tally().n[path] }

// Missed returns by how much a count may be too low. It is 0 up to maxPaths paths.
func (c *Counts) Missed() int { return c.tally().missed }

// Time returns when the request was logged, in the log's own zone.
func (e *Entry) Time() time.Time {
	return time.Unix(e.Unix, 0).In(time.FixedZone("", e.Offset))
}
