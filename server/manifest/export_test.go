package manifest

// SmallParts makes one of n URLs begin a page part, and a fold begin beyond least entries in change parts.
func (s *Snapshot) SmallParts(n, least int) {
	s.parted.least = least
	s.parted.begins = func(url string) bool {
		sum := 0
		for _, c := range []byte(url) {
			sum = sum*31 + int(c)
		}
		return sum%n == 0
	}
}
