package catalog

// For tests.
var (
	ReadList  = readList
	ParseTime = parseTime
)

// SetMost sets how many URLs all sources may name.
func (c *Catalog) SetMost(n int) { c.site.listing.most = n }
