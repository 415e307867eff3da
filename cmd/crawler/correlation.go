package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/parleyweb/parley/internal/command"
)

// Correlations are those of Castillo's experiment (section 3.3): whether good sites are fast ones. Speed is bytes a second, and latency the
// seconds to the first byte.
type correlations struct {
	Sites          int         `json:"sites"`   // that were measured
	Quality        string      `json:"quality"` // of a site: rank, the sum of the link scores of its pages, or if there are none, pages
	QualitySpeed   correlation `json:"quality_speed"`
	QualityLatency correlation `json:"quality_latency"`
	SpeedLatency   correlation `json:"speed_latency"`
}

// A correlation is Pearson's coefficient, and the probability that one as far from 0 comes about by chance, by Fisher's transformation.
type correlation struct {
	R float64 `json:"r"`
	P float64 `json:"p"`
}

func (c correlation) String() string { return fmt.Sprintf("%.3f (p = %.2g)", c.R, c.P) }

// correlate prints the correlations of the rows of "crawler sites".
func correlate(env *command.Env, body io.ReadCloser, form string) (err error) {
	defer func() { err = errors.Join(err, body.Close()) }()
	var pages, ranks, speeds, latencies []float64
	for dec := json.NewDecoder(body); ; {
		var r siteRow
		if err := dec.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if r.Latency > 0 {
			pages, ranks, speeds, latencies = append(pages, float64(r.Pages)), append(ranks, r.Rank), append(speeds, r.Speed), append(latencies, r.Latency)
		}
	}
	c := correlations{Sites: len(pages), Quality: "pages"}
	quality := pages
	if varies(ranks) {
		c.Quality, quality = "rank", ranks
	}
	if c.Sites < 4 || !varies(quality) || !varies(speeds) || !varies(latencies) {
		return fmt.Errorf("correlate %d sites: want at least 4, and not all alike: crawl more of them", c.Sites)
	}
	c.QualitySpeed, c.QualityLatency, c.SpeedLatency = pearson(quality, speeds), pearson(quality, latencies), pearson(speeds, latencies)
	if form == "json" {
		return env.PrintJSON(c)
	}
	_, err = fmt.Fprintf(env.Stdout, "%d sites: r(%s, speed) = %v, r(%[2]s, latency) = %[4]v, r(speed, latency) = %v\n",
		c.Sites, c.Quality, c.QualitySpeed, c.QualityLatency, c.SpeedLatency)
	return err
}

func varies(x []float64) bool {
	for _, v := range x {
		if v != x[0] {
			return true
		}
	}
	return false
}

// pearson returns the correlation of two lists of one length, which both vary.
func pearson(x, y []float64) correlation {
	mean := func(x []float64) (sum float64) {
		for _, v := range x {
			sum += v / float64(len(x))
		}
		return sum
	}
	mx, my := mean(x), mean(y)
	var xx, yy, xy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
	}
	r := max(-1, min(1, xy/math.Sqrt(xx*yy)))
	return correlation{r, fisher(r, len(x))}
}

// fisher returns the probability that a correlation of n pairs is as far from 0 as r by chance.
func fisher(r float64, n int) float64 {
	return math.Erfc(math.Abs(math.Atanh(r)) * math.Sqrt(float64(n-3)/2))
}

// millis writes seconds as a duration to a tenth of a millisecond, and "-" for 0.
func millis(seconds float64) string {
	return known(seconds > 0, time.Duration(seconds*float64(time.Second)).Round(time.Millisecond/10).String())
}

// known returns a cell, or "-" if its value is not known.
func known(is bool, cell string) string {
	if is {
		return cell
	}
	return "-"
}
