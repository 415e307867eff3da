package xmlpull

// Attrs returns the number of attributes on a Start token.
func (r *Reader) Attrs() int { return len(r.attrs.list) }

// AttrAt returns attribute i of 0 to Attrs()-1, in document order.
func (r *Reader) AttrAt(i int) (space, local, value []byte) {
	a := &r.attrs.list[i]
	return a.space, a.local, a.value
}

// Depth returns the number of open elements, including that of a Start or End token.
func (r *Reader) Depth() int { return len(r.open.stack) }
