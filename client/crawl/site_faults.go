package crawl

import "time"

// mostWords is how many failing sites are logged in a row; after that one a minute, since
// when the network is down all sites fail.
const mostWords = 20

// siteFailed records that a site gives no answer, or not the needed one, and logs the
// cause: once, until the site answers again. The work's lock is held.
func (t *siteTable) failed(st *site, cause string) {
	now := time.Now()
	if t.trouble == "" {
		t.trouble = st.Origin + ": " + cause
	}
	if st.Fault != cause {
		st.Fault, st.FaultAt = cause, now
		t.touch(st)
	}
	if st.ailing {
		return
	}
	t.words, t.wordsAt = min(mostWords, t.words+now.Sub(t.wordsAt).Minutes()), now
	if t.words < 1 {
		t.c.Log.Debug("site does not respond properly", "site", st.Origin, "cause", cause)
		return
	}
	t.words--
	st.ailing = true
	t.c.Log.Warn("site does not respond properly", "site", st.Origin, "cause", cause)
}

// siteRecovered records that a site has answered, with any status. The work's lock is held.
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
