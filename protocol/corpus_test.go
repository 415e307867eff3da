package protocol_test

import (
	"bytes"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/protocol"
)

// Feeds from the wild and from test suites: any that is read can be written and read back the same, and
// nothing panics.
func TestRecordedFeeds(t *testing.T) {
	for name, least := range map[string]int{"feeds-gofeed": 40, "feeds-w3c-feedvalidator": 40, "rdfxml-w3c-rdf11": 40} {
		t.Run(name, func(t *testing.T) {
			files, read, entries := 0, 0, 0
			for _, b := range machine.Recorded(t, name) {
				files++
				if n, ok := roundTrip(t, b, protocol.ManifestOptions{URL: "https://www.example.com/d/robots.rdf", Extensions: true}); ok {
					read, entries = read+1, entries+n
				}
			}
			t.Logf("%d files, %d read as manifests, %d entries", files, read, entries)
			if read < least {
				t.Errorf("%d of %d files read as manifests", read, files)
			}
		})
	}
}

// roundTrip reads a document and, if it is a manifest, checks that its entries, once sorted, can be written
// and read back the same. It returns the number of entries.
func roundTrip(t *testing.T, b []byte, o protocol.ManifestOptions) (n int, ok bool) {
	t.Helper()
	d, _, err := read(bytes.NewReader(b), o)
	if err != nil {
		return 0, false
	}
	d.order()
	wrote := d.write(t)
	got, skipped, err := read(bytes.NewReader(wrote), protocol.ManifestOptions{})
	if err != nil || len(skipped) > 0 {
		t.Fatalf("%v, %v\n%s", err, skipped, wrote)
	}
	if diff := d.diff(got); diff != "" {
		t.Fatalf("%s\n%s", diff, wrote)
	}
	return len(d.items) + len(d.gone), true
}
