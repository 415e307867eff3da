package sitetest

import (
	"context"
	"iter"
	"testing"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// Look returns everything that a scan yields, and checks the order, that URLs are canonical, and that offers are public.
func Look(t testing.TB, site interface {
	Scan(context.Context, []inventory.Scope) iter.Seq2[inventory.Offer, error]
	Public(string) bool
}, scopes ...inventory.Scope) (list []inventory.Offer) {
	t.Helper()
	last := ""
	for o, err := range site.Scan(t.Context(), scopes) {
		if err != nil {
			t.Fatalf("scan: %v", err)
		}
		if o.URL != "" {
			if last != "" && protocol.Compare(last, o.URL) >= 0 {
				t.Fatalf("scan: %q after %q", o.URL, last)
			}
			if c, err := protocol.CanonicalURL("", o.URL); err != nil || c != o.URL {
				t.Fatalf("scan: %q is not canonical: %q, %v", o.URL, c, err)
			}
			last = o.URL
		}
		if o.LeftOut == "" && !site.Public(o.URL) {
			t.Errorf("scan: %q is offered, but not public", o.URL)
		}
		list = append(list, o)
	}
	return list
}

// Offered returns the offer of a URL in a list; a missing one fails the test.
func Offered(t testing.TB, list []inventory.Offer, url string) inventory.Offer {
	t.Helper()
	for _, o := range list {
		if o.URL == url {
			return o
		}
	}
	t.Fatalf("%s is not offered", url)
	return inventory.Offer{}
}

// LeftOut returns why offers are left out, by place.
func LeftOut(list []inventory.Offer) map[string]string {
	m := make(map[string]string)
	for _, o := range list {
		if o.LeftOut != "" {
			m[o.Place] = o.LeftOut
		}
	}
	return m
}
