//go:build linux

package anysite_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/anysite"
	"github.com/parleyweb/parley/internal/anysite/judge"
	"github.com/parleyweb/parley/internal/anysite/record"
	"github.com/parleyweb/parley/internal/must"
)

// atOnce is the number of concurrent worlds: they mostly wait.
const atOnce = 4

func newRunner(t *testing.T) *anysite.Runner {
	t.Helper()
	dir := os.Getenv("PARLEY_ANYSITE_PROGRAMS")
	if dir == "" {
		dir = t.TempDir()
		if out, err := exec.Command("go", "build", "-o", dir+"/", "../../cmd/crawler", "../../cmd/notifier", "../../cmd/rdfgen").CombinedOutput(); err != nil {
			t.Fatalf("build the programs: %v\n%s", err, out)
		}
	}
	tables := must.Get(anysite.ReadTables(dir))
	return &anysite.Runner{Programs: dir, Tables: tables}
}

func number(name string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	return n, err == nil
}

// The real programs keep their promises on randomly drawn sites, settings and histories. The package comment
// says how to repeat one.
func TestAnySite(t *testing.T) {
	r := newRunner(t)
	var without []string
	if s := os.Getenv("PARLEY_ANYSITE_WITHOUT"); s != "" {
		without = strings.Split(s, ",")
	}
	if seed, ok := number("PARLEY_ANYSITE_SEED"); ok {
		r.Log = t.Logf
		x := r.Try(t.Context(), anysite.Draw(seed, r.Tables, without...))
		report(t, r, x)
		return
	}
	most, counted := number("PARLEY_ANYSITE")
	if os.Getenv("PARLEY_ANYSITE") == "" {
		t.Skip("takes a minute: set PARLEY_ANYSITE to a duration, such as 60s, or to a number of seeds")
	}
	begin, end := uint64(time.Now().UnixNano()/1e6), time.Now().Add(time.Minute)
	if first, ok := number("PARLEY_ANYSITE_FROM"); ok {
		begin = first
	}
	switch {
	case counted:
		end = time.Now().Add(1000 * time.Hour)
	default:
		most = 1 << 40
		if d, err := time.ParseDuration(os.Getenv("PARLEY_ANYSITE")); err == nil {
			end = time.Now().Add(d)
		}
	}
	t.Logf("seeds from %d on", begin)
	var group sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for worker := range atOnce {
		group.Go(func() {
			for i := uint64(worker); i < most && time.Now().Before(end) && t.Context().Err() == nil; i += atOnce {
				x := r.Try(t.Context(), anysite.Draw(begin+i, r.Tables, without...))
				mu.Lock()
				done++
				report(t, r, x)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	t.Logf("%d seeds", done)
}

// report logs the findings of a seed, and how often they recur.
func report(t *testing.T, r *anysite.Runner, x anysite.Result) {
	t.Helper()
	for _, j := range x.Verdict.Copies {
		t.Logf("seed %d: %s", x.Plan.Seed, j)
	}
	if x.Err == nil && len(x.Verdict.Findings) == 0 && os.Getenv("PARLEY_ANYSITE_SEED") == "" {
		return
	}
	// Storing a recording takes longer than judging it. So a seed without findings is stored only if it was run alone.
	if dir := os.Getenv("PARLEY_ANYSITE_KEEP"); dir != "" && x.Record != nil {
		if err := keep(filepath.Join(dir, fmt.Sprintf("%d.json.gz", x.Plan.Seed)), x.Record); err != nil {
			t.Error(err)
		}
	}
	if x.Err == nil && len(x.Verdict.Findings) == 0 {
		return
	}
	if unmet := new(anysite.Unmet); errors.As(x.Err, &unmet) && os.Getenv("PARLEY_REQUIRE") != "all" {
		t.Logf("seed %d is skipped: %v", x.Plan.Seed, x.Err)
		return
	}
	mode := os.Getenv("PARLEY_ANYSITE_SHRINK")
	kind, rate := "", 10
	if mode != "0" {
		kind, rate = r.Rate(context.WithoutCancel(t.Context()), x)
	}
	say := t.Errorf
	if mode == "rate" && rate < 5 { // one failure on a busy machine proves nothing about the change under test: a person should look at it
		say = t.Logf
	}
	if x.Err != nil {
		say("seed %d: %.2000v", x.Plan.Seed, x.Err)
	}
	for _, f := range x.Verdict.Findings {
		say("seed %d: %s", x.Plan.Seed, f)
	}
	t.Logf("%s\nfeatures: %s", x.Commands(), strings.Join(x.Plan.Features(), " "))
	if mode != "0" {
		t.Logf("seed %d: in %d of 10 runs: %s", x.Plan.Seed, rate, kind)
	}
	if rate >= 5 && mode == "" {
		small := r.Shrink(t.Context(), x.Plan, kind)
		t.Logf("seed %d, made smaller:\n%s", x.Plan.Seed, anysite.Result{Plan: small}.Commands())
	}
}

// Two thousand seeds draw every pair of features that can be together.
func TestEveryFeaturePairIsDrawn(t *testing.T) {
	r := newRunner(t)
	seeds := map[string]*big.Int{} // of each feature, a bit for each seed that draws it
	for seed := range 2000 {
		for _, f := range anysite.Draw(uint64(seed), r.Tables).Features() {
			if seeds[f] == nil {
				seeds[f] = new(big.Int)
			}
			seeds[f].SetBit(seeds[f], seed, 1)
		}
	}
	all := slices.Sorted(maps.Keys(seeds))
	reasons, seen := map[string]int{}, 0
	for i, a := range all {
		for _, b := range all[i+1:] {
			if new(big.Int).And(seeds[a], seeds[b]).Sign() > 0 {
				seen++
				continue
			}
			if why := anysite.Excluded(r.Tables, a, b); why != "" {
				reasons[why]++
			} else {
				t.Errorf("%s and %s are never drawn together", a, b)
			}
		}
	}
	t.Logf("%d features, %d pairs of them", len(all), seen)
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		t.Logf("%d impossible pairs: %s", reasons[why], why)
	}
}

// Every option is drawn, or has a reason why not, so a new option is drawn automatically or fails this test.
func TestEveryOptionIsDrawnOrExcepted(t *testing.T) {
	r := newRunner(t)
	for command, table := range r.Tables {
		for _, o := range table {
			if o.Drawn() == nil && anysite.Exception(o.Name) == "" {
				t.Errorf("--%s of %s: options.go has neither values to draw nor an exception", o.Name, command)
			}
		}
	}
}

// keep stores a recording, which TestRejudgeStoredRecordings reads.
func keep(name string, r *record.Recording) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := gzip.NewWriter(f)
	return errors.Join(json.NewEncoder(z).Encode(r), z.Close())
}

// Stored recordings are judged again, by the current oracles.
func TestRejudgeStoredRecordings(t *testing.T) {
	dir := os.Getenv("PARLEY_ANYSITE_JUDGE")
	if dir == "" {
		t.Skip("PARLEY_ANYSITE_JUDGE names no directory of recordings")
	}
	names := must.Get(filepath.Glob(filepath.Join(dir, "*.json.gz")))
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var r record.Recording
		z, err := gzip.NewReader(f)
		if err == nil {
			err = json.NewDecoder(z).Decode(&r)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v := judge.Judge(&r)
		for _, j := range v.Copies {
			t.Logf("seed %d: %s", r.Seed, j)
		}
		for _, f := range v.Findings {
			t.Errorf("seed %d: %s", r.Seed, f)
		}
	}
}
