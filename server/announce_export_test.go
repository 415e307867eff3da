package server

import "github.com/parleyweb/parley/server/internal/compare"

// AnnouncedPages returns how many announced pages a Publisher has counted, and how many its journal has.
// Nothing may scan or announce meanwhile.
func (p *Publisher) AnnouncedPages() (counted, are int, err error) {
	v, err := p.Journal.View()
	if err != nil {
		return 0, 0, err
	}
	defer v.Close()
	for e, err := range v.Entries() {
		if err != nil {
			return 0, 0, err
		}
		if compare.IsAnnounced(e) {
			are++
		}
	}
	return p.state.turn.announced, are, nil
}

// MaxGoings is how many announced deletions are remembered.
const MaxGoings = maxDeletions
