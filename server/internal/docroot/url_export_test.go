package docroot

import "strings"

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

// url returns the URL of a file.
func (m urlMap) url(place string) string {
	dir, name := splitPlace(place)
	return m.prefix(dir) + m.tail(name)
}

// prefix returns the URL of a directory.
func (m urlMap) prefix(place string) string {
	if place == "" {
		return m.base
	}
	var b strings.Builder
	b.WriteString(m.base)
	for name := range strings.SplitSeq(place, "/") {
		b.WriteString(escapeName(name))
		b.WriteByte('/')
	}
	return b.String()
}
