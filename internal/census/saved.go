package census

import (
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/protocol"
)

// saved is what the cooperation of sites has saved, as far as what is stored proves it.
type saved struct {
	visits    int64 // that brought or confirmed the content of pages that the crawler has
	confirmed int64 // pages whose site has said since the last visit that they are unchanged
}

func (x *saved) add(p *collection.Page) {
	if p.State == collection.Held || p.State == collection.Failing {
		x.visits += int64(p.Visits)
		if p.Heard.Confirmed.After(p.Last) {
			x.confirmed++
		}
	}
}

// savedTable is the table of what was saved. Every visit with a request of its own counts as a request of its site, and so do requests that
// brought no content: so at least so many visits needed none as there are more visits than requests. A page's site has confirmed it at
// least once if it has since the last visit. How pages came is known of those in the sample, by the header of the stored record; of
// these only copies of equal pages have saved bytes, too: others were sent, if not in answer to a request.
func (t *taking) savedTable(requests int64) Table {
	s := table("saved", "C40, C41, Castillo 6.4", 1, "way", "requests", "bytes", "of")
	s.row("visits without a request of their own", max(t.saved.visits-requests, 0), 0, t.saved.visits)
	s.row("pages that their sites have confirmed since the last visit", t.saved.confirmed, 0, t.book.count.total.pages)
	var sample int64
	for _, n := range t.sample.forms {
		sample += n
	}
	for _, way := range []struct {
		form protocol.Form
		name string
	}{{protocol.AsPage, "sampled pages that came with their change"}, {protocol.AsDelta, "sampled pages that came as a difference, with their change"},
		{protocol.AsBatch, "sampled pages that came in a batch"}, {protocol.AsSite, "sampled pages that came in an archive"}} {
		s.row(way.name, t.sample.forms[string(way.form)], 0, sample)
	}
	s.row("sampled pages that are copies of equal pages", t.sample.forms[string(protocol.AsMeta)], t.sample.copied, sample)
	return s
}
