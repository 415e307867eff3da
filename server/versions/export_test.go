package versions

// Names that only tests use.

func (x *Store) KeepPage(url string, page []byte) { x.keepPage(url, page) }
