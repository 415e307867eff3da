package crawl

import (
	"cmp"
	"time"

	"github.com/parleyweb/parley/internal/engine/harvest"
)

// mostLogTokens is how many failing sites are logged in a row; after that one a minute, since
// when the network is down all sites fail.
const mostLogTokens = 20

// A faultLog limits the messages about failing sites. The work's lock guards it.
type faultLog struct {
	first    string    // fault of any site
	tokens   float64   // how many messages may be logged now
	tokensAt time.Time // when tokens was computed
}

// failed records that a site gives no answer, or not the needed one, and logs the
// cause: once, until the site answers again. The work's lock is held.
func (t *siteTable) failed(st *site, cause string) {
	now := time.Now()
	if t.faults.first == "" {
		t.faults.first = st.Origin + ": " + cause
	}
	if st.Fault != cause {
		st.Fault, st.FaultAt = cause, now
		t.touch(st)
	}
	if st.ailing {
		return
	}
	t.faults.tokens, t.faults.tokensAt = min(mostLogTokens, t.faults.tokens+now.Sub(t.faults.tokensAt).Minutes()), now
	if t.faults.tokens < 1 {
		t.c.Log.Debug("site does not respond properly", "site", st.Origin, "cause", cause)
		return
	}
	t.faults.tokens--
	st.ailing = true
	t.c.Log.Warn("site does not respond properly", "site", st.Origin, "cause", cause)
}

// isInTrouble reports whether a site gives no answer, or not the needed one. The work's lock is held.
func (t *siteTable) isInTrouble(origin string) bool {
	st := t.byOrigin[origin]
	return st != nil && st.Fault != ""
}

// recovered records that a site has answered, and not with a refusal of all requests. The work's lock is held.
func (t *siteTable) recovered(st *site) {
	if st.silent != "" || !st.ailing && st.Fault == "" {
		return
	}
	if st.Fault != "" {
		st.Fault, st.FaultAt = "", time.Time{}
		t.touch(st)
	}
	if st.ailing {
		st.ailing = false
		t.c.Log.Info("site responds again", "site", st.Origin)
	}
}

// The pause for a site that was silent for several pages in a row; doubled each
// time, until it answers.
const (
	firstQuiet = time.Minute
	lastQuiet  = 12 * time.Hour
)

// leave pauses a site whose pages were given back because requests before them
// got no answer. The pages are not blamed, and wait with it.
func (t *siteTable) leave(a *harvest.Answer) {
	if a.Fault == harvest.FaultStopped {
		return
	}
	now := time.Now()
	t.work.Lock()
	defer t.work.Unlock()
	if st := t.byID[a.Site]; st != nil && !now.Before(st.Quiet) {
		st.silences = min(st.silences+1, 16)
		st.Quiet = now.Add(t.c.hurried(min(firstQuiet<<(st.silences-1), cmp.Or(max(t.c.Quiet, 0), lastQuiet))))
		t.resting[st] = true
		t.touch(st)
		if a.Err != nil {
			t.failed(st, a.Err.Error())
		}
	}
}

// quiet returns the ends of the pauses of sites that may have pages ready.
func (t *siteTable) quiet(now time.Time) (until []time.Time) {
	for st := range t.resting {
		rests := st.rests()
		if !now.Before(rests) {
			delete(t.resting, st)
			continue
		}
		until = append(until, rests)
	}
	return until
}
