package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// Whatever becomes of the bytes of the file, the journal neither panics nor
// tells what it was never told.
func TestDamagedFilesNeverLie(t *testing.T) {
	j, file := begin(t, nil)
	start := j.Head()
	var steps []journal.Step
	for i := range 900 {
		steps = append(steps, create(fmt.Sprintf("d%d/p%d", i%7, i), fmt.Sprint(i)))
	}
	take(t, j, steps...)
	take(t, j, remove("d0/p0"), move("d1/p1", "d1/moved", "1"), note("d2/p2", "held", noon))
	entries, changes := map[string]journal.Entry{}, read(t, j, start)
	for _, e := range entriesOf(t, j) {
		entries[e.Item.URL] = e
	}
	stones := stonesOf(t, j)
	rest, err := j.Read(context.Background(), protocol.Cursor{Epoch: start.Epoch, Seq: uint64(len(changes))}, 0)
	if err != nil || len(rest) > 0 {
		t.Fatal(rest, err)
	}
	j.Close()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	used := len(whole)
	for used > 0 && whole[used-1] == 0 {
		used--
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	damaged := 0
	for round := range 150 {
		b := slices.Clone(whole[:used+4096])
		for range 1 + rnd.IntN(8) {
			at, n := rnd.IntN(used), 1+rnd.IntN(1+rnd.IntN(200))
			for i := at; i < min(at+n, used); i++ {
				b[i] = byte(rnd.Uint32())
			}
		}
		f := filepath.Join(t.TempDir(), fmt.Sprint(round))
		if err := os.WriteFile(f, b, 0o600); err != nil {
			t.Fatal(err)
		}
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
				if look(err) && !reflect.DeepEqual(e, entries[e.Item.URL]) {
					t.Errorf("round %d: entry %+v", round, e)
				}
			}
			for e, err := range v.Under("https://example.org/d1/", true) {
				if look(err) && !reflect.DeepEqual(e, entries[e.Item.URL]) {
					t.Errorf("round %d: entry %+v", round, e)
				}
			}
			for e, err := range v.Held() {
				if look(err) && !reflect.DeepEqual(e, entries[e.Item.URL]) {
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
		for i := 0; i < len(changes); i += 100 {
			got, err := j.Read(context.Background(), protocol.Cursor{Epoch: start.Epoch, Seq: uint64(i)}, 100)
			if look(err) && !reflect.DeepEqual(got, changes[i:min(len(changes), i+100)]) {
				t.Errorf("round %d: changes after %d differ", round, i)
			}
		}
		for _, s := range steps[:50] {
			e, ok, err := j.Get(s.Entry.Item.URL)
			if look(err) && ok && !reflect.DeepEqual(e, entries[e.Item.URL]) {
				t.Errorf("round %d: entry %+v", round, e)
			}
		}
		for i := range 5 {
			_, err := j.Append(context.Background(), []journal.Step{update(fmt.Sprintf("d%d/p%d", i, i), "new"), create(fmt.Sprint(i), "new")})
			look(err)
		}
		look(j.Renew(context.Background(), nil))
		look(j.Close())
	}
	if damaged == 0 {
		t.Error("no damage was ever noticed")
	}
}
