package collection

import (
	"strings"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A site of a crawl can move to another origin, as that of a copy can, see copy_move.go. Here the new address is a site of its own, since
// it may be known already: what is stored moves page by page, as the new manifest names the pages.

// former returns the page at the former address of the site that has the content of an item which w lacks, or nil. Content that is
// withheld stays where it is: it was fetched with cookies or a certificate for the former address.
func (s *applying) former(w *work, item *protocol.Item) (*work, error) {
	if s.o.Former == "" || item.Digest.IsZero() || w.has() && w.Digest == item.Digest {
		return nil, nil
	}
	was := protocol.Origin(s.o.Former) + "/" + strings.TrimPrefix(w.URL, s.prefix)
	if !strings.HasPrefix(was, s.o.Former) {
		return nil, nil
	}
	from, err := s.u.pages.lookFor(was)
	if err != nil || from == nil || !from.has() || from.Digest != item.Digest || s.u.sites.at(from.Site).Withheld {
		return nil, err
	}
	return from, nil
}

// relinked returns the links of a page that moves with its site: those to pages at the former address lead to the same paths here, as
// they do by redirect.
func (s *applying) relinked(links []frontier.PageID) ([]frontier.PageID, error) {
	u, list := s.u, s.u.links.List(len(links))
	for _, id := range links {
		w, err := u.pages.get(id)
		if err != nil {
			return nil, err
		}
		if w != nil && strings.HasPrefix(w.URL, s.o.Former) {
			f := Find{URL: s.prefix + strings.TrimPrefix(w.URL, protocol.Origin(w.URL)+"/")}
			if s.o.Admit != nil {
				f = s.o.Admit(f.URL)
			}
			if f.Depth, f.By = w.Depth, ByLink; s.own(f.URL) {
				if id, err = u.find(&f); err != nil {
					return nil, err
				}
			}
		}
		if id != 0 {
			list = append(list, id)
		}
	}
	return list, nil
}
