package indexnow

// What tests name beside what everybody does.

// counts returns the counts.
func (r *Receiver) Counts() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}
