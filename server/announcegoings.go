package server

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

// Goings are kept in notes: what went cannot be told otherwise from what was
// never there, by an announcement that comes late or again. The journal's own
// tombstones do not tell when a page went by the clock of its site, nor that
// one went before it was ever announced.
const (
	goingNotes = "announce/gone/" // and the URL

	// maxGoings bounds how many are kept, which takes some 20 MB of the state.
	maxGoings = 100_000
)

// goings is what a Publisher knows of the notes.
type goings struct {
	counted bool
	most    int // how many there are, or fewer
}

// A going is a page's, as it is noted.
type going struct {
	at    time.Time // when it went, as was said
	taken time.Time // when that was said first
}

func (g going) note() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(g.at.UnixMilli()))
	return binary.BigEndian.AppendUint64(b, uint64(g.taken.UnixMilli()))
}

func parseGoing(b []byte) (g going, ok bool) {
	if len(b) != 16 {
		return g, false
	}
	ms := func(b []byte) time.Time { return time.UnixMilli(int64(binary.BigEndian.Uint64(b))) }
	return going{at: ms(b), taken: ms(b[8:])}, true
}

// wentAt returns when a page went, as was announced; zero if that is not known.
func wentAt(j *Journal, url string) (time.Time, error) {
	b, err := j.Note(goingNotes + url)
	g, _ := parseGoing(b)
	return g.at, err
}

// remember notes goings, by URL. It makes room for them before it does.
func (k *goings) remember(j *Journal, went map[string]time.Time, now time.Time) error {
	if len(went) == 0 {
		return nil
	}
	notes := make(map[string][]byte, len(went))
	if !k.counted || k.most+len(went) > maxGoings {
		if err := k.makeRoom(j, notes); err != nil {
			return err
		}
	}
	for url, at := range went {
		notes[goingNotes+url] = going{at: at, taken: now}.note()
	}
	if err := j.SetNotes(notes); err != nil {
		k.counted = false
		return err
	}
	k.most += len(went) // or fewer: some were noted before
	return nil
}

// makeRoom counts the goings, and adds to notes that those are forgotten which
// were said longest ago, if there are many.
func (k *goings) makeRoom(j *Journal, notes map[string][]byte) error {
	type aged struct {
		key   string
		taken time.Time
	}
	var all []aged
	err := j.EachNote(goingNotes, func(key string, b []byte) error {
		g, _ := parseGoing(b)
		all = append(all, aged{key, g.taken})
		return nil
	})
	if err != nil {
		return err
	}
	const room = maxGoings / 10 // so that this is done seldom
	if over := len(all) - (maxGoings - room); over > 0 {
		slices.SortFunc(all, func(a, b aged) int { return cmp.Or(a.taken.Compare(b.taken), cmp.Compare(a.key, b.key)) })
		for _, a := range all[:over] {
			notes[a.key] = nil
		}
		all = all[over:]
	}
	k.counted, k.most = true, len(all)
	return nil
}
