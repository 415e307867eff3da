package evidence

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// Parts of the time for which it counts that bytes were shown: a day by default.
const (
	renewPart   = 2    // what was shown is asked for again, so that it need not stop to count
	againPart   = 24   // what is refused, or other bytes
	unknownPart = 144  // what gave no answer
	massEvery   = 1440 // while many are refused, whether they still are
)

// restPart is how much later a page that has other bytes than the file is
// asked for again: a cache may only be behind. After three times they are at rest.
const (
	restFirst = 500 * time.Millisecond
	restTries = 3
)

// saveEvery is how often what was shown is written down.
const saveEvery = time.Second

// Run asks for pages until ctx ends, and returns what ended it.
func (k *Keeper) Run(ctx context.Context) error {
	if k.Rate <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var owned sync.WaitGroup
	own := func(run func(context.Context) error) {
		owned.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				stop(err)
			}
		})
	}
	slow := make(chan job)
	for range atOnce {
		own(func(ctx context.Context) error { k.work(ctx, slow); return nil })
	}
	own(k.postponed)
	own(func(ctx context.Context) error { return k.rounds(ctx, slow) })
	own(k.doubting)
	own(func(ctx context.Context) error {
		for pause(ctx, k.hurry(saveEvery)) {
			if err := k.save(); err != nil {
				return err
			}
		}
		return nil
	})
	if len(k.suspect) > 0 {
		k.todo.doubt()
	}
	<-ctx.Done()
	owned.Wait()
	k.http.CloseIdleConnections()
	if err := k.save(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Once asks for all pages whose evidence is old, as Run does in a round, and
// returns when all have answered. It reports whether others are refused than
// before, so that the site is to be looked at again.
func (k *Keeper) Once(ctx context.Context) (changed bool, err error) {
	if k.Rate <= 0 {
		return false, nil
	}
	defer k.http.CloseIdleConnections()
	pace := time.NewTicker(k.pace())
	defer pace.Stop()
	turn := make(chan struct{}, atOnce)
	err = k.round(ctx, func(j job) bool {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return false
		}
		turn <- struct{}{}
		k.flying.Go(func() { k.do(ctx, j); <-turn })
		return true
	})
	k.flying.Wait()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return false, err
	}
	k.mu.Lock()
	k.mass = k.isMass(0)
	mass := k.mass
	k.mu.Unlock()
	if !mass {
		err = k.release()
	}
	return len(k.news) > 0, errors.Join(err, k.save())
}

// pace is how long it is from one question of a round to the next. Where no
// bytes are told, nobody waits for what a round shows, unless he has asked for it.
func (k *Keeper) pace() time.Duration {
	rate := k.Rate
	k.mu.Lock()
	hurry := !k.since.IsZero() || k.Hurry > 0
	k.mu.Unlock()
	if k.Meta && !hurry {
		rate = min(rate, max(metaRate, float64(k.Journal.Len())/metaRound.Seconds()))
	}
	return max(1, time.Duration(float64(time.Second)/rate))
}

const (
	metaRate  = 5 // a second, at least, unless Rate is less
	metaRound = 30 * time.Minute
)

// work asks for one page after the other, the urgent ones first.
func (k *Keeper) work(ctx context.Context, slow <-chan job) {
	for ctx.Err() == nil {
		if j, ok := k.todo.next(); ok {
			k.do(ctx, j)
			continue
		}
		select {
		case <-k.todo.wake:
		case j := <-slow:
			k.do(ctx, j)
			k.flying.Done()
		case <-ctx.Done():
		}
	}
}

