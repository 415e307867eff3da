package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

// errNoArchive reports that a site has no archive now.
var errNoArchive = errors.New("the site has no archive now")

// takeSite begins with an archive of the site, from the stream or the changes door, or from the archive's
// fixed URL.
func (f *follower) takeSite(ctx context.Context) (Door, error) {
	switch f.doors.best((*doorState).open) {
	case Stream:
		return Stream, f.takeStream(ctx)
	case Changes:
		return Changes, f.takeChanges(ctx)
	}
	return Manifest, f.getArchive(ctx, "")
}

// look checks for news where no better door works: in the manifest, or in the archive.
func (f *follower) look(ctx context.Context) error {
	if !f.resync && f.form() == protocol.AsSite && !f.cursor.IsZero() && f.offer != nil && f.offer.Site != "" {
		return f.getArchive(ctx, f.archiveTag)
	}
	return f.takeManifest(ctx, !f.resync)
}

// getArchive downloads the archive from its fixed URL, unless its ETag is known.
func (f *follower) getArchive(ctx context.Context, known string) error {
	if f.offer == nil || f.offer.Site == "" {
		return errNoArchive
	}
	return f.readArchive(ctx, Manifest, f.offer.Site, known, protocol.Digest{})
}

// takeArchive reads an archive that a site has announced.
func (f *follower) takeArchive(ctx context.Context, at Door, m *protocol.Message) error {
	u, err := f.door(m.Body.Href)
	if err != nil {
		return err
	}
	if m.To == f.cursor && !f.resync {
		return nil
	}
	if f.asksSite() { // an archive holds more than the filter selects, and only the site can evaluate the filter
		f.resync = true
		return fmt.Errorf("most of the site has changed: only the pages that match the filter are requested")
	}
	err = f.readArchive(ctx, at, u, "", m.Body.Digest)
	var status *StatusError
	if errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone) {
		err = ofPiece(fmt.Errorf("%w: %v", errNoArchive, err)) // the archive may have been replaced: the door is tried again
	}
	return err
}

// readArchive downloads an archive and emits it as a snapshot.
func (f *follower) readArchive(ctx context.Context, at Door, u, known string, hash protocol.Digest) (err error) {
	defer func() { err = ofPiece(err) }()
	file, err := f.download(ctx, u, known, hash)
	if err != nil {
		return err
	}
	if file == nil {
		f.tookManifest(fetch.Validators{})
		return f.mended(at, protocol.AsSite)
	}
	defer file.Close()
	a, err := openArchive(file, file.size, f.src.MaxPage)
	if err != nil {
		return err
	}
	defer a.Close()
	switch {
	case !f.resync && a.cursor == f.cursor:
		f.archiveTag = file.etag
		f.tookManifest(fetch.Validators{})
		return f.mended(at, protocol.AsSite)
	case !f.cursor.IsZero() && behind(a.cursor, f.cursor), f.resync && a.cursor == f.cursor:
		return fmt.Errorf("archive has cursor %v, which is not later than ours, %v", a.cursor, f.cursor)
	}
	p := packing{f: f, s: Step{Door: at, As: protocol.AsSite, Reset: true}}
	for page, err := range a.pages.Pages() {
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if !f.src.Filter.Wants(&page.Change.Item) {
			continue
		}
		page.Change.Op, page.Change.Seq = protocol.Create, 0 // it is a snapshot
		if err := p.add(page.Change, page.Body); err != nil {
			return err
		}
	}
	f.archiveTag = file.etag
	f.resync, f.noArchive = false, false
	f.schedule.renew()
	return p.end(a.cursor, true)
}
