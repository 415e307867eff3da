package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// baseOf returns the base URL of the pages in a journal: Base, if there are none. It checks the URL of one entry: all
// entries of a journal belong to one site.
func baseOf(j *Journal, o *JournalOptions) (string, error) {
	v, err := j.View()
	if err != nil {
		return "", err
	}
	defer v.Close()
	for e, err := range v.Entries() {
		if err != nil {
			return "", err
		}
		for _, base := range append([]string{o.Base}, o.Former...) {
			if strings.HasPrefix(e.Item.URL, base) {
				return base, nil
			}
		}
		return "", fmt.Errorf("%w: it contains %w", errOtherSite, notBelow(e.Item.URL, o.Base))
	}
	return o.Base, nil
}

// notBelow returns the error of a page that is not below the site's base.
func notBelow(url, base string) error {
	err := fmt.Errorf("%s, which is not below %s", url, base)
	if former := protocol.Origin(url) + base[len(protocol.Origin(base)):]; strings.HasPrefix(url, former) {
		err = fmt.Errorf("%w; if the site has moved from there, add --moved-from %s", err, former)
	}
	return err
}

// move moves a journal of a former base to Base.
func move(ctx context.Context, j *Journal, o *JournalOptions) error {
	base, err := baseOf(j, o)
	if err != nil {
		return err
	}
	if base != o.Base {
		if err := j.Move(ctx, base, o.Base); err != nil {
			return err
		}
		o.log().Info("the site has moved: a new epoch begins", "from", base, "to", o.Base, "pages", j.Len())
	}
	for _, former := range o.Former { // again if a process was killed meanwhile
		if err := moveDeletions(j, former, o.Base); err != nil {
			return err
		}
	}
	return nil
}

// moveDeletions renames the notes of announced deletions, which contain URLs.
func moveDeletions(j *Journal, from, to string) error {
	left := map[string][]byte{} // by URL, without the base
	err := j.EachNote(deletionNotes+from, func(key string, b []byte) error {
		left[strings.TrimPrefix(key, deletionNotes+from)] = b
		return nil
	})
	for some := range slices.Chunk(slices.Sorted(maps.Keys(left)), protocol.MaxBatch) {
		if err != nil {
			return err
		}
		notes := make(map[string][]byte, 2*len(some))
		for _, rest := range some {
			notes[deletionNotes+from+rest], notes[deletionNotes+to+rest] = nil, left[rest]
		}
		err = j.SetNotes(notes)
	}
	return err
}

// openFormer opens the manifest that is published at a former base, where Base has none yet.
func openFormer(ctx context.Context, o JournalOptions) (*publishedFile, error) {
	name, ok := strings.CutPrefix(o.Published, o.Base)
	for _, former := range o.Former {
		o.Published = former + name
		if !ok {
			break
		}
		if f, err := openPublished(ctx, o); err == nil {
			return f, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", o.Published, err)
		}
	}
	return nil, fs.ErrNotExist
}
