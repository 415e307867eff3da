package evidence

import (
	"context"
	"time"
)

// A page that has other bytes than the file is fetched again after restFirst, then
// after twice that, and so on: a cache may only be stale. After restTries the bytes
// count as stable.
const (
	restFirst = 500 * time.Millisecond
	restTries = 3
)

// do fetches a page, and records the result.
func (k *Keeper) do(ctx context.Context, j job) answer {
	a := k.ask(ctx, j.page, j.length)
	if ctx.Err() != nil {
		return answer{}
	}
	k.mu.Lock()
	if k.silent++; a.says != nothing {
		k.silent = 0
	}
	k.mu.Unlock()
	k.settle(j, a, true)
	k.todo.answered(j.page)
	return a
}

// settle records the result of a request for a page. If tell is set and the page is
// now withdrawn or restored, it also requests a scan.
func (k *Keeper) settle(j job, a answer, tell bool) {
	now := k.now()
	k.settling.Lock() // from reading the record to replacing it
	was := k.record(j.page)
	is := was
	is.Asked = now
	told := tell && k.isTold(j.page)
	switch a.says {
	case nothing: // earlier evidence stays valid for its time
	case away:
		// A page that is now 404 is not sent to anybody either.
		if was.State == stateUnknown || was.State == statePublic {
			is = record{Asked: now}
		}
	case shown:
		k.wasShown(j, a, &is, now)
	case elsewhere:
		is.State = stateAltered
	case refused:
		switch {
		case was.State == stateRefused || was.State == stateSuspect:
		case told && was.State == statePublic && !k.isMeant():
			is.State = stateSuspect
		default:
			is.State = stateRefused
		}
	}
	look := k.put(j.page, was, is)
	k.settling.Unlock()
	if is.State != was.State && (is.State == stateRefused || is.State == stateSuspect || is.State == stateAltered) {
		if is.State == stateAltered && a.says == shown {
			a.detail += ", but its bytes differ from the file's"
		}
		k.logWithheld(j.page, a.detail)
	}
	if was.State == statePublic && (is.State == stateSuspect || is.State == stateAltered && was.has(j.want, time.Time{})) {
		if is.State == stateAltered {
			k.mu.Lock()
			k.countLately(now)
			k.mu.Unlock()
		}
		k.todo.doubt()
	}
	if !look || !tell {
		return
	}
	if is.State == stateRefused {
		k.mu.Lock()
		if was.State == statePublic {
			k.countLately(now)
		}
		k.mu.Unlock()
		if err := k.save(); err != nil { // so that after a kill the page is not announced again
			k.log().Error("refused pages could not be stored", "err", err)
		}
	}
	k.tell(j.page)
}

// maxLoggedWithheld bounds the pages per round that are logged as withheld.
const maxLoggedWithheld = 5

// logWithheld logs that the bytes of a page are not sent: the first few at level info.
func (k *Keeper) logWithheld(page, answer string) {
	k.mu.Lock()
	k.said++
	n := k.said
	k.mu.Unlock()
	say := k.log().Debug
	if n <= maxLoggedWithheld {
		say = k.log().Info
	}
	say("page bytes withheld: the web server does not serve them to anonymous clients", "url", page, "answer", answer)
	if n == maxLoggedWithheld {
		k.log().Info("more withheld pages are counted by notifier status, and logged with --log-level debug")
	}
}

// countLately counts a page that is no longer public. mu is held.
func (k *Keeper) countLately(now time.Time) {
	if now.Sub(k.count) > k.good()/againPart || now.Before(k.count) {
		k.lately, k.count = 0, now
	}
	k.lately++
}

// wasShown records a 200 response.
func (k *Keeper) wasShown(j job, a answer, is *record, now time.Time) {
	is.NoArchive = a.noArchive
	if a.inside && !k.Trusted {
		k.mu.Lock()
		k.inside = j.page
		k.mu.Unlock()
		*is = record{Asked: now, NoArchive: a.noArchive}
		return
	}
	if a.digest != j.want && !j.want.IsZero() {
		if e, ok, err := k.Journal.Get(j.page); err == nil && ok && e.Item.Digest != j.want && e.Item.Digest == a.digest {
			j.want = a.digest // the page has changed meanwhile
		}
	}
	switch {
	case a.digest == j.want && !a.digest.IsZero():
		is.State = statePublic
	case j.want.IsZero():
		is.State = statePublic // the file's digest is unknown: any 200 proves that the page is public
	case j.tries < restTries:
		j.tries++
		k.todo.postpone(j, time.Now().Add(k.hurry(restFirst<<(j.tries-1))))
		if is.State != stateAltered {
			is.State = stateUnknown
			if is.wasPublic() {
				is.State = statePublic // for the bytes shown before, not for the new ones
			}
		}
	default:
		is.State = stateAltered
	}
	if !a.digest.IsZero() {
		is.show(a.digest, now)
	}
}

// isTold reports whether a page is announced now.
func (k *Keeper) isTold(page string) bool {
	if !k.Journal.Whole() {
		return false
	}
	e, ok, err := k.Journal.Get(page)
	return err == nil && ok && e.Held.IsZero()
}

func (k *Keeper) isMeant() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.meant
}
