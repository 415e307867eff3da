package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/manifest"
)

// publishedFiles is an output: the files of the manifest as objects in NATS, and what the next writer must know so that it
// publishes nothing that this one has withheld: which pages the web server refuses, and what robots.txt said.
type publishedFiles struct {
	files    *jetlog.Files
	snapshot *manifest.Snapshot
	over     context.Context // ends once this notifier may not write any more

	handed string    // the notes that were stored last
	at     time.Time // when they were compared
	rules  string    // the rules of robots.txt among them
}

// handEvery is the shortest time between two times that the notes of all pages are compared.
const handEvery = time.Minute

// String implements [server.Output].
func (o *publishedFiles) String() string { return "the manifest in NATS" }

// Own implements [server.Output].
func (o *publishedFiles) Own() []string { return nil }

// Write implements [server.Output].
func (o *publishedFiles) Write(ctx context.Context, j *server.Journal) (bool, error) {
	if o.over.Err() != nil {
		return false, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.over, cancel)()
	if err := o.handOver(ctx, j); err != nil {
		return false, err
	}
	if !o.snapshot.IsCurrent(j) { // a change has come since it was written: this output would not be written again for it
		if _, err := o.snapshot.Write(ctx, j); err != nil {
			return false, err
		}
	}
	return false, o.files.Store(ctx, o.snapshot.Path, o.snapshot.Path+manifest.PartsSuffix)
}

// handOver stores the notes if they have changed: those of robots.txt at once, since doors go by what it says of known crawlers.
func (o *publishedFiles) handOver(ctx context.Context, j *server.Journal) error {
	rules := map[string][]byte{}
	err := j.EachNote(robots.NoteKey, func(key string, value []byte) error {
		rules[key] = value
		return nil
	})
	ruled, jerr := json.Marshal(rules)
	now := time.Now()
	if err = errors.Join(err, jerr); err != nil || string(ruled) == o.rules && now.Sub(o.at).Abs() < handEvery {
		return err
	}
	notes, err := evidence.Withheld(j)
	if err != nil {
		return err
	}
	maps.Copy(notes, rules)
	text, err := json.Marshal(notes)
	if err == nil && string(text) != o.handed {
		err = o.files.StoreNotes(ctx, text)
	}
	if err == nil {
		o.handed, o.at, o.rules = string(text), now, string(ruled)
	}
	return err
}

// takeOver stores in a journal what the last writer has handed over.
func takeOver(ctx context.Context, files *jetlog.Files, j *server.Journal) error {
	text, err := files.Notes(ctx)
	if err != nil || text == nil {
		return err
	}
	notes := map[string][]byte{}
	if err := json.Unmarshal(text, &notes); err != nil {
		return fmt.Errorf("read what the last writer has handed over: %w", err)
	}
	err = j.EachNote(robots.NoteKey, func(key string, _ []byte) error { // the rules were longer before
		if _, ok := notes[key]; !ok {
			notes[key] = nil
		}
		return nil
	})
	return errors.Join(err, j.SetNotes(notes))
}
