package journal_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A process that is to be killed is this test program with victimEnv set to
// what it shall do, and victimFile to the journal.
const victimEnv, victimFile = "PARLEY_TEST_VICTIM", "PARLEY_TEST_JOURNAL"

func TestMain(m *testing.M) {
	var err error
	switch what := os.Getenv(victimEnv); what {
	case "":
		os.Exit(m.Run())
	case "append":
		err = appendForEver(os.Getenv(victimFile))
	case "renew":
		err = renewForEver(os.Getenv(victimFile))
	case "move":
		err = moveForEver(os.Getenv(victimFile))
	default:
		err = fmt.Errorf("unknown victim %q", what)
	}
	fmt.Println("error", err)
	os.Exit(1)
}

// appendForEver prints every head that was returned to it.
func appendForEver(file string) error {
	j, err := journal.Open(file, nil)
	if err != nil {
		return err
	}
	if err := j.EndBaseline(); err != nil {
		return err
	}
	for n := j.Head().Seq; ; n = j.Head().Seq {
		steps := []journal.Step{create(fmt.Sprintf("p%d", n%50), fmt.Sprint(n))}
		switch n % 4 {
		case 1:
			steps = append(steps, move(fmt.Sprintf("p%d", n%50), fmt.Sprintf("m/p%d", n), fmt.Sprint(n)))
		case 2:
			steps = append(steps, remove(fmt.Sprintf("p%d", n%50)), create(fmt.Sprintf("q%d", n), "q"))
		}
		head, err := j.Append(context.Background(), steps)
		if err != nil {
			return err
		}
		// Two notes of one call, as a sender notes what it has sent and how far it is.
		told := []byte(head.String())
		if err := j.SetNotes(map[string][]byte{"victim/head": told, fmt.Sprintf("victim/%d", head.Seq%10): told}); err != nil {
			return err
		}
		fmt.Println(head, j.Revision())
	}
}

// generation yields the items of description number n.
func generation(n int) func(yield func(protocol.Item, error) bool) {
	return func(yield func(protocol.Item, error) bool) {
		for i := range 3500 {
			if !yield(page(fmt.Sprintf("p%04d", i), fmt.Sprint(n)), nil) {
				return
			}
		}
	}
}

// renewForEver prints the number of every description that it was told to be in.
func renewForEver(file string) error {
	j, err := journal.Open(file, nil)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		if err := j.Renew(context.Background(), generation(n)); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// kill starts a victim and kills it after it has printed some lines, which it
// returns with those that were already on their way.
func kill(t *testing.T, what, file string, after int) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+what, victimFile+"="+file)
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())
	must.OK(t, cmd.Start())
	var lines []string
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil { // what has no end of line may be torn
			break
		}
		lines = append(lines, strings.TrimSpace(line))
		if len(lines) == after {
			cmd.Process.Kill()
		}
	}
	io.Copy(io.Discard, r)
	cmd.Wait()
	if len(lines) < after || strings.HasPrefix(lines[len(lines)-1], "error") {
		t.Fatalf("victim: %v", lines)
	}
	return lines
}

func TestKilledWhileAppending(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal")
	known := []protocol.Change{}
	epoch := ""
	for round := range 20 {
		lines := kill(t, "append", file, 1+rand.IntN(40))
		cursor, revision, _ := strings.Cut(lines[len(lines)-1], " ")
		told, err := protocol.ParseCursor(cursor)
		if err != nil {
			t.Fatal(err)
		}
		j := open(t, file, nil)
		head := j.Head()
		if r, err := strconv.ParseUint(revision, 10, 64); err != nil || j.Revision() < r {
			t.Fatalf("round %d: revision is %d after %s was reported", round, j.Revision(), revision)
		}
		noted := must.Get(j.Note("victim/head"))
		at, err := protocol.ParseCursor(string(noted))
		if err != nil || at.Epoch != epoch && round > 0 || at.Seq < told.Seq || at.Seq > head.Seq {
			t.Fatalf("round %d: note is %q after %v was reported, the head is %v, %v", round, noted, told, head, err)
		}
		if twin, err := j.Note(fmt.Sprintf("victim/%d", at.Seq%10)); err != nil || string(twin) != string(noted) {
			t.Fatalf("round %d: notes of one transaction are %q and %q, %v", round, noted, twin, err)
		}
		if round == 0 {
			epoch = head.Epoch
		}
		if head.Epoch != epoch || told.Epoch != epoch || head.Seq < told.Seq {
			t.Fatalf("round %d: head is %v after %v was reported, epoch was %s", round, head, told, epoch)
		}
		var all []protocol.Change
		for at := j.Floor(); at != head; at.Seq = all[len(all)-1].Seq {
			all = append(all, read(t, j, at)...)
		}
		if uint64(len(all)) != head.Seq || !reflect.DeepEqual(all[:len(known)], known) {
			t.Fatalf("round %d: earlier changes differ", round)
		}
		known = all
		// The items are what the changes make.
		present := map[string]protocol.Item{}
		for i, c := range all {
			if c.Seq != uint64(i+1) {
				t.Fatalf("round %d: change %d at place %d", round, c.Seq, i+1)
			}
			delete(present, c.From)
			if present[c.Item.URL] = c.Item; c.Op == protocol.Delete {
				delete(present, c.Item.URL)
			}
		}
		for _, e := range entriesOf(t, j) {
			if present[e.Item.URL] != e.Item {
				t.Fatalf("round %d: item %+v, changes say %+v", round, e.Item, present[e.Item.URL])
			}
		}
		check(t, "items", j.Len(), len(present))
		j.Close()
	}
}

func TestKilledWhileRenewing(t *testing.T) {
	for round := range 8 {
		file := filepath.Join(t.TempDir(), "journal")
		lines := kill(t, "renew", file, 1+rand.IntN(4))
		j := open(t, file, nil)
		check(t, "items", j.Len(), 3500)
		entries := entriesOf(t, j)
		check(t, "entries", len(entries), 3500)
		n := 0
		for _, e := range entries {
			for ; n <= len(lines)+1 && e.Item.Digest != page("", fmt.Sprint(n)).Digest; n++ {
				if e.Item.URL != entries[0].Item.URL {
					t.Fatalf("round %d: items of two renewals are mixed", round)
				}
			}
		}
		if n != len(lines) && n != len(lines)+1 {
			t.Errorf("round %d: items of renewal %d after %d were reported", round, n, len(lines))
		}
		endBaseline(t, j)
		take(t, j, create("after", "x"))
		j.Close()
	}
}
