package main

import (
	"fmt"
	"testing"
)

// One seed says nothing of the error of its figure.
func TestErrorOfOneSeed(t *testing.T) {
	for _, x := range []struct {
		of   []float64
		want string
	}{{[]float64{.5}, "0.5000 (±unknown)"}, {[]float64{.5, .7}, "0.6000 (±0.1000)"}, {[]float64{.5, .5}, "0.5000 (±0.0000)"}} {
		mean, err := meanError(x.of)
		if got := fmt.Sprintf("%.4f (±%.4f)", mean, err); got != x.want {
			t.Errorf("%v: %s, want %s", x.of, got, x.want)
		}
		if margin := err.limit(); !(margin >= 0) {
			t.Errorf("%v: a limit of %v", x.of, margin)
		}
	}
}
