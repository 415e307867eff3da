package jetlog

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
)

// Archives of the whole site are objects in a bucket of their own, with their digests as names: those of the notifier that writes. It
// names those that anybody may have in the stream of the contents; a door has no other, and makes none.
const archivesSuffix = "-archives"

func (s *Stream) archives() *Files { return &Files{stream: s, bucket: s.name + archivesSuffix} }

func objectOf(a *content.Archived) string { return hex.EncodeToString(a.Digest[:]) }

// A named is an archive that anybody may have until a time.
type named struct {
	Cursor protocol.Cursor `json:"cursor"`
	Items  int             `json:"items"`
	Length int64           `json:"length"`
	Digest protocol.Digest `json:"digest"`
	Until  time.Time       `json:"until"`
}

func (n *named) archived() content.Archived {
	return content.Archived{Cursor: n.Cursor, Items: n.Items, Length: n.Length, Digest: n.Digest}
}

// mostNamed is how many archives a writer names: the newest, and the one before, for downloads that are not over.
const mostNamed = 2

// parseNamed reads which archives are named. What no writer stores is an error.
func parseNamed(data []byte) (list []named, err error) {
	if len(data) > 0 {
		err = json.Unmarshal(data, &list)
	}
	if len(list) > mostNamed || slices.ContainsFunc(list, func(n named) bool { return n.Length <= 0 || n.Items < 0 || n.Cursor.IsZero() || n.Digest.IsZero() }) {
		return nil, fmt.Errorf("want at most %d archives, each with a cursor, a digest and its length", mostNamed)
	}
	return list, err
}

// Archives are those of a site where it is written: the Maker of package archive. It is an interface, so that crawlers, which use this package too,
// do not link that one.
type Archives interface {
	// Latest returns the newest archive, and has a newer one made if that is due. Wait waits until it would return another one.
	Latest() (content.Archived, bool)
	Wait(ctx context.Context, a content.Archived) error

	// Kept returns the archives that anybody may have, the newest first, and false if it does not know yet of all. With now they are
	// checked first.
	Kept(now bool) (list []content.Kept, all bool)

	// File opens the file of one of them. The error wraps os.ErrNotExist if it is not kept any more.
	File(a content.Archived) (*os.File, error)
}

// An archiveSharer stores the archives of a site in NATS. Its goroutine runs run, and name is called by that of a Sharer.
type archiveSharer struct {
	from    Archives // nil: there are none
	objects *Files
	log     *slog.Logger

	work sync.Mutex // held while objects are stored or deleted; guards tidy
	tidy bool       // nothing is left of objects that an earlier process did not complete

	mu     sync.Mutex // guards stored
	stored []content.Kept

	withdrawals atomic.Int32 // that wait for work
	left        atomic.Bool  // there are objects that are not named any more
}

// open begins anew: what NATS has may not be what it had.
func (a *archiveSharer) open(s *Stream, from Archives, log *slog.Logger) {
	a.from, a.objects, a.log, a.stored, a.tidy = from, s.archives(), log, nil, false
}

// archivesEvery is how often a writer looks whether an archive is due, and whether the bytes in it may still be sent.
const archivesEvery = 10 * time.Second

// run stores the archives as they are made, until ctx ends, and deletes those that are not named in the book. It calls changed when there are others.
func (a *archiveSharer) run(ctx context.Context, b *book, changed func()) {
	if a.from == nil {
		return
	}
	for last := ""; ctx.Err() == nil; {
		newest, _ := a.from.Latest()
		is, err := a.store(ctx)
		if err == nil && a.left.Swap(false) {
			err = a.sweep(ctx, b.archives())
			a.left.CompareAndSwap(false, err != nil)
		}
		if err != nil && ctx.Err() == nil && err.Error() != last && a.log != nil {
			last = err.Error()
			a.log.Warn("the archive of the site cannot be stored in NATS: trying again", "err", err)
		}
		if is {
			changed()
		}
		late, cancel := context.WithTimeout(ctx, archivesEvery)
		if err != nil {
			pause.For(late, archivesEvery)
		} else {
			a.from.Wait(late, newest)
		}
		cancel()
	}
}

