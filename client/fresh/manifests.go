package fresh

// Manifests is what the manifests of all sites have been worth together. A site's own is asked for
// only if it is believed, and shows what it is worth only if it is asked for: so one of which
// little is known is taken for one like the others. The zero value has seen none, and believes 19 of 20
// dates and changes.
type Manifests struct{ right, wrong, heard, missed float64 }

// Add adds what is known of one site's.
func (m *Manifests) Add(s *Signal) {
	m.right += count(s.Right)
	m.wrong += count(s.Wrong)
	m.heard += count(s.Heard)
	m.missed += count(s.Missed)
}

const (
	soMany  = 20   // judgements for which what others were worth counts; of all together those that are believed before
	mostFew = .999 // that is told of at most
)

// Precision is the expected share of what a site's manifest says that is right.
func (m *Manifests) Precision(s *Signal) float64 { return beside(s.Right, s.Wrong, m.right, m.wrong) }

// Recall is the expected share of the site's changes that its manifest has by and by.
func (m *Manifests) Recall(s *Signal) float64 {
	return min(beside(s.Heard, s.Missed, m.heard, m.missed), mostFew)
}

// beside is the share of yes among what was seen of one, beside all.
func beside(yes, no float32, allYes, allNo float64) float64 {
	all := (allYes + soMany - 1) / (allYes + allNo + soMany)
	return (count(yes) + soMany*all) / (count(yes) + count(no) + soMany)
}
