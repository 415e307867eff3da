package jetlog

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
