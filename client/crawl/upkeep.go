package crawl

import "time"

const (
	tidyEvery = 5 * time.Second // the least time between two calls of Tidy
	saysAgain = time.Minute     // for how long a copy was behind if it is said when it is up to date again
)

// An upkeep is what a copy does while it has nothing to fetch.
type upkeep struct {
	c     *setup
	work  *work
	sites *siteTable
	front queue

	tidied time.Time // when Tidy was last called; for the Manager alone
	behind time.Time // since when the copy is not up to date; zero: it is. The work's lock guards it
}

// rest removes the files that a lost state has left behind.
func (u *upkeep) rest(now time.Time) error {
	u.look(now)
	if now.Sub(u.tidied) < u.c.hurried(tidyEvery) {
		return nil
	}
	u.tidied = now
	return u.c.Collection.Tidy()
}

// look logs when the copy is up to date: at first, and again after it was behind for long.
func (u *upkeep) look(now time.Time) {
	u.work.Lock()
	defer u.work.Unlock()
	for _, st := range u.sites.byID {
		p := st.sources.publisher
		switch current := u.work.busy == 0 && p != nil && p.follow.current; {
		case current && !u.behind.IsZero() && u.front.Len() == 0:
			if now.Sub(u.behind) >= saysAgain {
				s, _ := u.c.Collection.Site(st.Origin)
				u.c.Log.Info("the copy is up to date", "pages", s.Held, "cursor", p.Cursor)
			}
			u.behind = time.Time{}
		case !current && u.behind.IsZero():
			u.behind = now
		}
	}
}
