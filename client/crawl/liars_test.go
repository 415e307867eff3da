package crawl_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A sort is how a site of the test announces changes.
type sort int

const (
	byDoor      sort = iota // honest, by its manifest and changes
	byNotice                // honest, by IndexNow
	byBoth                  // honest, by all of them at once
	unlucky                 // honest, by IndexNow, but one notice in ten is wrong
	byLastmod               // honest, by the dates of its sitemap
	fileLiar                // its manifest, with digests, and its sitemap claim that all is new
	doorLiar                // its change feed announces changes that did not happen
	noticeLiar              // the same by IndexNow
	turncoat                // the same, after one honest day
	pageFlood               // its manifest names 1,000 new pages at every fetch
	noticeFlood             // hundreds of notices at a time: unchanged pages, and some that never existed
	sorts
)

func (s sort) honest() bool { return s <= byLastmod }
func (s sort) lies() bool   { return s > byLastmod && s <= turncoat }

// sorted returns the n-th site's sort: of five sites three are honest, one lies and one floods.
func sorted(n int) sort {
	switch n % 5 {
	case 3:
		return fileLiar + sort(n/5%4)
	case 4:
		return pageFlood + sort(n/5%2)
	}
	return sort((n/5*3 + n%5) % 5)
}

const (
	liarEdits = 40 * time.Hour // in which pages change
	liarRest  = 42 * time.Hour // in which they do not, and all copies are to become right
	liarAge   = 36 * time.Hour // the longest between two visits of a page
)

// A Web in which one site in five lies and one in five floods. Honest sites are
// never muted or thinned out; liars are muted after the number of lies that
// package trust states; memory is bounded; and in the end all copies are correct,
// those of liars too.
func TestLiarsAndFloods(t *testing.T) {
	noRace(t)
	seed := uint64(fromEnv("PARLEY_SEED", 1))
	inBubble(t, fakeweb.Options{Seed: seed, Pages: 12}, func(t *testing.T, w *bubble) { liars(t, w, seed) })
}

func liars(t *testing.T, w *bubble, number uint64) {
	sort := map[*fakeweb.Site]sort{}
	for i := range fromEnv("PARLEY_SITES", 20) {
		kind, how := fakeweb.Honest, sorted(i)
		switch how {
		case fileLiar:
			kind = fakeweb.Lying
		case pageFlood:
			kind = fakeweb.Flooding
		}
		s := w.Add(kind)
		s.Speaks = how == byDoor || how == byBoth || how == doorLiar || how == fileLiar || how == pageFlood
		s.Sitemap = how == byLastmod || how == fileLiar || how == byNotice
		s.Robots = "User-agent: *\nDisallow: /cgi-bin/\n"
		if s.Sitemap {
			s.Robots += "Sitemap: " + s.Origin + "/sitemap.xml\n"
		}
		sort[s] = how
	}
	c, col := w.open(t, 5*time.Second, crawl.Settings{Strategy: frontier.ManifestFirst{}, Policy: fresh.Thesis{MaxPeriod: liarAge},
		Seeder: &seed.Seeder{Rules: seed.Rules{MaxPerSite: wildPerSite}}, SitemapEvery: 6 * time.Hour, ManifestEvery: time.Hour})
	peak := uint64(0)
	runFor(t, c, liarEdits+liarRest, func(ctx context.Context) {
		var beside sync.WaitGroup
		for i, s := range w.Sites() {
			beside.Go(func() { live(ctx, t, c, s, sort[s], rand.New(rand.NewPCG(number, uint64(i)))) })
		}
		peak = peakMemory(ctx, func() {
			for _, s := range w.Sites() {
				believed(t, col, s, sort[s])
			}
		})
		beside.Wait()
	})

	for _, f := range w.Impolite(fakeweb.Manners{Gap: 5 * time.Second, Robots: true, Agent: "ParleyTest/1"}) {
		t.Error(f)
	}
	wrong := 0
	for _, s := range w.Sites() {
		for _, path := range s.Paths() {
			if strings.HasPrefix(path, "/flood/") {
				continue
			}
			p := pageOf(t, col, s.Origin+path)
			if p.URL == "" && sort[s] == pageFlood {
				continue // the number of pages accepted from a site is limited
			}
			if !current(t, col, s, path) {
				if wrong++; wrong < 20 {
					t.Errorf("%s%s (%d) differs from its site: %v, visited at %v, next at %v", s.Origin, path, sort[s], p.State, p.Last, p.At)
				}
			}
		}
		st, _ := col.Site(s.Origin)
		if st.Pages > wildPerSite+protocol.MaxBatch {
			t.Errorf("%s has %d pages", s.Origin, st.Pages)
		}
		rec := must.Get(trust.Parse(st.Trust))
		mute := 0
		for i := range rec.Sources {
			if _, m := rec.Sources[i].Muted(); m {
				mute++
			}
		}
		if sort[s].lies() && mute == 0 {
			t.Errorf("%s (%d) is still believed: %v", s.Origin, sort[s], rec.Sources)
		}
		if testing.Verbose() {
			t.Logf("%s: sort %d, %d requests, %d pages: %v", s.Origin, sort[s], st.Requests, st.Pages, voices(&rec))
		}
	}
	if peak > wildMemory/2 {
		t.Errorf("%d MB of memory", peak>>20)
	}
	t.Logf("%d accesses, %d pages, %d MB: %+v", len(w.Log()), col.Len(), peak>>20, c.Status())
}

