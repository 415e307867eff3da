package crawl

import "time"

// mostWords is how many failing sites are logged in a row; after that one a minute, since
// when the network is down all sites fail.
const mostWords = 20

// siteFailed records that a site gives no answer, or not the needed one, and logs the
// cause: once, until the site answers again. The run's lock is held.
func (r *run) siteFailed(st *site, cause string) {
	now := time.Now()
	if r.trouble == "" {
		r.trouble = st.Origin + ": " + cause
	}
	if st.Fault != cause {
		st.Fault, st.FaultAt = cause, now
		r.touch(st)
	}
	if st.ailing {
		return
	}
	r.words, r.wordsAt = min(mostWords, r.words+now.Sub(r.wordsAt).Minutes()), now
	if r.words < 1 {
		r.Log.Debug("site does not respond properly", "site", st.Origin, "cause", cause)
		return
	}
	r.words--
	st.ailing = true
	r.Log.Warn("site does not respond properly", "site", st.Origin, "cause", cause)
}

// siteRecovered records that a site has answered, with any status. The run's lock is held.
func (r *run) siteRecovered(st *site) {
	if st.silent != "" || !st.ailing && st.Fault == "" {
		return
	}
	if st.Fault != "" {
		st.Fault, st.FaultAt = "", time.Time{}
		r.touch(st)
	}
	if st.ailing {
		st.ailing = false
		r.Log.Info("site responds again", "site", st.Origin)
	}
}
