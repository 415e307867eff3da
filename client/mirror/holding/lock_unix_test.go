//go:build unix && !aix && !solaris

package holding_test

import (
	"errors"
	"testing"

	"github.com/parleyweb/parley/client/mirror/holding"
)

// Two states do not fill one directory at the same time.
func TestDirectoryIsHeld(t *testing.T) {
	r := newRig(t)
	if _, err := holding.Open(r.state()+"2", r.copy(), base, nil); !errors.Is(err, holding.ErrHeld) {
		t.Errorf("second state: %v", err)
	}
	r.apply(whole(1, create("a", "A")))
	r.pay(site("a", "A"), 1)
	r.reopen()
	r.wantFiles(map[string]string{"a": "A"})
}
