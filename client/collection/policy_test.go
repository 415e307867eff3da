package collection_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A collection that is opened without a policy uses the one that decided last, with its price.
func TestPolicyIsStored(t *testing.T) {
	dir := t.TempDir()
	reopen := func(o collection.Options) *collection.Collection {
		c, err := collection.Open(dir, &o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	priced := fresh.Priced{Objective: fresh.Objective{Fresh: 1}, Costs: fresh.Bytes(), Price: .0123, Longest: time.Hour, Eager: true}
	c := reopen(collection.Options{})
	if p, _ := c.Revisits().Kept(); p != nil || c.Revisits().Policy() != (fresh.Thesis{}) {
		t.Errorf("a new collection has policy %+v, stored %+v", c.Revisits().Policy(), p)
	}
	c.Revisits().SetPolicy(priced)
	if err := c.Revisits().Keep(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c = reopen(collection.Options{ReadOnly: true})
	if p, at := c.Revisits().Kept(); p != fresh.Policy(priced) || c.Revisits().Policy() != p || time.Since(at) > time.Hour {
		t.Errorf("stored %+v at %v, uses %+v", p, at, c.Revisits().Policy())
	}
	c.Close()
	thesis := fresh.Thesis{Gamma: 2}
	c = reopen(collection.Options{Policy: thesis})
	if c.Revisits().Policy() != fresh.Policy(thesis) {
		t.Errorf("goes by %+v", c.Revisits().Policy())
	}
	if err := c.Revisits().Keep(); err != nil {
		t.Fatal(err)
	}
	c.Revisits().SetPolicy(daily{}) // a kind that is not stored
	if err := c.Revisits().Keep(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c = reopen(collection.Options{})
	defer c.Close()
	if c.Revisits().Policy() != fresh.Policy(thesis) {
		t.Errorf("goes by %+v", c.Revisits().Policy())
	}
}
