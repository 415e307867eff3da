package census

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/graph"
)

// A web is the links between the pages of a census.
type web struct {
	graph.Graph          // pages by number, and their sites as hosts
	in, out     []uint32 // links of each page: from pages of the census, and to any page that the crawler knows
	damaged     int64    // pages whose links could not be read
}

const (
	redirects     = math.MaxUint32 // in place of the number of a page that redirects
	mostRedirects = 20             // how many in a row are followed; browsers follow as many
)

// readLinks reads the links.
func (t *taking) readLinks() error {
	w, number := &t.web, t.book.number
	pages := len(t.book.site)
	w.Host, w.Hosts = t.book.site, make([]string, len(t.sites.counts))
	w.First = make([]uint32, 1, pages+1)
	target := map[uint32]uint32{} // of pages that redirect, by ID
	var failed error
	err := t.col.Graph(func(from frontier.PageID, to []frontier.PageID, damaged error) bool {
		if failed = t.ctx.Err(); uint64(len(w.To)+len(to)) > math.MaxUint32 {
			failed = errors.New("more than 2^32-1 links")
		}
		switch {
		case failed != nil:
			return false
		case damaged != nil:
			w.damaged++
			return true
		case from >= frontier.PageID(len(number)) || number[from] == 0:
			return true
		case number[from] == redirects:
			if len(to) == 1 && to[0] < frontier.PageID(len(number)) {
				target[uint32(from)] = uint32(to[0])
			}
			return true
		}
		w.upTo(number[from] - 1)
		for _, id := range to {
			if id < frontier.PageID(len(number)) { // links have no checksums
				w.To = append(w.To, uint32(id))
			}
		}
		return true
	})
	w.upTo(uint32(pages))
	w.settle(number, target)
	return cmp.Or(err, failed)
}

// upTo ends the links of all pages before the given one.
func (w *web) upTo(page uint32) {
	for uint32(len(w.First)) <= page {
		w.First = append(w.First, uint32(len(w.To)))
	}
}

// settle turns the IDs to which pages link into the numbers of pages of the census, behind redirects, and counts.
func (w *web) settle(number []uint32, target map[uint32]uint32) {
	pages := w.Len()
	w.in, w.out = make([]uint32, pages), make([]uint32, pages)
	done, begin := uint32(0), uint32(0)
	own := make([]uint32, pages) // the ID of each page
	for id, n := range number {
		if n != 0 && n != redirects {
			own[n-1] = uint32(id)
		}
	}
	for page := range uint32(pages) {
		links := w.To[begin:w.First[page+1]]
		begin = w.First[page+1]
		for i, id := range links {
			for range mostRedirects {
				next, ok := target[id]
				if !ok {
					break
				}
				id = next
			}
			links[i] = id
		}
		slices.Sort(links)
		for _, id := range slices.Compact(links) {
			if id == own[page] {
				continue
			}
			w.out[page]++
			if n := number[id]; n != 0 && n != redirects {
				w.in[n-1]++
				w.To[done] = n - 1
				done++
			}
		}
		w.First[page+1] = done
	}
	w.To = slices.Clone(w.To[:done])
}

// readDepths finds out depths: those of pages that links within their site do not reach stay as the collection has them.
func (t *taking) readDepths() error {
	w, depth := &t.web, t.book.depth
	queue := t.book.homes
	for _, s := range t.sites.counts {
		if !s.hasHome {
			queue = append(queue, s.entry)
		}
	}
	seen := make([]bool, w.Len())
	for _, home := range queue {
		seen[home], depth[home] = true, 0
	}
	for k := 0; k < len(queue); k++ {
		page := queue[k]
		for _, to := range w.Links(page) {
			if !seen[to] && w.Host[to] == w.Host[page] {
				seen[to] = true
				depth[to] = uint8(min(int(depth[page])+1, math.MaxUint8))
				queue = append(queue, to)
			}
		}
	}
	t.book.countDepths(&t.sites)
	return nil
}

// tables are the tables of links between pages.
func (w *web) tables(b *book) []Table {
	degrees := table("degrees", "R16, Castillo 8.5.1", 2, "from", "to", "in", "out")
	in, out := histogram{}, histogram{}
	type bySize struct{ links, most int64 }
	of, sizes := map[int]bySize{}, histogram{}
	for page, length := range b.length {
		in.add(int64(w.in[page]))
		out.add(int64(w.out[page]))
		sizes.add(int64(length))
		x, n := of[classOf(int64(length))], int64(w.out[page])
		of[classOf(int64(length))] = bySize{x.links + n, max(x.most, n)}
	}
	degrees.classes(in, out)

	lengths := table("length_links", "R16, Castillo 8.5.1", 2, "from", "to", "pages", "mean", "most")
	lengths.classes(sizes)
	for i, class := range sorted(sizes) {
		x := of[class]
		lengths.Rows[i] = append(lengths.Rows[i], rounded(per(x.links, sizes[class])), x.most)
	}
	return []Table{degrees, lengths}
}
