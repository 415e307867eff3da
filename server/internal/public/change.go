package public

import "github.com/parleyweb/parley/protocol"

// Change returns a change as it may be published now, and false if it may not be.
// A deletion is always published: readers that know the page must learn of it.
func Change(c protocol.Change, isPublic func(string) bool) (protocol.Change, bool) {
	switch {
	case c.Op == protocol.Delete:
	case c.Op == protocol.Move && !isPublic(c.Item.URL):
		c.Op, c.Item, c.From, c.Significance = protocol.Delete, protocol.Item{URL: c.From, Length: -1}, "", 0
	case c.Op == protocol.Move && !isPublic(c.From):
		c.Op, c.From, c.Prev, c.Significance = protocol.Create, "", protocol.Digest{}, 0
	case c.Op != protocol.Move && !isPublic(c.Item.URL):
		return c, false
	}
	return c, true
}
