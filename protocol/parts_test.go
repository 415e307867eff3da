package protocol_test

import (
	"bytes"
	"testing"

	"github.com/parleyweb/parley/protocol"
)

// An index and its only part come back as they were written.
func TestSmallestIndex(t *testing.T) {
	const base = "https://www.example.com/"
	p := document{head: protocol.Manifest{URL: base + "robots.rdf", Base: base, Items: 1}, items: []protocol.Item{{URL: base, Length: -1}}}
	b := p.write(t)
	ix := document{head: protocol.Manifest{URL: base + "robots.rdf", Base: base, Items: 1}, items: p.items}
	ix.head.Whole = &protocol.Whole{Cursor: protocol.Cursor{Epoch: "e", Seq: 5}, Items: 1, Parts: []protocol.Part{{URL: base + "robots.rdf.parts/a&b.rdf", Seq: 5, Items: 1, Length: int64(len(b)), Digest: protocol.Sum(b)}}}
	out := ix.write(t)
	got, sk, err := read(bytes.NewReader(out), protocol.ManifestOptions{URL: base + "robots.rdf", Origin: base})
	if err != nil || len(sk) > 0 {
		t.Fatal(err, sk)
	}
	if d := ix.diff(got); d != "" {
		t.Fatal(d)
	}
	n := 0
	for rec, err := range got.head.Whole.Snapshot(func(*protocol.Part) ([]byte, error) { return b, nil }, protocol.ManifestOptions{}) {
		if n++; err != nil || rec.Item.URL != base {
			t.Error(rec, err)
		}
	}
	if n != 1 {
		t.Errorf("%d items", n)
	}
}
