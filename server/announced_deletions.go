package server

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

// Announced deletions are stored as the journal's notes: otherwise a late or repeated
// announcement of a deleted page would look like a new page. The journal's tombstones
// do not have the time of the deletion by the site's clock, nor the deletion of a
// page that was never announced before.
const (
	deletionNotes = "announce/gone/" // followed by the URL

	// maxDeletions bounds how many are stored; that many take some 20 MB of the state.
	maxDeletions = 100_000
)

// deletions is what a Publisher knows about these notes.
type deletions struct {
	counted bool
	most    int // an upper bound of their number
}

// A deletion is the stored deletion of one page.
type deletion struct {
	at    time.Time // when the page was deleted, as announced
	taken time.Time // when the announcement was accepted
}

func (g deletion) note() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(g.at.UnixMilli()))
	return binary.BigEndian.AppendUint64(b, uint64(g.taken.UnixMilli()))
}

func parseGoing(b []byte) deletion {
	if len(b) != 16 {
		return deletion{}
	}
	ms := func(b []byte) time.Time { return time.UnixMilli(int64(binary.BigEndian.Uint64(b))) }
	return deletion{at: ms(b), taken: ms(b[8:])}
}

// deletedAt returns when a page was deleted, as announced; zero if that is not known.
func deletedAt(j *Journal, url string) (time.Time, error) {
	b, err := j.Note(deletionNotes + url)
	return parseGoing(b).at, err
}

// remember stores deletions, by URL. It makes room for them first.
func (k *deletions) remember(j *Journal, went map[string]time.Time, now time.Time) error {
	if len(went) == 0 {
		return nil
	}
	notes := make(map[string][]byte, len(went))
	if !k.counted || k.most+len(went) > maxDeletions {
		if err := k.makeRoom(j, notes); err != nil {
			return err
		}
	}
	for url, at := range went {
		notes[deletionNotes+url] = deletion{at: at, taken: now}.note()
	}
	if err := j.SetNotes(notes); err != nil {
		k.counted = false
		return err
	}
	k.most += len(went) // or fewer: some may replace older notes
	return nil
}

// makeRoom counts the stored deletions and, if there are too many, adds to notes the
// removal of those that were announced longest ago.
func (k *deletions) makeRoom(j *Journal, notes map[string][]byte) error {
	type aged struct {
		key   string
		taken time.Time
	}
	var all []aged
	err := j.EachNote(deletionNotes, func(key string, b []byte) error {
		all = append(all, aged{key, parseGoing(b).taken})
		return nil
	})
	if err != nil {
		return err
	}
	const room = maxDeletions / 10 // so that this is seldom needed
	if over := len(all) - (maxDeletions - room); over > 0 {
		slices.SortFunc(all, func(a, b aged) int { return cmp.Or(a.taken.Compare(b.taken), cmp.Compare(a.key, b.key)) })
		for _, a := range all[:over] {
			notes[a.key] = nil
		}
		all = all[over:]
	}
	k.counted, k.most = true, len(all)
	return nil
}
