// Package references counts what a page refers to besides other pages of its site: files by their kind, embedded media, and hosts of others
// (Castillo 2004, sections 8.3.7 to 8.3.10 and 8.5.3).
//
// A kind is what the last segment of a URL's path has after its last dot, in lower case, such as pdf: one to eight ASCII letters and
// digits, of which one is a letter, so that /release-1.2 has none. What pages have there is no kind: html, htm and the like, and php, asp, jsp and
// others of programs that write pages. cgi, pl, py, rb, exe and dll are kinds, unless the URL has a query: then it runs a program.
package references

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// What is counted of a page. Further kinds, hosts and media of it are not.
const (
	maxKinds = 256
	maxHosts = 64
	maxMedia = 256
	maxKind  = 8   // bytes
	maxHost  = 253 // bytes
)

// Counts are what a page refers to. Each URL counts once.
type Counts struct {
	Kinds []Count  // URLs by kind, of links and of what is embedded; sorted by name, at most 256
	Hosts []Count  // links by host, without its port, that is not the page's own, with "www." or without; sorted by name, at most 64
	Media []uint32 // hashes (CRC-32C) of the URLs of embedded images, audio, video and other objects; ascending, at most 256
}

// A Count is how many URLs have a kind or a host.
type Count struct {
	Name string
	N    int
}

// A Counter counts the references of one page after the other. It reuses its memory. It is for one goroutine.
type Counter struct {
	counts Counts
	origin []byte // of the page, with the slash that follows it
	own    []byte // its host, without "www."
	kind   []byte // memory for one
	out    []byte // memory for Encode
}

// Reset begins with the page at a URL, which is canonical, like those of Add and Embed.
func (c *Counter) Reset(page string) {
	c.origin = append(append(c.origin[:0], protocol.Origin(page)...), '/')
	c.own = bytes.TrimPrefix(hostOf(c.origin), www)
	c.counts = Counts{c.counts.Kinds[:0], c.counts.Hosts[:0], c.counts.Media[:0]}
}

var www = []byte("www.")

// Add counts a URL that was not counted before; link says that the page has a link to it.
func (c *Counter) Add(url []byte, link bool) {
	if link && !bytes.HasPrefix(url, c.origin) {
		if host := hostOf(url); len(host) <= maxHost && !bytes.Equal(bytes.TrimPrefix(host, www), c.own) {
			c.counts.Hosts = count(c.counts.Hosts, host, maxHosts)
		}
	}
	c.counts.Kinds = count(c.counts.Kinds, c.kindOf(url), maxKinds)
}

func count(list []Count, name []byte, most int) []Count {
	for i := range list {
		if list[i].Name == string(name) {
			list[i].N++
			return list
		}
	}
	if len(list) == most || len(name) == 0 {
		return list
	}
	return append(list, Count{string(name), 1})
}

// Embed counts the URL of an embedded image, audio, video or other object, once, whether or not it is also given to Add.
func (c *Counter) Embed(url []byte) {
	if len(c.counts.Media) == maxMedia {
		return
	}
	if hash := crc32.Checksum(url, castagnoli); !slices.Contains(c.counts.Media, hash) {
		c.counts.Media = append(c.counts.Media, hash)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the Counts for Parse, in memory of their own; nil if there are none.
//
// Kinds and hosts are each preceded by their number, a name by its length, and followed by its count, all as varints. The rest are the media,
// four bytes each, big-endian.
func (c *Counter) Encode() []byte {
	if len(c.counts.Kinds)+len(c.counts.Hosts)+len(c.counts.Media) == 0 {
		return nil
	}
	b := c.out[:0]
	for _, list := range [...][]Count{c.counts.Kinds, c.counts.Hosts} {
		slices.SortFunc(list, func(a, b Count) int { return strings.Compare(a.Name, b.Name) })
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, n := range list {
			b = append(binary.AppendUvarint(b, uint64(len(n.Name))), n.Name...)
			b = binary.AppendUvarint(b, uint64(n.N))
		}
	}
	slices.Sort(c.counts.Media)
	for _, m := range c.counts.Media {
		b = binary.BigEndian.AppendUint32(b, m)
	}
	c.out = b
	return bytes.Clone(b)
}

// Parse returns what Encode has encoded, and false for anything else.
func Parse(b []byte) (*Counts, bool) {
	c := new(Counts)
	var ok1, ok2 bool
	c.Kinds, b, ok1 = parse(b, maxKinds, maxKind)
	c.Hosts, b, ok2 = parse(b, maxHosts, maxHost)
	if !ok1 || !ok2 || len(b)%4 != 0 || len(b) > 4*maxMedia {
		return nil, false
	}
	for ; len(b) > 0; b = b[4:] {
		c.Media = append(c.Media, binary.BigEndian.Uint32(b))
		if n := len(c.Media); n > 1 && c.Media[n-2] >= c.Media[n-1] {
			return nil, false
		}
	}
	return c, true
}

// parse cuts at most so many counts off b, with names of at most so many bytes.
func parse(b []byte, most, longest uint64) (list []Count, rest []byte, ok bool) {
	length, k := binary.Uvarint(b)
	if k <= 0 || length > most {
		return nil, nil, false
	}
	b = b[k:]
	for i := range int(length) {
		size, k := binary.Uvarint(b)
		if k <= 0 || size == 0 || size > min(longest, uint64(len(b)-k)) {
			return nil, nil, false
		}
		name := string(b[k : k+int(size)])
		b = b[k+int(size):]
		n, k := binary.Uvarint(b)
		if k <= 0 || n == 0 || n > math.MaxInt32 || i > 0 && list[i-1].Name >= name {
			return nil, nil, false
		}
		b = b[k:]
		list = append(list, Count{name, int(n)})
	}
	return list, b, true
}

// hostOf returns the host of a URL, without its port.
func hostOf(url []byte) []byte {
	_, host, _ := bytes.Cut(url, []byte("://"))
	host, _, _ = bytes.Cut(host, []byte("/"))
	if i := bytes.LastIndexByte(host, ':'); i > bytes.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return host
}

// kindOf returns the kind of a URL, valid until the next call; empty if it has none.
func (c *Counter) kindOf(url []byte) []byte {
	path, query := url, false
	if i := bytes.IndexByte(url, '?'); i >= 0 {
		path, query = url[:i], true
	}
	end := len(path)
	if end >= 5 && string(path[end-5:]) == ".html" { // most links
		return nil
	}
	tail := path[max(0, end-1-maxKind):]
	dot, letter := bytes.LastIndexByte(tail, '.'), false
	kind := append(c.kind[:0], tail[dot+1:]...)
	c.kind = kind
	for i, b := range kind {
		if 'a' <= b|0x20 && b|0x20 <= 'z' {
			kind[i], letter = b|0x20, true
		} else if b < '0' || b > '9' {
			return nil
		}
	}
	if dot < 0 || !letter {
		return nil
	}
	switch string(kind) {
	case "html", "htm", "xhtml", "xht", "xhtm", "shtml", "shtm", "htmls", "php", "php3", "php4", "php5", "php7", "phtml", "asp", "aspx", "ashx", "jsp", "jspx", "jspa",
		"jhtml", "do", "cfm", "cfml", "action", "lasso", "nsf", "fcgi", "pcgi":
		return nil
	case "cgi", "pl", "py", "rb", "exe", "dll":
		if query {
			return nil
		}
	}
	return kind
}