// postponed makes urgent what was postponed, when it is time.
func (k *Keeper) postponed(ctx context.Context) error {
	for {
		wait := time.Hour
		if next := k.todo.due(time.Now()); !next.IsZero() {
			wait = time.Until(next)
		}
		t := time.NewTimer(max(wait, time.Millisecond))
		select {
		case <-t.C:
		case <-k.todo.timer:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
	}
}

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
		if was.State == Unknown || was.State == Public {
			is = record{Asked: now}
		}
	case shown:
		k.wasShown(j, a, &is, now)
	case elsewhere:
		is.State = Altered
	case refused:
		switch {
		case was.State == Refused || was.State == Suspect:
		case told && was.State == Public && !k.isMeant():
			is.State = Suspect
		default:
			is.State = Refused
		}
	}
	look := k.put(j.page, was, is)
	k.settling.Unlock()
	if is.State != was.State && (is.State == Refused || is.State == Suspect || is.State == Altered) {
		if is.State == Altered && a.says == shown {
			a.detail += ", with other bytes than the file's"
		}
		k.sayKept(j.page, a.detail)
	}
	if was.State == Public && (is.State == Suspect || is.State == Altered && was.has(j.want, time.Time{})) {
		if is.State == Altered {
			k.mu.Lock()
			k.countLately(now)
			k.mu.Unlock()
		}
		k.todo.doubt()
	}
	if !look || !tell {
		return
	}
	if is.State == Refused {
		k.mu.Lock()
		if was.State == Public {
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
		is.State = Public
	case j.want.IsZero():
		is.State = Public // whatever it has, anybody is given it; nobody says what it is
	case j.tries < restTries:
		j.tries++
		k.todo.postpone(j, time.Now().Add(k.hurry(restFirst<<(j.tries-1))))
		if is.State != Altered {
			is.State = Unknown
			if is.wasPublic() {
				is.State = Public // of the bytes that were shown; the new ones are not among them
			}
		}
	default:
		is.State = Altered
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

// rounds walks over all pages again and again, and asks for those whose
// evidence is old, or whose bytes somebody wanted.
func (k *Keeper) rounds(ctx context.Context, slow chan<- job) error {
	pace := time.NewTicker(k.pace())
	defer pace.Stop()
	send := func(j job) bool {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return false
		}
		k.flying.Add(1)
		select {
		case slow <- j:
		case <-ctx.Done():
			k.flying.Done()
			return false
		}
		return true
	}
	for {
		pace.Reset(k.pace())
		k.mu.Lock()
		meant := k.meant // by those who said so before it began
		k.mu.Unlock()
		if err := k.round(ctx, send); err != nil {
			return err
		}
		if meant {
			k.mu.Lock()
			k.meant, k.lately = false, 0
			k.mu.Unlock()
		}
		t := time.NewTimer(k.hurry(k.good() / unknownPart))
		for rest := true; rest; {
			select {
			case <-t.C:
				rest = false
			case <-k.todo.round:
				rest = false
			case <-k.todo.wants:
				if err := k.askWanted(send); err != nil {
					return err
				}
			case <-ctx.Done():
				t.Stop()
				return nil
			}
		}
		t.Stop()
	}
}

// askWanted asks for the pages whose bytes somebody wanted, unless that was done lately.
func (k *Keeper) askWanted(ask func(job) bool) error {
	for _, page := range k.todo.takeWanted() {
		e, ok, err := k.Journal.Get(page)
		if err != nil {
			return err
		}
		if r := k.record(page); ok && e.Held.IsZero() && k.now().Sub(r.Asked) > k.good()/unknownPart && !ask(job{page: page, want: e.Item.Digest, length: e.Item.Length}) {
			return nil
		}
	}
	return nil
}

const (
	roundPages = 256 // that are looked up at once

	// mostUnanswered is after how many questions without an answer a round ends.
	mostUnanswered = 20

	// progressEvery is how often it is said how far a first round has got.
	progressEvery = 10 * time.Second
)

// round walks over all pages once.
func (k *Keeper) round(ctx context.Context, send func(job) bool) error {
	if err := k.Journal.Wait(ctx, protocol.Cursor{}); err != nil { // until it has told something
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	k.mu.Lock()
	first := k.public == 0
	k.silent, k.said, k.last = 0, 0, Round{Began: k.now()}
	withdrawn := slices.Sorted(maps.Keys(k.refused))
	withdrawn = append(withdrawn, slices.Sorted(maps.Keys(k.suspect))...)
	k.mu.Unlock()
	ask := func(j job) bool {
		if !send(j) {
			return false
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.last.Asked++
		return k.silent < mostUnanswered
	}
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !k.last.Done && k.silent >= mostUnanswered {
			k.log().Info("the web server gives no answer: it is asked again later what it gives to anybody", "asked", k.last.Asked)
			k.last.Done = true
		}
		if k.last.Done {
			k.settleOnce.Do(func() { close(k.settled) })
		}
	}()
	said := k.now()
	for _, page := range withdrawn {
		if r := k.record(page); k.isDue(&r, protocol.Digest{}) && !ask(job{page: page, length: -1}) {
			return nil
		}
	}
	done := 0
	for after, more := "", true; more; {
		if err := k.askWanted(ask); err != nil {
			return err
		}
		var some []job
		var err error
		if some, after, more, err = k.some(after); err != nil {
			return err
		}
		for _, j := range some {
			if r := k.record(j.page); k.isDue(&r, j.want) && !ask(j) {
				return nil
			}
			done++
		}
		if first && (!more || k.now().Sub(said) > progressEvery) {
			said = k.now()
			k.log().Info("the web server is asked what it gives to anybody", "asked", done, "of", k.Journal.Len())
		}
	}
	k.flying.Wait()
	k.mu.Lock()
	k.last.Done = true
	k.mu.Unlock()
	return nil
}

// some returns pages that come after a URL.
func (k *Keeper) some(after string) (list []job, last string, more bool, err error) {
	v, err := k.Journal.View()
	if err != nil {
		return nil, "", false, err
	}
	defer v.Close()
	r := v.Reader("", true, after)
	for n := 0; n < roundPages; n++ {
		e, ok, err := r.Next()
		if err != nil || !ok {
			return list, after, false, err
		}
		if after = e.Item.URL; e.Held.IsZero() {
			list = append(list, job{page: e.Item.URL, want: e.Item.Digest, length: e.Item.Length})
		}
	}
	return list, after, true, nil
}

// isDue reports whether a page is to be asked for anew. It has bytes of digest d now.
func (k *Keeper) isDue(r *record, d protocol.Digest) bool {
	k.mu.Lock()
	since := k.since
	k.mu.Unlock()
	if r.Asked.IsZero() || r.Asked.Before(since) {
		return true
	}
	age, good := k.now().Sub(r.Asked), k.good()
	switch r.State {
	case Public:
		if d.IsZero() || k.Meta || r.has(d, k.now().Add(-good/renewPart)) {
			return age > good/renewPart
		}
		return age > k.hurry(good/unknownPart)
	case Unknown:
		return age > k.hurry(good/unknownPart)
	}
	return age > k.hurry(good/againPart) || age < 0
}

// doubting finds out, whenever something is refused that was public, whether
// much is: then a person is asked. Else it is withdrawn.
func (k *Keeper) doubting(ctx context.Context) error {
	for {
		t := time.NewTimer(k.hurry(k.good() / massEvery))
		select {
		case <-k.todo.doubts:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
		k.mu.Lock()
		mass, doubts := k.mass, len(k.suspect) > 0 || k.lately > massMore
		k.mu.Unlock()
		if !mass && !doubts {
			continue
		}
		isMass, known := k.isStillMass(ctx, mass)
		if !known {
			continue
		}
		if mass && !isMass {
			k.askSuspects(ctx) // no more of them are withdrawn than those that are refused now
		}
		k.mu.Lock()
		if mass && !isMass {
			k.lately = 0
			isMass = k.isMass(0)
		}
		k.mass = isMass && !k.meant
		now := k.mass
		k.mu.Unlock()
		switch {
		case now && !mass:
			k.log().Error("the web server refuses many pages at once that it gave to anybody: no bytes of any page leave, and nothing is told as gone. If that is meant, say so with: notifier recheck --accept-refusals")
		case mass && !now:
			k.log().Info("the web server gives its pages again")
		}
		if !now {
			if err := k.release(); err != nil {
				return err
			}
		}
	}
}

// askSuspects asks for all that is suspect.
func (k *Keeper) askSuspects(ctx context.Context) {
	k.mu.Lock()
	list := slices.Sorted(maps.Keys(k.suspect))
	k.mu.Unlock()
	for _, page := range list {
		if e, ok, err := k.Journal.Get(page); err == nil && ok && ctx.Err() == nil {
			k.do(ctx, job{page: page, want: e.Item.Digest, length: e.Item.Length})
		}
	}
}

// fewSamples is how many pages must all be given for the refusal of others to
// be that of few.
const fewSamples = 100

// isStillMass asks for some of the pages that were public, and reports whether
// many are refused, as far as the web server answers at all.
func (k *Keeper) isStillMass(ctx context.Context, was bool) (mass, known bool) {
	k.mu.Lock()
	list := slices.Clone(k.sample)
	n := k.public + len(k.suspect) + k.lately
	k.mu.Unlock()
	if n <= massMore {
		return false, true
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	asked, bad := 0, 0
	for _, page := range list {
		e, ok, err := k.Journal.Get(page)
		if err != nil || !ok {
			continue
		}
		a := k.do(ctx, job{page: page, want: e.Item.Digest, length: e.Item.Length, tries: restTries})
		if ctx.Err() != nil {
			return false, false
		}
		if a.says == nothing {
			continue
		}
		asked++
		r := k.record(page)
		if r.State != Public && r.State != Unknown {
			bad++
		}
		if !was {
			k.mu.Lock()
			mass = k.isMass(0)
			k.mu.Unlock()
			if mass {
				return true, true
			}
		}
		if asked >= fewSamples && (bad == 0 || was) {
			break
		}
	}
	if asked == 0 {
		return was, len(list) == 0
	}
	if was {
		return bad*massPart > asked, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.isMass(bad * max(0, n-asked) / asked), true
}
