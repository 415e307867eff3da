package main

import (
	"testing"

	"github.com/parleyweb/parley/client/fresh"
)

// The thesis's policy is available for each of its purposes (V08).
func TestThesisPolicyPresets(t *testing.T) {
	for name, want := range map[string]fresh.Thesis{"thesis": {}, "thesis:general": {}, "thesis:news": {Alpha: .5, Gamma: 2}, "thesis:mirror": {Alpha: -1, Gamma: 2}} {
		s := newSettings()
		s.policy = name
		p, err := s.revisits()
		if err != nil {
			t.Fatal(err)
		}
		if got := p.(fresh.Thesis); got.Alpha != want.Alpha || got.Beta != want.Beta || got.Gamma != want.Gamma {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for _, name := range []string{"thesis:hope", "priced:news", "hope"} {
		s := newSettings()
		s.policy = name
		if p, err := s.revisits(); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
