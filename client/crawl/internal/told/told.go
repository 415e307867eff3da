// Package told says when the pages of a copy are visited: when its site has announced them, and again after failures.
package told

import (
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
)

// Policy is the policy of a copy: a page is visited when its site has announced it.
type Policy struct{}

// Profit implements fresh.Policy.
func (Policy) Profit(p *fresh.Page, _ time.Time) float64 {
	if p.Heard.Notified || p.Visits == 0 {
		return 1
	}
	return 0
}

// Next implements fresh.Policy.
func (Policy) Next(p *fresh.Page, _ time.Time) time.Time {
	if p.Heard.Notified || p.Visits == 0 {
		return time.Time{}
	}
	return collection.Never
}

// Failing returns the retry intervals after no response, or a temporary error. They are short, since most such faults
// concern the whole site, and the site cooperates.
func Failing() (list []time.Duration) {
	for d := time.Second; d < 5*time.Minute; d *= 2 {
		list = append(list, d)
	}
	for range 12 {
		list = append(list, 5*time.Minute)
	}
	return list
}
