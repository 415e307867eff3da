package harvest

import "time"

func (h *Harvester) waits() bool { return h.Wait >= 0 }

// least returns the gap by Wait and WaitBig.
func (h *Harvester) least(pages int) time.Duration {
	if !h.waits() {
		return 0
	}
	w := positive(h.Wait, DefaultWait)
	if pages > BigSite {
		w = min(w, positive(h.WaitBig, DefaultWaitBig))
	}
	return w
}

// gap returns the time to wait after a request to a site.
func (h *Harvester) gap(s *site, a *Answer) time.Duration {
	return max(h.ours(s, a), min(s.delay, maxDelay))
}

// ours returns the gap that applies to the site's whole host, without the site's own Crawl-delay.
func (h *Harvester) ours(s *site, a *Answer) time.Duration {
	if s.welcome != nil { // it states how often requests may arrive
		return max(s.welcome.pause()-(a.Took-a.connect), 0)
	}
	w := h.least(s.pages)
	if h.Slow >= 0 && h.waits() {
		w = max(w, min(a.Took*time.Duration(positive(h.Slow, defaultSlow)), maxSlow))
	}
	return w
}
