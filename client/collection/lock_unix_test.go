//go:build unix && !aix && !solaris

package collection_test

import (
	"errors"
	"testing"

	"github.com/parleyweb/parley/client/collection"
)

// Two states do not fill one directory at the same time.
func TestDirectoryIsHeld(t *testing.T) {
	r := newRig(t)
	if _, err := collection.Open(r.state()+"2", r.copy(), base, nil); !errors.Is(err, collection.ErrHeld) {
		t.Errorf("second state: %v", err)
	}
	r.apply(whole(1, create("a", "A")))
	r.pay(site("a", "A"), 1)
	r.reopen()
	r.wantFiles(map[string]string{"a": "A"})
}
