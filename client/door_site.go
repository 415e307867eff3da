package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/parleyweb/parley/protocol"
)

// errNoArchive reports that a site has no archive now.
var errNoArchive = errors.New("the site has no archive now")

// An archiveDoor reads the whole site from an archive.
type archiveDoor struct {
	*position
	want     *selection
	schedule *schedule
	tag      string // ETag of the last archive applied
}

// get downloads the archive from its fixed URL, unless it is the last one and no snapshot is needed.
func (d *archiveDoor) get(ctx context.Context) error {
	if d.want.offer == nil || d.want.offer.Site == "" {
		return errNoArchive
	}
	known := d.tag
	if d.resync {
		known = ""
	}
	return d.read(ctx, Manifest, d.want.offer.Site, known, protocol.Digest{})
}

// take reads an archive that a site has announced.
func (d *archiveDoor) take(ctx context.Context, at Door, m *protocol.Message) error {
	u, err := d.want.door(m.Body.Href)
	if err != nil {
		return err
	}
	if m.To == d.cursor && !d.resync {
		return nil
	}
	if d.want.asksSite() { // an archive holds more than the filter selects, and only the site can evaluate the filter
		d.resync = true
		return fmt.Errorf("most of the site has changed: only the pages that match the filter are requested")
	}
	err = d.read(ctx, at, u, "", m.Body.Digest)
	if status := statusOf(err); status != nil && (status.Status == http.StatusNotFound || status.Status == http.StatusGone) {
		err = ofPiece(fmt.Errorf("%w: %v", errNoArchive, err)) // the archive may have been replaced: the door is tried again
	}
	return err
}

// read downloads an archive and emits it as a snapshot.
func (d *archiveDoor) read(ctx context.Context, at Door, u, known string, hash protocol.Digest) (err error) {
	defer func() { err = ofPiece(err) }()
	file, err := d.want.download(ctx, u, known, hash)
	if err != nil {
		return err
	}
	if file == nil {
		d.schedule.renew()
		d.renewed()
		return d.mended(at, protocol.AsSite)
	}
	defer file.Close()
	a, err := openArchive(file, file.size, d.want.src.MaxPage)
	if err != nil {
		return err
	}
	defer a.Close()
	switch {
	case !d.resync && a.cursor == d.cursor:
		d.tag = file.etag
		d.schedule.renew()
		d.renewed()
		return d.mended(at, protocol.AsSite)
	case !d.cursor.IsZero() && behind(a.cursor, d.cursor), d.resync && a.cursor == d.cursor:
		return fmt.Errorf("archive has cursor %v, which is not later than ours, %v", a.cursor, d.cursor)
	}
	p := packing{d.position, Step{Door: at, As: protocol.AsSite, Reset: true}, 0}
	for page, err := range a.pages.Pages() {
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if !d.want.filter.Wants(&page.Change.Item) {
			continue
		}
		page.Change.Op, page.Change.Seq = protocol.Create, 0 // it is a snapshot
		if err := p.add(page.Change, page.Body); err != nil {
			return err
		}
	}
	d.tag = file.etag
	d.resync, d.noArchive, d.doubtful = false, false, false
	d.schedule.renew()
	return p.end(a.cursor, true)
}
