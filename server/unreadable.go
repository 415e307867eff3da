package server

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/parleyweb/parley/server/internal/compare"
	"github.com/parleyweb/parley/server/inventory"
)

// maxNamed bounds Report.Unreadable.
const maxNamed = 10

// unreadable logs what a scan of scopes could not read and earlier scans could, or for another cause, and what can be read
// again. It returns the causes of the first things that cannot be read, by their places.
func (t *turn) unreadable(log *slog.Logger, scopes []inventory.Scope, found *compare.Found) map[string]string {
	var first map[string]string
	var newly, again []string
	now := make(map[string]*inventory.UnseenError, len(found.Unreadable))
	for _, u := range found.Unreadable {
		now[u.Place] = u
		if first == nil {
			first = make(map[string]string)
		}
		if len(first) < maxNamed {
			first[u.Place] = cause(u)
		}
		if was := t.unread[u.Place]; was == nil || cause(was) != cause(u) {
			newly = append(newly, u.Place+": "+cause(u))
		}
	}
	for place, u := range t.unread {
		switch {
		case now[place] != nil:
		case !isWithin(cmp.Or(u.Page, u.Prefix), scopes):
			now[place] = u
		case len(found.Unreadable) == found.Report.Unread && !isBelow(place, found.Unreadable):
			again = append(again, place)
		}
	}
	t.unread = now
	if len(newly) > 0 {
		log.Warn("some files or directories cannot be read: what is published of them stays", "count", len(newly), "first", few(newly))
	}
	if len(again) > 0 {
		slices.Sort(again)
		log.Info("readable again, or gone", "count", len(again), "first", few(again))
	}
	return first
}

// cause returns the innermost cause of an error, such as "permission denied".
func cause(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}

// few returns the first of a list, for a line of the log.
func few(list []string) string { return strings.Join(list[:min(3, len(list))], ", ") }

// isWithin reports whether a URL is within one of the scopes; no scopes means everything.
func isWithin(url string, scopes []inventory.Scope) bool {
	return len(scopes) == 0 || slices.ContainsFunc(scopes, func(s inventory.Scope) bool { return s.Has(url) })
}

// isBelow reports whether a place is below one of the directories that cannot be read.
func isBelow(place string, unreadable []*inventory.UnseenError) bool {
	return slices.ContainsFunc(unreadable, func(u *inventory.UnseenError) bool {
		return strings.HasSuffix(u.Place, "/") && strings.HasPrefix(place, u.Place)
	})
}
