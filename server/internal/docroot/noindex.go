package docroot

import (
	"strings"
	"sync"
	"sync/atomic"
)

// maxNoIndex bounds the remembered noindex pages, which take some 30 MB. Beyond it an arbitrary one is
// forgotten, and read again.
const maxNoIndex = 100_000

// noIndexed holds the pages that said noindex when they were last read.
type noIndexed struct {
	some   atomic.Bool // set once a page was remembered: until then says does not lock mu
	mu     sync.Mutex
	stamps map[string]string // by URL: the stamp at that reading
}

// remember notes that the page at url said noindex when it had this stamp.
func (n *noIndexed) remember(url string, stamp []byte) {
	if url == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stamps == nil {
		n.stamps = make(map[string]string)
	}
	if _, ok := n.stamps[url]; !ok && len(n.stamps) >= maxNoIndex {
		for other := range n.stamps {
			delete(n.stamps, other)
			break
		}
	}
	n.stamps[strings.Clone(url)] = string(stamp) // of a batch, whose URLs share their memory
	n.some.Store(true)
}

func (n *noIndexed) forget(url string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.stamps, url)
}

func (n *noIndexed) has(url string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.stamps[url]
	return ok
}

// says reports whether the page at url said noindex when it was last read, and has not changed since. A page
// that has changed stays remembered until it is read again, so that Public does not allow it meanwhile.
func (n *noIndexed) says(url string, stamp []byte) bool {
	if len(stamp) == 0 || !n.some.Load() {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stamps[url] == string(stamp)
}
