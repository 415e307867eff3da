package robots

import "time"

// This file exports internals to the tests.

const MaxCrawlDelay = maxCrawlDelay

var ParseRules = parseRules

func (r *Rules) Encode() []byte { return r.encode() }
func (r *Rules) Missing() bool  { return r.missing() }

func (r *Rules) Read(text []byte, now time.Time, wait time.Duration) *Rules {
	return r.read(text, now, wait)
}