// store stores the archives that are kept, and reports whether there are others than before.
func (a *archiveSharer) store(ctx context.Context) (changed bool, err error) {
	a.work.Lock()
	defer a.work.Unlock()
	kept, _ := a.from.Kept(false)
	kept = slices.DeleteFunc(kept, func(k content.Kept) bool { return k.Until.IsZero() })
	kept = kept[:min(len(kept), mostNamed)]
	a.mu.Lock()
	was := a.stored
	a.mu.Unlock()
	if slices.Equal(kept, was) {
		return false, nil
	}
	there, err := a.objects.list(ctx)
	if err == nil && !a.tidy {
		err = a.objects.removeTorn(ctx, there)
		a.tidy = err == nil
	}
	var list []content.Kept
	for i := 0; i < len(kept) && err == nil; i++ {
		k := &kept[i]
		if there[objectOf(&k.Archived)] == nil {
			err = a.put(ctx, &k.Archived)
		}
		switch {
		case err == nil:
			list = append(list, *k)
		case errors.Is(err, os.ErrNotExist):
			err = nil
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stored = list
	return true, err
}

// put stores an archive.
func (a *archiveSharer) put(ctx context.Context, x *content.Archived) error {
	f, err := a.from.File(*x)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := a.objects.open(ctx); err != nil {
		return err
	}
	ctx, moved := move(ctx)
	defer moved.end()
	moved.Reader = readerFunc(func(b []byte) (int, error) {
		if a.withdrawals.Load() > 0 {
			return 0, fmt.Errorf("archive at %v was withdrawn meanwhile: %w", x.Cursor, os.ErrNotExist)
		}
		return f.Read(b)
	})
	_, err = a.objects.store.Put(ctx, jetstream.ObjectMeta{Name: objectOf(x)}, moved)
	return err
}

// removeTorn removes what was stored of objects that are not there: a process was killed meanwhile.
func (f *Files) removeTorn(ctx context.Context, there map[string]*jetstream.ObjectInfo) error {
	whole := map[string]bool{}
	for _, o := range there {
		whole[o.NUID] = true
	}
	stream, err := f.stream.js.Stream(ctx, "OBJ_"+f.bucket)
	if err != nil {
		return f.stream.fail("tidy the files of", err)
	}
	parts := "$O." + f.bucket + ".C."
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(parts+">"))
	if err != nil {
		return f.stream.fail("tidy the files of", err)
	}
	for subject := range info.State.Subjects {
		if !whole[strings.TrimPrefix(subject, parts)] {
			err = errors.Join(err, stream.Purge(ctx, jetstream.WithPurgeSubject(subject)))
		}
	}
	return err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// name stores which archives anybody may have, if that has changed. With now the archives are checked first, and the others are deleted from NATS:
// what was withdrawn is in none of them by then.
func (a *archiveSharer) name(ctx context.Context, out *pageWriter, now bool) error {
	b := out.book
	is := b.archives()
	want, known := a.may(is, now)
	if !known && !now {
		return nil // those of the run before stand
	}
	if slices.EqualFunc(is, want, func(is, want named) bool { return is.archived() == want.archived() && isNear(is.Until, want.Until) }) {
		if !now || a.from == nil {
			return nil
		}
		return a.sweep(ctx, want) // a writer that was replaced may have left others
	}
	text, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if err := out.add(ctx, b.stream.name+".archives", text, 0); err != nil {
		return err
	}
	if err := out.flush(ctx, out.told); err != nil {
		return err
	}
	b.change(func() { b.named = want })
	for i := range is {
		if !slices.ContainsFunc(want, func(n named) bool { return n.Digest == is[i].Digest }) {
			out.withdrew = time.Now()
		}
	}
	if now || a.from == nil {
		return a.sweep(ctx, want)
	}
	a.left.Store(true) // it may take long until what is being stored is there
	return nil
}

// isNear reports whether what was said need not be said anew.
func isNear(said, until time.Time) bool {
	now := time.Now()
	return said.Sub(now) > until.Sub(now)*3/4 && !said.After(until)
}

// may returns the archives that are stored, as those that were named are, and that anybody may have; and false if that is not known of all.
func (a *archiveSharer) may(were []named, now bool) (list []named, known bool) {
	if a.from == nil {
		return nil, true
	}
	if now {
		a.withdrawals.Add(1)
		a.work.Lock()
		defer a.work.Unlock()
		a.withdrawals.Add(-1)
	}
	kept, known := a.from.Kept(now)
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.stored
	a.stored = nil
	for _, k := range kept {
		is := func(s content.Kept) bool { return s.Archived == k.Archived }
		if slices.ContainsFunc(was, is) {
			a.stored = append(a.stored, k)
		} else if !slices.ContainsFunc(were, func(n named) bool { return n.archived() == k.Archived }) {
			continue
		}
		list = append(list, named{k.Cursor, k.Items, k.Length, k.Digest, k.Until.UTC().Round(0)})
	}
	return list[:min(len(list), mostNamed)], known
}

// sweep deletes the objects of archives that are not named.
func (a *archiveSharer) sweep(ctx context.Context, named []named) error {
	a.work.Lock()
	defer a.work.Unlock()
	there, err := a.objects.list(ctx)
	stay := map[string]bool{}
	for i := range named {
		stay[hex.EncodeToString(named[i].Digest[:])] = true
	}
	a.mu.Lock()
	for i := range a.stored { // or some that will be named next
		stay[objectOf(&a.stored[i].Archived)] = true
	}
	a.mu.Unlock()
	for name := range there {
		if !stay[name] {
			err = errors.Join(err, a.objects.store.Delete(ctx, name))
		}
	}
	return err
}

// Named reports whether the writer says that anybody may have an archive now. The error says that this is not known.
func (c *Contents) Named(a content.Archived) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.Current(ctx); err != nil {
		return false, err
	}
	return slices.ContainsFunc(c.book.archives(), func(n named) bool { return n.archived() == a && time.Now().Before(n.Until) }), nil
}

// archives returns the archives that are named.
func (b *book) archives() []named {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.named
}

// FollowArchives copies the newest archive that the writer names, until ctx ends: add adds it to those of the door, and calls fetch for
// its bytes if it does not have it.
func (c *Contents) FollowArchives(ctx context.Context, add func(ctx context.Context, a content.Archived, fetch func(context.Context, io.Writer) error) error) error {
	objects := c.Log.Stream.archives()
	tries, last := 0, named{}
	for ctx.Err() == nil {
		var newest named
		err := c.book.await(ctx, func() bool {
			if len(c.book.named) > 0 {
				newest = c.book.named[0]
			}
			return !newest.Digest.IsZero() && newest.Digest != last.Digest
		})
		if err != nil {
			return err
		}
		if err := c.Log.Told(ctx, newest.Cursor); err != nil {
			continue // readers here could not go on from there
		}
		a := newest.archived()
		err = add(ctx, a, func(ctx context.Context, w io.Writer) error { return objects.read(ctx, objectOf(&a), w) })
		switch {
		case err == nil || errors.Is(err, jetstream.ErrObjectNotFound): // it was withdrawn
			tries, last = 0, newest
		case ctx.Err() == nil:
			wait := archivesEvery << min(tries, 6)
			c.Logger.Warn("the archive of the site could not be copied", "err", err, "again_in", wait)
			pause.For(ctx, wait)
			tries++
		}
	}
	return ctx.Err()
}
