package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
)

// describe writes a manifest without a cursor to standard output, as the thesis's generator did (C20). It
// scans like every other run, with a temporary journal.
func (j *job) describe(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "rdfgen-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	journal, err := server.OpenJournal(ctx, filepath.Join(dir, "state"), server.JournalOptions{Base: j.site.Base, Log: j.env.Log})
	if err != nil {
		return err
	}
	defer journal.Close()
	p, looked, err := j.publisher(journal)
	if err != nil {
		return err
	}
	p.Snapshot, p.Outputs = nil, nil
	found, err := p.Scan(ctx, nil)
	looked()
	if err != nil {
		return err
	}
	v, err := journal.View()
	if err != nil {
		return err
	}
	defer v.Close()
	head := doors.Describe(j.site.Base)
	head.Stream, head.Changes, head.Discovery, head.Replaces = "", "", "", j.site.MovedFrom()
	head.Items, head.Complete, head.Modified = v.Len(), true, v.Modified()
	items := func(yield func(protocol.Item, error) bool) {
		for e, err := range v.Entries() {
			if !yield(e.Item, err) {
				return
			}
		}
	}
	w := bufio.NewWriter(j.env.Stdout)
	if err := errors.Join(protocol.WriteManifest(w, head, items, nil), w.Flush()); err != nil {
		return err
	}
	j.json = false // standard output holds the manifest
	return j.report(found, nil)
}
