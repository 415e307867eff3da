package inet_test

import (
	"strconv"
	"testing"

	"github.com/parleyweb/parley/internal/inet"
)

func TestForeignPort(t *testing.T) {
	n := 0
	for port := range 1 << 16 {
		if inet.ForeignPort(strconv.Itoa(port)) {
			n++
		}
	}
	if n != 83 { // of the Fetch standard, with 0
		t.Errorf("%d ports belong to other protocols, want 83", n)
	}
	for port, want := range map[string]bool{"80": false, "443": false, "8080": false, "25": true, "6667": true, "10080": true, "65536": true, "-1": true, "http": true} {
		if got := inet.ForeignPort(port); got != want {
			t.Errorf("%s: %v", port, got)
		}
	}
}