func voices(r *trust.Record) string {
	var list []string
	for i := range r.Sources {
		list = append(list, r.Sources[i].String())
	}
	return strings.Join(list, "; ")
}

// believed checks the trust record of a site at any time.
func believed(t *testing.T, col *collection.Collection, s *fakeweb.Site, how sort) {
	st, _ := col.Site(s.Origin)
	rec := must.Get(trust.Parse(st.Trust))
	for i := range rec.Sources {
		v := &rec.Sources[i]
		_, mute := v.Muted()
		if how.honest() && (mute || v.Rationed) {
			t.Errorf("%s (%d) is honest, but muted or thinned out: %v", s.Origin, how, v)
		}
		// 20 lies and 3 for each right notice; as many may have been under way, and
		// 4 samples come in each of the periods, that are no more than 10 in a week.
		if most := 20 + 3*v.Right + 20 + 4*10; v.Wrong > most {
			t.Errorf("%s (%d): more than %d lies were looked into: %v", s.Origin, how, most, v)
		}
		most := 20 + 3*v.Right
		if v.Right > 0 {
			most += 4 * 10 // it was mute, and a sample after so many that were wrong brought it back
		}
		if how == turncoat {
			most = 40 + 3 // one edit may have come late
		}
		if !mute && v.Wrong > most {
			t.Errorf("%s (%d) is not mute after %d lies: %v", s.Origin, how, most, v)
		}
	}
}

// live is the life of a site: its pages change, and it announces those changes, or
// false ones.
func live(ctx context.Context, t *testing.T, c *crawl.Engine, s *fakeweb.Site, how sort, r *rand.Rand) {
	began := time.Now()
	notice := func(paths ...string) {
		urls := make([]string, len(paths))
		for i, p := range paths {
			urls[i] = s.Origin + p
		}
		if err := c.Notice(ctx, urls, collection.ByIndexNow); err != nil && ctx.Err() == nil {
			t.Errorf("notice of %s: %v", s.Origin, err)
		}
	}
	paths := s.Paths()
	if how == pageFlood || how == noticeFlood {
		paths = paths[:min(len(paths), 12)]
	}
	one := func() string { return paths[r.IntN(len(paths))] }
	if !pause.For(ctx, 2*time.Hour) { // until the site is known
		return
	}
	for pause.For(ctx, time.Duration(20+r.IntN(40))*time.Minute) {
		turned := how == doorLiar || how == noticeLiar || how == turncoat && time.Since(began) > liarEdits*2/3
		path := one()
		if time.Since(began) < liarEdits && !turned && r.IntN(3) > 0 { // one an hour
			s.Edit(path)
			if how == byNotice || how == byBoth || how == unlucky || how == turncoat {
				notice(path)
			}
		}
		switch {
		case how == unlucky && r.IntN(14) == 0:
			notice(one())
		case how == doorLiar:
			for range 3 {
				s.Claim(one())
			}
		case how == noticeLiar, how == turncoat && turned:
			notice(one(), one(), one())
		case how == noticeFlood:
			var list []string
			for i := range 400 {
				list = append(list, one())
				if i%4 == 0 {
					list[i] = "/never/was/" + strconv.Itoa(r.IntN(1<<30)) + ".html"
				}
			}
			notice(list...)
		}
	}
}
