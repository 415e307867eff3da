package docroot

// URLOf and PlacesOf open the mapping between places and URLs to tests.
func URLOf(base string, clean bool, place string) string {
	m, err := newURLMap(base, clean)
	if err != nil {
		panic(err)
	}
	return m.url(place)
}

func PlacesOf(base string, clean bool, url string) []string {
	m, err := newURLMap(base, clean)
	if err != nil {
		panic(err)
	}
	return m.places(url)
}
