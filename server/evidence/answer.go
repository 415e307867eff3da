package evidence

import (
	"context"
	"time"
)

// restPart is how much later a page that has other bytes than the file is
// asked for again: a cache may only be behind. After three times they are at rest.
const (
	restFirst = 500 * time.Millisecond
	restTries = 3
)

// do asks for a page, and takes in what the answer shows.
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

// settle takes in what an answer shows of a page: if it may be told of, what
// becomes of that is told too.
func (k *Keeper) settle(j job, a answer, tell bool) {
	now := k.now()
	k.settling.Lock() // what was is what is replaced
	was := k.record(j.page)
	is := was
	is.Asked = now
	told := tell && k.isTold(j.page)
	switch a.says {
	case nothing: // what was shown goes on to count for its time
	case away:
		// What hides behind 404 now is given to nobody either.
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
			a.detail += ", with other bytes than the file's"
		}
		k.sayKept(j.page, a.detail)
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
		if err := k.save(); err != nil { // else a process that is killed would tell of it again
			k.log().Error("what the web server refuses could not be written down", "err", err)
		}
	}
	k.tell(j.page)
}

// mostSaid is of how many pages it is said, until the next round, that they stay here.
const mostSaid = 5

// sayKept says that the bytes of a page stay here, of the first few.
func (k *Keeper) sayKept(page, answer string) {
	k.mu.Lock()
	k.said++
	n := k.said
	k.mu.Unlock()
	say := k.log().Debug
	if n <= mostSaid {
		say = k.log().Info
	}
	say("the web server does not give a page to anybody: its bytes stay here", "url", page, "answer", answer)
	if n == mostSaid {
		k.log().Info("more such pages are counted by notifier status, and said with --log-level debug")
	}
}

// countLately counts a page that was public, and is no more. mu is held.
func (k *Keeper) countLately(now time.Time) {
	if now.Sub(k.count) > k.good()/againPart || now.Before(k.count) {
		k.lately, k.count = 0, now
	}
	k.lately++
}

// wasShown takes in an answer of 200.
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
			j.want = a.digest // it has changed meanwhile
		}
	}
	switch {
	case a.digest == j.want && !a.digest.IsZero():
		is.State = statePublic
	case j.want.IsZero():
		is.State = statePublic // whatever it has, anybody is given it; nobody says what it is
	case j.tries < restTries:
		j.tries++
		k.todo.postpone(j, time.Now().Add(k.hurry(restFirst<<(j.tries-1))))
		if is.State != stateAltered {
			is.State = stateUnknown
			if is.wasPublic() {
				is.State = statePublic // of the bytes that were shown; the new ones are not among them
			}
		}
	default:
		is.State = stateAltered
	}
	if !a.digest.IsZero() {
		is.show(a.digest, now)
	}
}

// isTold reports whether a page is told of now.
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
