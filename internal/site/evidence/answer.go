package evidence

import (
	"context"
	"time"

	"github.com/parleyweb/parley/internal/pause"
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
	a := k.stranger.ask(ctx, j.page, j.length)
	if ctx.Err() != nil {
		return answer{}
	}
	if k.rounds.silent.Add(1); a.says == nothing {
		k.rounds.failed.Add(1)
	} else {
		k.rounds.silent.Store(0)
	}
	k.settle(j, a, true)
	k.todo.answered(j.page)
	return a
}

// settle records the result of a request for a page. If tell is set and the page is
// now withdrawn or restored, it also requests a scan.
func (k *Keeper) settle(j job, a answer, tell bool) {
	now := time.Now()
	was, is, look := k.book.update(j.page, func(r *record) {
		was := r.State
		r.Asked = now
		switch a.says {
		case nothing: // earlier evidence stays valid for its time
		case away:
			// A page that is now 404 is not sent to anybody either.
			if was == stateUnknown || was == statePublic {
				*r = record{Asked: now}
			}
		case shown:
			k.wasShown(j, a, r, now)
		case elsewhere:
			r.State = stateAltered
		case refused:
			switch {
			case was == stateRefused || was == stateSuspect:
			case tell && was == statePublic && k.isTold(j.page) && !k.isMeant():
				r.State = stateSuspect
			default:
				r.State = stateRefused
			}
		}
	})
	if is.State != was.State && (is.State == stateRefused || is.State == stateSuspect || is.State == stateAltered) {
		if is.State == stateAltered && a.says == shown {
			a.detail += ", but its bytes differ from the file's"
		}
		k.logWithheld(j.page, a.detail)
	}
	if was.State == statePublic && (is.State == stateSuspect || is.State == stateAltered && was.has(j.want, time.Time{})) {
		if is.State == stateAltered {
			k.book.lost(now, k.good()/againPart)
		}
		pause.Wake(k.todo.doubts)
	}
	if !look || !tell {
		return
	}
	if is.State == stateRefused {
		if was.State == statePublic {
			k.book.lost(now, k.good()/againPart)
		}
		if err := k.book.save(); err != nil { // so that after a kill the page is not announced again
			k.log().Error("refused pages could not be stored", "err", err)
		}
	}
	k.todo.tell(j.page)
}

// maxLoggedWithheld bounds the pages per round that are logged as withheld.
const maxLoggedWithheld = 5

// logWithheld logs that the bytes of a page are not sent: the first few at level info.
func (k *Keeper) logWithheld(page, answer string) {
	n := k.rounds.said.Add(1)
	say := k.log().Debug
	if n <= maxLoggedWithheld {
		say = k.log().Info
	}
	say("page bytes withheld: the web server does not serve them to anonymous clients", "url", page, "answer", answer)
	if n == maxLoggedWithheld {
		k.log().Info("more withheld pages are counted by notifier status, and logged with --log-level debug")
	}
}

// wasShown records a 200 response.
func (k *Keeper) wasShown(j job, a answer, is *record, now time.Time) {
	is.NoArchive = a.noArchive
	if a.inside && !k.Trusted {
		k.book.do(func() { k.book.inside = j.page })
		*is = record{Asked: now, NoArchive: a.noArchive}
		return
	}
	if a.digest != j.want && !j.want.IsZero() {
		if e, ok, err := k.Journal.Get(j.page); err == nil && ok && e.Item.Digest != j.want {
			j.want, j.length = e.Item.Digest, e.Item.Length // the page has changed meanwhile
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

// isMeant reports whether a person has accepted refusals.
func (k *Keeper) isMeant() bool {
	_, m := k.book.now()
	return m.meant
}
