package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// However the file is damaged, the journal neither panics nor loops for ever, nor returns data that were never
// stored. It may return an earlier state: a file whose newest root is damaged is that of the previous
// transaction.
func TestDamagedFilesGiveNoWrongData(t *testing.T) {
	j, file := begin(t, nil)
	start := j.Head()
	var steps []journal.Step
	for i := range 900 {
		s := create(fmt.Sprintf("d%d/p%d", i%7, i), fmt.Sprint(i))
		if i%3 == 0 {
			s.Entry.Item.Language, s.Entry.Item.Importance = "en", protocol.Importance(1+i%100)
			s.Entry.Sketch, s.Entry.Newest = []byte(fmt.Sprint("sketch", i)), noon
		}
		steps = append(steps, s)
	}
	notes := make(map[string][]byte)
	for i := range 300 {
		notes[fmt.Sprintf("n%d/%d", i%3, i)] = []byte(fmt.Sprint("note ", i))
	}
	setNotes(t, j, notes)
	entries := make(map[string][]journal.Entry) // as they ever were
	known := func() {
		for _, e := range entriesOf(t, j) {
			entries[e.Item.URL] = append(entries[e.Item.URL], e)
		}
	}
	wasSo := func(e journal.Entry) bool {
		return slices.ContainsFunc(entries[e.Item.URL], func(k journal.Entry) bool { return reflect.DeepEqual(k, e) })
	}
	take(t, j, steps...)
	known()
	take(t, j, remove("d0/p0"), move("d1/p1", "d1/moved", "1"), note("d2/p2", "held", noon))
	known()
	changes := read(t, j, start)
	stones := stonesOf(t, j)
	rest, err := j.Read(context.Background(), protocol.Cursor{Epoch: start.Epoch, Seq: uint64(len(changes))}, 0)
	if err != nil || len(rest) > 0 {
		t.Fatal(rest, err)
	}
	j.Close()
	whole := must.Get(os.ReadFile(file))
	used := len(whole)
	for used > 0 && whole[used-1] == 0 {
		used--
	}
	damaged, rounds := 0, 200
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(1, uint64(round))) // so that one round can be run again
		b := slices.Clone(whole[:used+4096])
		for range 1 + rnd.IntN(8) {
			at, n := rnd.IntN(used), 1+rnd.IntN(1+rnd.IntN(200))
			for i := at; i < min(at+n, used); i++ {
				b[i] = byte(rnd.Uint32())
			}
		}
		f := filepath.Join(t.TempDir(), fmt.Sprint(round))
		must.OK(t, os.WriteFile(f, b, 0o600))
		j, err := journal.Open(f, nil)
		if err != nil {
			damaged++
			continue
		}
		look := func(err error) bool {
			if err != nil && !errors.Is(err, journal.ErrDamaged) {
				t.Errorf("round %d: %v", round, err)
			}
			if err != nil {
				damaged++
			}
			return err == nil
		}
		if v, err := j.View(); look(err) {
			for e, err := range v.Entries() {
				if look(err) && !wasSo(e) {
					t.Errorf("round %d: entry %+v", round, e)
				}
			}
			for e, err := range v.Under("https://example.org/d1/", true) {
				if look(err) && !wasSo(e) {
					t.Errorf("round %d: entry %+v", round, e)
				}
			}
			for e, err := range v.Held() {
				if look(err) && !wasSo(e) {
					t.Errorf("round %d: entry %+v", round, e)
				}
			}
			for s, err := range v.Tombstones() {
				if look(err) && !slices.Contains(stones, s) {
					t.Errorf("round %d: tombstone %+v", round, s)
				}
			}
			v.Close()
		}
		head := int(j.Head().Seq)
		for i := 0; i < head; i += 100 {
			got, err := j.Read(context.Background(), protocol.Cursor{Epoch: start.Epoch, Seq: uint64(i)}, 100)
			if look(err) && !reflect.DeepEqual(got, changes[i:min(head, i+100)]) {
				t.Errorf("round %d: changes after %d differ", round, i)
			}
		}
		for _, s := range steps[:50] {
			e, ok, err := j.Get(s.Entry.Item.URL)
			if look(err) && ok && !wasSo(e) {
				t.Errorf("round %d: entry %+v", round, e)
			}
		}
		look(j.EachNote("n1/", func(key string, value []byte) error {
			if !strings.HasPrefix(key, "n1/") || !bytes.Equal(value, notes[key]) {
				t.Errorf("round %d: note %s is %q", round, key, value)
			}
			return nil
		}))
		for _, key := range []string{"n0/0", "n2/299"} {
			if value, err := j.Note(key); look(err) && value != nil && !bytes.Equal(value, notes[key]) {
				t.Errorf("round %d: note %s is %q", round, key, value)
			}
		}
		for _, s := range stones {
			if got, ok, err := j.Gone(s.URL); look(err) && ok && got != s {
				t.Errorf("round %d: tombstone %+v", round, got)
			}
		}
		look(j.SetNotes(map[string][]byte{"n0/0": []byte("new"), "n1/1": nil}))
		for i := range 5 {
			_, err := j.Append(context.Background(), []journal.Step{update(fmt.Sprintf("d%d/p%d", i, i), "new"), create(fmt.Sprint(i), "new")})
			look(err)
		}
		look(j.Renew(context.Background(), nil))
		look(j.Close())
	}
	if damaged == 0 {
		t.Error("no damage was detected in any round")
	}
}
