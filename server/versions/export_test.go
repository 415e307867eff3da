package versions

// What tests name beside what everybody does.

func (x *Store) KeepPage(url string, page []byte) { x.keepPage(url, page) }
