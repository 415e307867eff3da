package census

import (
	"hash/fnv"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// mostNames is how many kinds of files, domains and media types are told apart: those that are met first. No Web has so many, but hostile
// pages may.
const mostNames = 10_000

// references are what pages refer to besides pages (Castillo 8.3.7 to 8.3.10, 8.5.3).
type references struct {
	kinds   map[string]*kind
	domains map[string]*domain
	hosts   distinct // 16 bits of a domain's number, and 48 of a host's hash

	media   map[uint8]int64 // by the depth of the page
	files   distinct        // depth and hash
	damaged int64
}

type kind struct{ links, pages int64 }

type domain struct {
	number uint64
	links  int64
}

// distinct are numbers, of which each counts once.
type distinct struct {
	list []uint64
	full int // when it is to be made shorter
}

func (d *distinct) add(n uint64) {
	if d.list = append(d.list, n); len(d.list) >= max(d.full, 1<<20) {
		d.compact()
		d.full = 2 * len(d.list)
	}
}

func (d *distinct) compact() {
	slices.Sort(d.list)
	d.list = slices.Compact(d.list)
}

// by returns how many there are with the same bits above the given number of low ones, by these.
func (d *distinct) by(low int) map[uint64]int64 {
	d.compact()
	count := map[uint64]int64{}
	for _, n := range d.list {
		count[n>>low]++
	}
	return count
}

// named returns the entry of a name, or that of "other" if there are too many.
func named[T any](m map[string]*T, name string) *T {
	if x, ok := m[name]; ok {
		return x
	}
	if len(m) >= mostNames {
		name = "other"
	}
	if m[name] == nil {
		m[name] = new(T)
	}
	return m[name]
}

// readReferences counts what pages refer to.
func (t *taking) readReferences() error {
	r := &t.references
	r.kinds, r.domains, r.media = map[string]*kind{}, map[string]*domain{}, map[uint8]int64{}
	err := t.col.References(func(page frontier.PageID, refs *collection.References, damaged error) bool {
		switch {
		case t.ctx.Err() != nil:
			return false
		case damaged != nil:
			r.damaged++
		case page < frontier.PageID(len(t.book.number)):
			if n := t.book.number[page]; n != 0 && n != redirects {
				r.add(refs, t.book.depth[n-1])
			}
		}
		return true
	})
	if err == nil {
		err = t.ctx.Err()
	}
	return err
}

// add counts what a page at a depth refers to.
func (r *references) add(refs *collection.References, depth uint8) {
	for _, c := range refs.Kinds {
		k := named(r.kinds, c.Name)
		k.links += int64(c.N)
		k.pages++
	}
	for _, c := range refs.Hosts {
		d := named(r.domains, domainOf(c.Name))
		if d.number == 0 {
			d.number = uint64(len(r.domains))
		}
		d.links += int64(c.N)
		hash := fnv.New64a()
		hash.Write([]byte(c.Name))
		r.hosts.add(d.number<<48 | hash.Sum64()>>16)
	}
	r.media[depth] += int64(len(refs.Media))
	for _, hash := range refs.Media {
		r.files.add(uint64(depth)<<32 | uint64(hash))
	}
}

// domainOf returns the top-level domain of a host, and "address" for an IP address.
func domainOf(host string) string {
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return "address"
	}
	return host[strings.LastIndexByte(host, '.')+1:]
}

// groups are the kinds of files that Castillo 8.3.7 to 8.3.10 has, by their extensions, and of later ones.
const groups = `
documents pdf txt doc docx rtf xls xlsx ppt pptx pps ps eps dvi odt ods odp odg sxw tex csv epub mobi djvu md
XML xml rdf sgml sgm docbook dtd xsd xsl xslt rss atom owl json
images gif jpg jpeg jpe png bmp tif tiff svg svgz ico webp avif heic psd
audio mp3 ra ram rm wav mid midi wma ogg oga opus flac m4a aac au aif aiff
video mpg mpeg mpe avi mov qt mp4 m4v wmv asf flv webm mkv ogv 3gp
Flash swf dcr
source c h cc cpp cxx hpp cs java py rb pl pm sh bat go rs js ts vb pas f f90 lisp el lua sql asm s diff patch
software exe rpm deb msi dmg apk jar bin iso img dll cab pkg appimage war xpi
compressed zip gz tgz bz2 tbz tbz2 z xz txz zst 7z rar tar lzh arj sit hqx
style css map less scss
fonts woff woff2 ttf otf eot`

// tables are the tables of references.
func (r *references) tables(col *collection.Collection, s *sites) []Table {
	kinds := table("references", "R08, R09, R10, R11, Castillo 8.3.7 to 8.3.10", 2, "group", "extension", "links", "pages")
	for _, ext := range sorted(r.kinds) {
		kinds.row(groupOf(groups, ext), ext, r.kinds[ext].links, r.kinds[ext].pages)
	}
	slices.SortStableFunc(kinds.Rows, func(a, b []any) int { return strings.Compare(a[0].(string), b[0].(string)) })

	media := table("media", "R09, Castillo 8.3.8", 1, "depth", "links", "distinct", "repeated_share")
	files := r.files.by(32)
	for _, depth := range sorted(r.media) {
		if n := r.media[depth]; n > 0 {
			media.row(int(depth), n, files[uint64(depth)], 1-per(files[uint64(depth)], n))
		}
	}

	own := map[string]bool{}
	for _, x := range s.counts {
		site, _ := col.SiteByID(x.id)
		if u, err := url.Parse(site.Origin); err == nil {
			own[domainOf(u.Hostname())] = true
		}
	}
	domains := table("tlds", "R18, Castillo 8.5.3", 1, "tld", "own", "links", "hosts", "share")
	hosts := r.hosts.by(48)
	var foreign int64
	for name, d := range r.domains {
		if !own[name] {
			foreign += d.links
		}
	}
	for _, name := range sorted(r.domains) {
		d := r.domains[name]
		if own[name] {
			domains.row(name, 1, d.links, hosts[d.number], 0.0)
		} else {
			domains.row(name, 0, d.links, hosts[d.number], per(d.links, foreign))
		}
	}
	return []Table{kinds, media, domains}
}
