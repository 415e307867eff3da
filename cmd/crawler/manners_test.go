package main

import "testing"

func TestParsePerAddress(t *testing.T) {
	for _, c := range []struct {
		text  string
		rate  float64
		conns int
		ok    bool
	}{
		{"", 0, 0, true},
		{"2", 2, 0, true},
		{"5/s", 5, 0, true},
		{"0.5/s,8", 0.5, 8, true},
		{" 10/s , 1", 10, 1, true},
		{"0/s", 0, 0, false},
		{"-1", 0, 0, false},
		{"NaN", 0, 0, false},
		{"5/m", 0, 0, false},
		{"5/s,0", 0, 0, false},
		{"5/s,", 0, 0, false},
		{"true", 0, 0, false},
	} {
		rate, conns, err := addressRate(c.text)
		if rate != c.rate || conns != c.conns || (err == nil) != c.ok {
			t.Errorf("--per-address %q: %v a second, %d connections, %v", c.text, rate, conns, err)
		}
	}
}
