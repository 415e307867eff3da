package fakeweb

import (
	"time"

	"github.com/parleyweb/parley/protocol"
)

// Claim announces, in the polled changes, that a page has changed although it has not: the digest is one that
// it never had.
func (s *Site) Claim(path string) {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	p := s.pages[path]
	if p == nil {
		return
	}
	item := s.item(p)
	now := time.Now()
	item.Modified, item.Digest = now.UTC().Truncate(time.Second), protocol.Sum([]byte(path+now.String()))
	s.tell(protocol.Change{Op: protocol.Update, Item: item})
}
