package sim

import (
	"cmp"
	"math/rand/v2"
)

// A character is a kind of site, by how well it tells of its changes.
type character struct {
	Name string
	Site Site
}

// characters are the five of the world of mixed trust, a fifth of the sites each. The
// liar tells of each page every day, whatever happens, and of half of its changes.
func characters() []character {
	return []character{
		{"honest", Site{Push: true, Recall: .99, Precision: .98}},
		{"lossy", Site{Push: true, Recall: .9, Precision: .98}},
		{"sloppy", Site{Push: true, Recall: .95, Precision: .5}},
		{"liar", Site{Push: true, Recall: .5, Flood: 1}},
		{"silent", Site{}},
	}
}

// TrustWeb is a web of the size used by the table of mixed trust.
func TrustWeb(rates string, rho float64) Web {
	return Web{Rates: rates, Rho: rho, Pages: 3000, Sites: 60}
}

// MixedTrust returns the same world with sites of all characters, as many of each, and the character of each
// site.
func (w *World) MixedTrust(seed uint64) (*World, []int) {
	kinds := characters()
	order := rand.New(rand.NewPCG(cmp.Or(seed, 1), 6)).Perm(len(w.Sites))
	is := make([]int, len(w.Sites))
	for i, s := range order {
		is[s] = i % len(kinds)
	}
	v := w.speaking(func(s int) Site { return kinds[is[s]].Site })
	v.Name += ", mixed trust"
	return v, is
}

// AllLiars returns the same world with every site a liar.
func (w *World) AllLiars() *World {
	for _, c := range characters() {
		if c.Name == "liar" {
			w = w.All(c.Site)
		}
	}
	w.Name += ", all liars"
	return w
}
