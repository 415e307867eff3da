package judge

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// A welcome is the request rate that a site offers in its /.well-known/parley.
type welcome struct {
	rate float64 // requests a second
	at   netip.Prefix
	by   string // the URL of the description
	read time.Time
}

// readWelcome returns the welcome that holds after a description was read: that of the description, or, if it
// has none and another site of the origin had one, the one before.
func readWelcome(before welcome, body []byte, by string, at netip.Prefix, read time.Time) (w welcome) {
	var doc struct {
		Welcome struct {
			Requests float64 `json:"rate"`
		} `json:"welcome"`
	}
	if json.Unmarshal(body, &doc) == nil && doc.Welcome.Requests > 0 {
		return welcome{doc.Welcome.Requests, at, by, read}
	}
	if before.by != by {
		return before
	}
	return welcome{}
}

// pace returns the pause that a welcome allows to a crawler at an address, and whether there is one: a
// welcome is void after a day, and after its name moved to another address; --max-rate 0 ignores all.
func (w welcome) pace(p record.Program, at netip.Prefix, now time.Time) (time.Duration, bool) {
	if w.rate <= 0 || at != w.at || now.Sub(w.read) > 24*time.Hour {
		return 0, false
	}
	rate := min(w.rate, number(p, "max-rate", 10))
	if rate <= 0 {
		return 0, false
	}
	return time.Duration(float64(time.Second) / rate), true
}
