package collection_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/must"
)

// A collection that is opened without a policy uses the one that decided last, with its price.
func TestPolicyIsStored(t *testing.T) {
	dir := t.TempDir()
	reopen := func(o collection.Options) *collection.Collection {
		return must.Get(collection.Open(dir, &o))
	}
	priced := fresh.Priced{Objective: fresh.Objective{Fresh: 1}, Costs: fresh.Bytes(), Price: .0123, Longest: time.Hour, Eager: true}
	c := reopen(collection.Options{})
	if p, _, _ := c.Revisits().Kept(); p != nil || c.Revisits().Policy() != (fresh.Thesis{}) {
		t.Errorf("a new collection has policy %+v, stored %+v", c.Revisits().Policy(), p)
	}
	c.Revisits().SetPolicy(priced)
	bucket := fresh.Bucket{Rate: 1, Burst: 3, Savings: 50, Balance: 20}
	must.OK(t, c.Revisits().Keep(bucket))
	c.Close()
	c = reopen(collection.Options{ReadOnly: true})
	if p, left, at := c.Revisits().Kept(); p != fresh.Policy(priced) || left != bucket || c.Revisits().Policy() != p || time.Since(at) > time.Hour {
		t.Errorf("stored %+v and %+v at %v, uses %+v", p, left, at, c.Revisits().Policy())
	}
	c.Close()
	thesis := fresh.Thesis{Gamma: 2}
	c = reopen(collection.Options{Policy: thesis})
	if c.Revisits().Policy() != fresh.Policy(thesis) {
		t.Errorf("goes by %+v", c.Revisits().Policy())
	}
	must.OK(t, c.Revisits().Keep(fresh.Bucket{}))
	c.Revisits().SetPolicy(daily{}) // a kind that is not stored
	must.OK(t, c.Revisits().Keep(fresh.Bucket{}))
	c.Close()
	c = reopen(collection.Options{})
	defer c.Close()
	if c.Revisits().Policy() != fresh.Policy(thesis) {
		t.Errorf("goes by %+v", c.Revisits().Policy())
	}
}

// A plan reads pages without their texts: a policy thinks the same of them, and they are as due as before.
func TestPagesOfAPlan(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b", "/c")
	v := r.answer("/a", 200, "one")
	v.Title, v.ETag, v.Language, v.Modified, v.Expires = "A title", `"etag"`, "en", r.now.Add(-time.Hour), r.now.Add(time.Hour)
	gone := r.answer("/b", 0, "")
	gone.Fault = "connection refused"
	r.commit(collection.Commit{Visits: []collection.Visit{v, gone}})
	r.reopen()
	var all []collection.Page
	for p, err := range r.c.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	n, texts := 0, 0
	for p, err := range r.c.Revisits().Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		want := &all[n]
		site, _ := r.c.SiteByID(p.Site)
		if got := r.c.Revisits(); got.Believed(p, &site) != got.Believed(want, &site) || got.Aging(p) != got.Aging(want) || p.URL != want.URL || p.State != want.State || !p.At.Equal(want.At) {
			t.Errorf("%+v, but in a plan %+v", *want, *p)
		}
		if want.Title+want.Fault != "" {
			texts++
		}
		if p.Title+p.Type+p.ETag+p.Language+p.Fault != "" {
			t.Errorf("%s: texts in a plan: %+v", p.URL, *p)
		}
		n++
	}
	if n != 3 || texts != 2 || len(all) != 3 {
		t.Errorf("%d pages, %d of them in a plan; %d have texts", len(all), n, texts)
	}
}
