package jetlog

import "github.com/parleyweb/parley/server/content"

// Parts reads what a message says of a page, and returns in how many parts each version is stored.
func Parts(name string, data []byte) (parts []int, err error) {
	_, is, err := parseShown(name, data)
	if err == nil {
		for _, v := range is.all() {
			parts = append(parts, v.parts())
		}
	}
	return parts, err
}

// NamedArchives reads which archives a writer names.
func NamedArchives(data []byte) (list []content.Archived, err error) {
	all, err := parseNamed(data)
	for i := range all {
		list = append(list, all[i].archived())
	}
	return list, err
}
