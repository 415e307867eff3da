package evidence

import (
	"context"
	"time"
)

// doubting runs whenever a page that was public is refused. If many are, a person
// must decide; else the refused pages are withdrawn.
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
		mass := k.book.isMass()
		if !mass && !k.book.doubtful() {
			continue
		}
		isMass, known := k.isStillMass(ctx, mass)
		if !known {
			continue
		}
		if mass && !isMass {
			k.askSuspects(ctx) // so that only those that are still refused are withdrawn
		}
		if mass && !isMass {
			k.book.do(func() { k.book.mass.lately = 0 })
			isMass = k.book.many(0)
		}
		var now bool
		k.book.do(func() {
			now = isMass && !k.book.mass.meant
			k.book.mass.is = now
		})
		switch {
		case now && !mass:
			k.log().Error("the web server suddenly refuses many pages that it served to anonymous clients: no page bytes are delivered, and no deletions are reported. If the refusals are intended, run: notifier recheck --accept-refusals")
		case mass && !now:
			k.log().Info("the mass refusal is over")
		}
		if !now {
			if err := k.release(); err != nil {
				return err
			}
		}
	}
}

func (k *Keeper) askSuspects(ctx context.Context) {
	for _, page := range k.book.pages(k.book.suspect) {
		if e, ok, err := k.Journal.Get(page); err == nil && ok && ctx.Err() == nil {
			k.do(ctx, job{page: page, want: e.Item.Digest, length: e.Item.Length})
		}
	}
}

// fewSamples is the number of sampled pages that must all be served for the refusals
// to count as few.
const fewSamples = 100

// isStillMass fetches a sample of the pages that were public, and reports whether
// many are refused. known is false if the web server does not respond.
func (k *Keeper) isStillMass(ctx context.Context, was bool) (mass, known bool) {
	list, n := k.book.sampled()
	if n <= massMore {
		return false, true
	}
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
		r := k.book.record(page)
		if r.State != statePublic && r.State != stateUnknown {
			bad++
		}
		if !was && k.book.many(0) {
			return true, true
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
	return k.book.many(bad * max(0, n-asked) / asked), true
}
