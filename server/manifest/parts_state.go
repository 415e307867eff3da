package manifest

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// The notes of a manifest in parts. They are stored before the index is renamed, and name all files that an index in
// place can name.
const (
	wholeKey  = "output/manifest/whole"
	pagePlace = "output/manifest/page/" // + depth and URL of the first item of a page part -> protocol.Part
	oldPlace  = "output/manifest/old/"  // + file -> oldPart
)

// A wholeNote is what is noted of the parts together.
type wholeNote struct {
	Config  string          // hash of what a part depends on besides its entries
	Cursor  protocol.Cursor // of the index
	Items   int             // of the site
	Newest  []string        // URLs of the index's own items
	Changed []protocol.Part // change parts, oldest first; here and in the other notes without URL
	Quiet   string          // value of journal.QuietNote at Full
	Full    time.Time       // when everything was compared last
	Unsure  bool            // rules withheld items that the journal has
}

// A pagePart is a page part with the URL of its first item.
type pagePart struct {
	First string
	protocol.Part
}

// An oldPart is a file that is not named any more.
type oldPart struct {
	Until  time.Time // when it is removed; zero: as soon as the index in place does not name it
	Length int64
}

// partsState is all notes of a manifest in parts. The zero partsState says that there is none.
type partsState struct {
	wholeNote
	pages []pagePart
	old   map[string]oldPart // by file

	named map[string]bool // the files of the parts, once names was called
	swept []string        // files with a note in old that are removed
}

func pageKey(first string) string {
	return fmt.Sprintf("%s%05d %s", pagePlace, protocol.Depth(first), first)
}

// readParts returns the state in the journal's notes. If it cannot be used it has only files to remove.
func (s *Snapshot) readParts(j *journal.Journal) *partsState {
	st := &partsState{old: make(map[string]oldPart)}
	b, err := j.Note(wholeKey)
	usable := err == nil && (b == nil || json.Unmarshal(b, &st.wholeNote) == nil)
	err = j.EachNote(pagePlace, func(key string, value []byte) error {
		_, first, _ := strings.Cut(strings.TrimPrefix(key, pagePlace), " ")
		x := pagePart{First: first}
		usable = json.Unmarshal(value, &x.Part) == nil && usable
		st.pages = append(st.pages, x)
		return nil
	})
	usable = usable && err == nil
	err = j.EachNote(oldPlace, func(key string, value []byte) error {
		var o oldPart
		usable = json.Unmarshal(value, &o) == nil && usable
		st.old[strings.TrimPrefix(key, oldPlace)] = o
		return nil
	})
	if err != nil || !usable {
		st.wholeNote = wholeNote{}
	}
	for i := range st.pages {
		st.pages[i].URL = s.partURL(st.pages[i].Digest)
	}
	for i := range st.Changed {
		st.Changed[i].URL = s.partURL(st.Changed[i].Digest)
	}
	return st
}

// store notes the state in place of another one.
func (st *partsState) store(j *journal.Journal, was *partsState) error {
	notes := make(map[string][]byte)
	note := func(key string, value any) error {
		b, err := json.Marshal(value)
		notes[key] = b
		return err
	}
	for _, name := range was.swept {
		notes[oldPlace+name] = nil
	}
	for name := range was.old {
		notes[oldPlace+name] = nil
	}
	for name, o := range st.old {
		if key := oldPlace + name; was.old[name] == o {
			delete(notes, key)
		} else if err := note(key, o); err != nil {
			return err
		}
	}
	before := make(map[string]protocol.Part, len(was.pages))
	for _, x := range was.pages {
		before[x.First], notes[pageKey(x.First)] = x.Part, nil
	}
	for _, x := range st.pages {
		if key := pageKey(x.First); before[x.First] == x.Part {
			delete(notes, key)
		} else if err := note(key, x.Part); err != nil {
			return err
		}
	}
	if err := note(wholeKey, st.wholeNote); err != nil {
		return err
	}
	if st.isNone() {
		notes[wholeKey] = nil
	}
	return j.SetNotes(notes)
}

// names reports whether a file of the directory is a part, or was one and is not removed yet.
func (st *partsState) names(name string) bool {
	if st.named == nil {
		st.named = make(map[string]bool)
		for p := range st.parts() {
			st.named[fileName(p.Digest)] = true
		}
	}
	_, old := st.old[name]
	return old || st.named[name]
}

// isNone reports whether the state says that there is no manifest in parts.
func (st *partsState) isNone() bool { return st.Config == "" && len(st.pages) == 0 }

// whole returns what the index says of the site.
func (st *partsState) whole() *protocol.Whole {
	w := &protocol.Whole{Cursor: st.Cursor, Items: st.Items, Changed: st.Changed}
	for i := range st.pages {
		w.Parts = append(w.Parts, st.pages[i].Part)
	}
	return w
}

// pageOf returns the index of the page part that speaks of a URL, -1 if there is none.
func (st *partsState) pageOf(url string) int {
	i := sort.Search(len(st.pages), func(i int) bool { return protocol.Compare(st.pages[i].First, url) > 0 })
	return min(max(i-1, 0), len(st.pages)-1)
}

// length returns the bytes of all parts.
func (st *partsState) length() (n int64) {
	for p := range st.parts() {
		n += p.Length
	}
	return n
}

// parts yields all parts.
func (st *partsState) parts() iter.Seq[*protocol.Part] {
	return func(yield func(*protocol.Part) bool) {
		for i := range st.pages {
			if !yield(&st.pages[i].Part) {
				return
			}
		}
		for i := range st.Changed {
			if !yield(&st.Changed[i]) {
				return
			}
		}
	}
}

// oldest returns the files to remove now: those whose time has come, and the oldest beyond a quarter of the whole.
func (st *partsState) oldest(now time.Time) (files []string) {
	files = slices.SortedFunc(maps.Keys(st.old), func(a, b string) int { return st.old[a].Until.Compare(st.old[b].Until) })
	left, most := int64(0), st.length()/4
	for _, o := range st.old {
		left += o.Length
	}
	for i, name := range files {
		if o := st.old[name]; o.Until.After(now) && left <= most {
			return files[:i]
		}
		left -= st.old[name].Length
	}
	return files
}
