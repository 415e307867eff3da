package crawl

import "time"

// mostWords is how many sites in a row are said to be in trouble; then one a minute, since
// a network that is down is the trouble of all of them.
const mostWords = 20

// ails takes note that a site gives no answer, or not the one that is needed, and says so with the
// cause: once, until it answers again. The run's lock is held.
func (r *run) ails(st *site, cause string) {
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
		r.log.Debug("site gives no answer", "site", st.Origin, "cause", cause)
		return
	}
	r.words--
	st.ailing = true
	r.log.Warn("site gives no answer", "site", st.Origin, "cause", cause)
}

// answers takes note that a site answers, in whatever way. The run's lock is held.
func (r *run) answers(st *site) {
	if st.silent != "" || !st.ailing && st.Fault == "" {
		return
	}
	if st.Fault != "" {
		st.Fault, st.FaultAt = "", time.Time{}
		r.touch(st)
	}
	if st.ailing {
		st.ailing = false
		r.log.Info("site answers again", "site", st.Origin)
	}
}
