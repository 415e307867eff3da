package report

import "hash/maphash"

// Bounds of the memory for proofs that pages did not change. Dropping more only makes the lower bound
// lower.
const (
	witnesses    = 1 << 18 // clients that got a page
	openPerURL   = 32      // re-reads that are still undecided
	openTogether = 1 << 20
)

// A cachedFetch is a client that holds a page, and may revalidate it.
type cachedFetch struct {
	key  uint64 // of client and URL
	read int64  // when it fetched the page
}

// An open is a re-read that is undecided: the page may have changed since its crawler last knew its
// copy to be current.
type open struct {
	since   int64
	at      int64 // when the re-read was
	size    int64
	crawler int32
	same    bool // the size is the same
}

// unchangedProofs finds re-reads of pages that had certainly not changed. A client that fetched a page and later
// gets a 304 shows that it did not change in between: so no re-read in between was of a change. This assumes
// that a client is an address and user agent, or a crawler's name, and that it revalidates what it fetched
// last.
type unchangedProofs struct {
	seed  maphash.Seed
	seen  []cachedFetch
	open  map[int32][]open // by URL
	total int
}

func newProofs() *unchangedProofs {
	return &unchangedProofs{seed: maphash.MakeSeed(), seen: make([]cachedFetch, witnesses), open: map[int32][]open{}}
}

// key returns the key of a client, by its address and user agent, and of a URL.
func (t *unchangedProofs) key(addr, agent []byte, url int32) uint64 {
	h := maphash.Bytes(t.seed, agent)*3 + maphash.Bytes(t.seed, addr)
	h ^= uint64(url) * 0x9e3779b97f4a7c15
	return h ^ h>>29 | 1
}

// got remembers that a client fetched a page.
func (t *unchangedProofs) got(key uint64, at int64) {
	t.seen[key>>1%witnesses] = cachedFetch{key, at}
}

// holds returns when a client fetched a page, if that is known.
func (t *unchangedProofs) holds(key uint64) (at int64, ok bool) {
	w := t.seen[key>>1%witnesses]
	return w.read, w.key == key
}

// reread remembers a re-read.
func (t *unchangedProofs) reread(url int32, o open) {
	list := t.open[url]
	switch {
	case len(list) >= openPerURL:
		copy(list, list[1:]) // the oldest is least likely to be decided
		list[len(list)-1] = o
		return
	case t.total >= openTogether:
		return
	}
	t.total++
	t.open[url] = append(list, o)
}

// unchanged records that a page did not change between two times, and calls found for each re-read that this
// decides. Within a second, anything may happen.
func (t *unchangedProofs) unchanged(url int32, since, until int64, found func(open)) {
	list, ok := t.open[url]
	if !ok {
		return
	}
	kept := list[:0]
	for _, o := range list {
		if o.since > since && o.at < until {
			found(o)
		} else {
			kept = append(kept, o)
		}
	}
	t.total -= len(list) - len(kept)
	if len(kept) == 0 {
		delete(t.open, url)
	} else {
		t.open[url] = kept
	}
}

// renumber follows pages.forget: the URLs have new numbers, or less than 0 if they were forgotten.
func (t *unchangedProofs) renumber(kept []int32) {
	clear(t.seen)
	was := t.open
	t.open, t.total = map[int32][]open{}, 0
	for url, list := range was {
		if now := kept[url]; now >= 0 {
			t.open[now] = list
			t.total += len(list)
		}
	}
}
