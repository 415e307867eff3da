package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A listing has the pages that the sources list. Its methods may be called by many goroutines at once.
type listing struct {
	base    string
	sources []Source
	most    int // URLs of all sources; zero means maxURLs
	now     func() time.Time

	turn chan struct{} // one token: its holder reads the sources

	mu       sync.Mutex        // guards what follows
	readings []*sourceSnapshot // by source; nil before it was first read
	readAt   time.Time         // when all of them were last read successfully
	watched  bool              // Watch read them last, and no scan has used them yet
}

// How old the sources may be for a scan of a part of the site, and for a scan that Watch requested.
const (
	sourcesAgain   = 10 * time.Second
	sourcesWatched = 2 * time.Second
)

// isFresh reports whether the sources were read a moment ago, so that a scan need not read them. whole says that it is a
// full scan.
func (l *listing) isFresh(whole bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	age, watched := l.now().Sub(l.readAt), l.watched
	l.watched = false
	return !l.readAt.IsZero() && (!whole && age < sourcesAgain || watched && age < sourcesWatched) && age >= 0
}

// setWatched says that Watch will request a scan of what it has read.
func (l *listing) setWatched() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = true
}

// present returns the last snapshots of the sources.
func (l *listing) present() []*sourceSnapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.readings)
}

// refresh reads all sources that have changed, and reports whether any has.
func (l *listing) refresh(ctx context.Context) (changed bool, err error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	most := cmp.Or(l.most, maxURLs)
	room := most
	for i, old := range l.present() {
		s := l.sources[i]
		r, err := l.read(ctx, s, old, room, most)
		if err != nil {
			return false, fmt.Errorf("%s: %w: pages missing from it are not treated as deleted", s, err)
		}
		if old == nil || r != old && r.arena != old.arena {
			changed = true
		}
		room -= len(r.keys)
		l.mu.Lock()
		l.readings[i] = r
		l.mu.Unlock()
	}
	l.mu.Lock()
	l.readAt = l.now()
	l.mu.Unlock()
	return changed, nil
}

func (l *listing) read(ctx context.Context, s Source, old *sourceSnapshot, room, most int) (*sourceSnapshot, error) {
	last := ""
	if old != nil && len(old.keys) <= room {
		last = old.version
	}
	b := builder{base: l.base, room: room, most: most}
	version, err := s.Read(ctx, last, b.add)
	switch {
	case errors.Is(err, errUnchanged) && last != "":
		return old, nil
	case err != nil:
		return nil, err
	}
	return b.end(version), nil
}
