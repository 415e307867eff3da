package family

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// maxStored is how many families of a site are stored, those with the most visits.
const maxStored = 64

// Append appends the stored form of t: nothing if no family has a useless visit.
func (t *Tree) Append(b []byte) []byte {
	var list []*node
	some := false
	for _, n := range t.nodes {
		some = some || n.bad > 0
		if n.parent != nil && n.total > 0 {
			list = append(list, n)
		}
	}
	if !some {
		return b
	}
	slices.SortFunc(list, func(a, b *node) int { return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.key, b.key)) })
	list = append([]*node{t.root}, list[:min(len(list), maxStored)]...)
	b = append(b, 1)
	for _, x := range []float64{t.asked, t.spent, t.tried} {
		b = binary.AppendUvarint(b, uint64(x))
	}
	for _, n := range list {
		b = binary.AppendUvarint(b, uint64(len(n.key)))
		b = append(b, n.key...)
		for _, x := range []uint64{uint64(100 * n.news), uint64(100 * n.visits), uint64(n.total), uint64(n.bad)} {
			b = binary.AppendUvarint(b, x)
		}
	}
	return b
}

// Parse reads what Append wrote. Anything else gives the Tree of a new site.
func Parse(b []byte) *Tree {
	t := New()
	if len(b) == 0 || b[0] != 1 {
		return t
	}
	ok := true
	b = b[1:]
	next := func(most uint64) uint64 {
		v, n := binary.Uvarint(b)
		if ok = ok && n > 0 && v <= most; !ok {
			return 0
		}
		b = b[n:]
		return v
	}
	const most = 1 << 40
	t.asked, t.spent, t.tried = float64(next(most)), float64(next(most)), float64(next(most))
	var list []*node
	for ok && len(b) > 0 && len(list) <= maxStored {
		n := &node{}
		size := next(maxKey)
		if ok = ok && size <= uint64(len(b)); !ok {
			break
		}
		n.key, b = string(b[:size]), b[size:]
		n.news, n.visits = float64(next(most))/100, float64(next(most))/100
		n.total, n.bad = int(next(most)), int(next(most))
		ok = ok && n.news <= n.visits && n.bad <= n.total && strings.HasPrefix(n.key, "/")
		list = append(list, n)
	}
	if !ok || len(b) > 0 {
		return New()
	}
	for _, n := range list {
		if n.key == "/" {
			*t.root = *n
		} else if t.nodes[n.key] == nil {
			t.nodes[n.key] = n
		}
	}
	for _, n := range list {
		if n == t.nodes[n.key] {
			n.parent = t.around(n.key)
			n.parent.children++
		}
	}
	return t
}

// around returns the innermost known family that contains the family of this name.
func (t *Tree) around(key string) *node {
	for key != "/" {
		i := strings.LastIndexByte(strings.TrimSuffix(key, "/"), '/') + 1
		switch q := strings.IndexByte(key, '?'); {
		case strings.HasSuffix(key, "/*?"), q < 0:
			key = key[:i]
		case q < len(key)-1:
			key = key[:q+1]
		default:
			key = key[:i] + "*?"
		}
		if n := t.nodes[key]; n != nil {
			return n
		}
	}
	return t.root
}
