package indexnow

// This file exports internals to the tests.

// Counts returns the numbers of what the receiver has counted.
func (r *Receiver) Counts() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}
