package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sim/batch"
)

// small is a batch that is simulated in no time.
var small = []string{"simulate", "batch", "--pages", "2000", "--largest", "100", "--robots", "50", "--link", "50000", "--strategy", "larger-sites-first,random"}

const smallBatch = `2000 pages on 327 sites, 100 on the largest; 50 robots; wait 15s; seed 1

strategy             link  at once  hours  least  waits  ended  pages  busy  link used  connections  failed  thesis
larger-sites-first  50000        1   0.57   0.26   0.41   0.29  87.4%    16      46.6%         2000       0       -
larger-sites-first  50000      100   0.27   0.26   0.00   0.25  95.7%    43      99.2%          327       0       -
random              50000        1   0.56   0.26   0.41   0.27  86.7%    15      47.0%         2000       0       -
random              50000      100   0.27   0.26   0.00   0.25  95.7%    43      99.3%          327       0       -

link: bytes per second; at once: pages per connection. Hours until all pages are there; at least (bytes by bandwidth); of waits at one site at
least. ended: hours and pages if the batch ends when fewer than a tenth of the robots are busy, and the rest is left to the next one. busy: robots,
on average; thesis: hours in Castillo 2004, section 4.4
`

// The table is the same on every machine.
func TestSimulateBatch(t *testing.T) {
	code, out, said := program(t.Context(), small...)
	if code != 0 || said != "" {
		t.Fatalf("exit code %d: %s", code, said)
	}
	if out != smallBatch {
		t.Errorf("the output is\n%s", out)
	}
	if code, out, _ := program(t.Context(), "simulate", "batch", "--pages", "500"); code != 0 || !strings.HasPrefix(out, "500 pages on 208 sites, 10 on the largest; ") {
		t.Errorf("a small batch of the same shape: exit code %d: %s", code, out)
	}
	page := filepath.Join(t.TempDir(), "b.html")
	code, out, said = program(t.Context(), append(small, "--json", "--limits", "--failures", ".2", "--chart", page)...)
	var rows []batchRow
	if err := json.Unmarshal([]byte(out), &rows); code != 0 || err != nil || len(rows) != 4 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, said)
	}
	for _, r := range rows {
		if !(r.Seconds > r.Least && r.Seconds > r.Waits && r.Busy > 0 && r.Busy < 50 && r.Ended > 0 && r.EndedPages > .5 && r.Failed > 300 && r.Failed < 500) {
			t.Errorf("%+v", r)
		}
	}
	b := must.Get(os.ReadFile(page))
	for _, want := range []string{"Busy robots", "random, 50000 B/s, 100 at once", "50000 B/s (bound)", "crawler simulate batch --failures 0.2"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// A recorded graph is a batch, too: a crawl of its largest host takes as long as its waits.
func TestSimulateBatchOfGraph(t *testing.T) {
	file := filepath.Join(t.TempDir(), "no.adj.zst")
	if code, _, said := program(t.Context(), "simulate", "batch", "--graph", file); code != 1 || !strings.Contains(said, file) {
		t.Errorf("exit code %d: %s", code, said)
	}
	code, out, said := program(t.Context(), "simulate", "batch", "--graph", machine.Data(t, "graphs", "hollins-edu.adj.zst"), "--at-once", "1", "--strategy", "profit", "--json")
	var rows []batchRow
	if err := json.Unmarshal([]byte(out), &rows); code != 0 || err != nil || len(rows) != 2 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, said)
	}
	if r := rows[1]; r.Connections != 6012 || r.Waits != 5085*15 || r.Seconds < r.Waits || r.Seconds > 1.2*r.Waits {
		t.Errorf("%+v", r)
	}
}

// The first column of Castillo's table 4.2, and what no number of robots can exceed.
func TestSpeedups(t *testing.T) {
	s := must.Get((&paper{trial: trial{seed: 1}, quick: true}).speedups(t.Context()))
	for i, want := range []float64{.16, .65, .95, .99, 1, 1} {
		var x float64
		if err := json.Unmarshal([]byte(strings.Fields(s.rows[i+1][1])[0]), &x); err != nil || math.Abs(x-want) > .01 {
			t.Errorf("%v: %v instead of %g", s.rows[i+1], x, want)
		}
	}
	// 256 robots are as fast as printed if no site is large, and 64 then lose nothing.
	var few, many float64
	if _, err := fmt.Sscanf(s.rows[6][2]+" "+s.rows[6][3], "%g / 54.6 %g / 220.1", &few, &many); err != nil || few < 60 || many < 190 || many > 230 {
		t.Errorf("%v: %v", s.rows[6], err)
	}
	if remark := s.rows[1][5] + s.rows[2][5]; strings.Count(remark, "more than the link") != 2 || s.rows[6][5] != "" {
		t.Errorf("%q", s.rows)
	}
}

func TestSimulateServers(t *testing.T) {
	page := filepath.Join(t.TempDir(), "s.html")
	args := []string{"simulate", "servers", "--pages", "3000", "--sites", "150", "--robots", "20", "--chart", page}
	code, out, said := program(t.Context(), args...)
	if code != 0 || said != "" {
		t.Fatalf("exit code %d: %s", code, said)
	}
	for _, want := range []string{"1.224 2.190 2.355 2.377", "quality .01: 0.0235.", "\nmet ", "5.3.2  crawl-ability has most quality at 1/3"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	var rows []batch.Case
	_, out, _ = program(t.Context(), append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 21 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for _, r := range rows {
		if !(r.Seconds > r.Half && r.Half > 0 && r.PagesThird < r.PagesMiddle && r.ThirdQuality < r.Middle && r.Middle <= 1+1e-9 && r.Connections >= 150) {
			t.Errorf("%+v", r)
		}
	}
	if b, err := os.ReadFile(page); err != nil || strings.Count(string(b), "quality over time") < 2 {
		t.Errorf("the page has no curves: %v", err)
	}
}
