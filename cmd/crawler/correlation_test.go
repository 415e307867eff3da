package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/command"
)

// The correlations of a list of sites are printed in one line; link scores count instead of pages where there are any, and sites that were
// not measured do not count.
func TestCorrelationOfSites(t *testing.T) {
	rows := func(rank bool) io.ReadCloser {
		var b bytes.Buffer
		for i, x := range [][4]float64{{10, 100, .5, 1}, {20, 300, .3, 0}, {30, 200, .4, 2}, {40, 400, .1, 3}, {1000, 0, 0, 9}} {
			r := siteRow{Origin: fmt.Sprint(i), Pages: int(x[0]), Speed: x[1], Latency: x[2]}
			if rank {
				r.Rank = x[3]
			}
			json.NewEncoder(&b).Encode(r)
		}
		return io.NopCloser(&b)
	}
	run := func(body io.ReadCloser, form string) (string, error) {
		var out bytes.Buffer
		err := correlate(&command.Env{Stdout: &out}, body, form)
		return out.String(), err
	}
	// By hand: deviations of pages -15 -5 5 15, of speeds -150 50 -50 150, of latencies .175 -.025 .075 -.225.
	out, err := run(rows(false), "table")
	if want := "4 sites: r(pages, speed) = 0.800 (p = 0.27), r(pages, latency) = -0.832 (p = 0.23), r(speed, latency) = -0.983 (p = 0.018)\n"; out != want || err != nil {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
	var c correlations
	out, err = run(rows(true), "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &c)
	}
	if err != nil || c.Quality != "rank" || c.Sites != 4 || math.Abs(c.QualitySpeed.R-.4) > 1e-9 {
		t.Errorf("%s: %+v, %v", out, c, err)
	}
	if _, err := run(io.NopCloser(strings.NewReader("{}\n")), "table"); err == nil || !strings.Contains(err.Error(), "at least 4") {
		t.Errorf("without measured sites: %v", err)
	}
	// Castillo's figures, section 3.3: 750 sites.
	if p := fisher(-.069, 750); math.Abs(p-.058) > .001 {
		t.Errorf("p = %v for r = -.069", p)
	}
}
