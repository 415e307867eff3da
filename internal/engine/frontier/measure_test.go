package frontier_test

import (
	"math"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

// After a step change an estimate covers all but .8^n of it in n measurements, and the requests over a connection get there.
func TestSpeedFollowsAStep(t *testing.T) {
	var s frontier.Speed
	s.Learn(0, .1, 100)
	if s != (frontier.Speed{Response: float64(float32(.1)), PerConnection: 100}) {
		t.Errorf("after one measurement: %+v", s)
	}
	s.Learn(.2, 0, 0)
	for range 5 {
		s.Learn(math.NaN(), 1.1, 0)
	}
	if want := 1.1 - math.Pow(.8, 5); math.Abs(s.Response-want) > 1e-6 || math.Abs(s.Connect-.2) > 1e-6 || s.PerConnection != 100 {
		t.Errorf("after a step: %+v, want a response of %v s", s, want)
	}
	for range 40 {
		s.Learn(0, 0, 3)
	}
	if s.PerConnection != 3 {
		t.Errorf("%d requests a connection, want 3", s.PerConnection)
	}
	s.Learn(0, 0, 10)
	if s.PerConnection != 4 {
		t.Errorf("%d requests a connection, want 4", s.PerConnection)
	}
}

// Cao's three orders are offered by his names, of which one has another here.
func TestOrdersBySpeedAreOffered(t *testing.T) {
	for name, want := range map[string]string{"performance": "performance", "quality": "profit", "crawl-ability": "crawl-ability"} {
		if s, err := frontier.Named(name, 1); err != nil || s.Name() != want {
			t.Errorf("%s is %v, %v", name, s, err)
		}
	}
}
