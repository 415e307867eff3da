package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/parleyweb/parley/server/inventory"
)

// Scopes that are to be scanned later are scanned later also if they are too many to be remembered.
func TestManyUnsettledScopesWaitToo(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	soon, later, fullAt := now.Add(time.Second), now.Add(2*time.Second), now.Add(time.Hour)
	var many []inventory.Scope
	for i := range 4*inventory.MaxScopes + 1 {
		many = append(many, inventory.ScopeOf(fmt.Sprintf("https://a.example/%d/", i)))
	}
	take := func(a *agenda, now time.Time) (all bool, next time.Time) {
		t.Helper()
		scopes, all, _, next := a.take(now, fullAt, &Pace{})
		if len(scopes) > 0 {
			t.Errorf("at %v: %d scopes", now, len(scopes))
		}
		return all, next
	}
	var a agenda
	a.add(many, later)
	if all, next := take(&a, now); all || !next.Equal(later) {
		t.Errorf("all %v, next %v, want none before %v", all, next, later)
	}
	a.add(many[:1], soon)
	if all, next := take(&a, now); all || !next.Equal(soon) {
		t.Errorf("one of them is wanted sooner: all %v, next %v, want %v", all, next, soon)
	}
	if all, _ := take(&a, soon); !all {
		t.Error("nothing when it is due")
	}
	if all, next := take(&a, later); all || !next.Equal(fullAt) {
		t.Errorf("all %v a second time, next %v", all, next)
	}

	// Too many pages are replaced by their directories first.
	var pages []inventory.Scope
	for i := range 4*inventory.MaxScopes + 1 {
		pages = append(pages, inventory.Scope{Page: fmt.Sprintf("https://a.example/%d/%d", i%7, i)})
	}
	a = agenda{}
	a.add(pages[:5], later)
	a.add(pages[5:], soon)
	if scopes, all, _, _ := a.take(now, fullAt, &Pace{}); len(scopes) > 0 || all {
		t.Errorf("%d scopes, all %v, before they are due", len(scopes), all)
	}
	if scopes, all, _, _ := a.take(soon, fullAt, &Pace{}); len(scopes) != 7 || all {
		t.Errorf("%d scopes, all %v, want 7 directories", len(scopes), all)
	}

	a = agenda{}
	a.add(many[:5], soon)
	a.add(many[5:], later)
	if all, next := take(&a, now); all || !next.Equal(soon) {
		t.Errorf("those that were remembered are due sooner: all %v, next %v, want %v", all, next, soon)
	}
	a.dirty(nil)
	if all, _ := take(&a, now); !all {
		t.Error("all is not scanned now, though it was reported as dirty")
	}
}
