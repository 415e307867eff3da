package sim_test

import "testing"

// long skips a test in the short pass, which is for the race detector: a
// simulation is one goroutine, and takes ten times as long under it. Others run at the same time.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a long simulation")
	}
	t.Parallel()
}
