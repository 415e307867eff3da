// Package family keeps a crawl out of traps: parts of a site that lead to ever more URLs and no new content, such as
// a faceted search, in which every combination of parameters is a URL, or relative links that make a path ever longer.
//
// The URLs of a site are grouped into families: by directory, with all numbers alike, then by the name of the
// page, then by the names of the parameters, without their values. The families of a URL are nested:
//
//	/   /shop/   /shop/*?   /shop/list.php?   /shop/list.php?color&size
//
// Each visit is evidence about all families of its URL. It is useful where a good part of its text was not
// seen at the site before, or where it found URLs outside the family, depending on the yield of those. It is useless
// where it did neither and found several more URLs of the family; or where its URL has a query and it returned the
// content of another page, or an error. A page without a query that leads to no other of the family counts a little: such
// pages end by themselves. Other visits count neither way, and neither do URLs that are never fetched, such as pictures.
//
// The yield of a family is the share of useful visits among the recent ones. A family with few visits has
// the yield of its parent, or below the root the highest. A family with a low yield is poor: its pages are fetched
// only while useless visits are no more than a share of the requests to the site, or without a query few, so that a small
// site of pages with hardly any text is crawled whole; otherwise they wait. Of each new family one page is tried,
// however poor its parent is. Until a family has proved useful, few of its pages are under way at a time.
package family

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

const (
	poor    = 0.2 // a family with a lower yield is poor
	useful  = 0.3 // the least worth of a useful visit
	deadEnd = 0.3 // the worth of a visit to a page without a query that found no URL of the family: such pages end by themselves
	prior   = 4   // the weight, in visits, of the parent's yield, or of the initial yield of 1
	memory  = 16  // so many visits, and an eighth of all, count as recent

	smallSite  = 30  // useless visits to pages without a query, whatever the share is: a site of twice as many pages is crawled whole
	mostTries  = 10  // of new families in poor ones; in addition, half of the share of the requests
	firstAsked = 8   // pages of a family that may be under way before anything is known
	mostHeld   = 200 // pages that wait in a poor family; links to more are refused
	maxNodes   = 256 // families of a site; beyond, their parents count
	maxDirs    = 4   // directories of a URL that make families
	maxKey     = 200 // bytes of the name of a family
)

// A Tree holds the families of a site. It is not safe for concurrent use.
type Tree struct {
	nodes        map[string]*node
	root         *node
	asked, spent float64 // requests to the site; those that were useless, or are under way and may be
	tried        float64 // tries of new families in poor ones
	out          map[frontier.PageID]given
	held         map[frontier.PageID]bool
	buf          []byte
	keys         [][2]int
	chain, other []*node
}

// A given is a page that is under way.
type given struct {
	leaf  *node
	spent bool // it is counted in Tree.spent, since its family is poor
}

type node struct {
	key          string
	parent       *node
	children     int
	news, visits float64 // recent
	total, bad   int     // all visits; useless ones
	underWay     int
	held         []frontier.PageID // IDs that are not in Tree.held are stale
	waiting      int               // in held
	refused      int               // links that were dropped, see Full
}

// New returns the Tree of a new site.
func New() *Tree {
	t := &Tree{nodes: map[string]*node{}, out: map[frontier.PageID]given{}, held: map[frontier.PageID]bool{}}
	t.root = &node{key: "/"}
	t.nodes["/"] = t.root
	return t
}

func (n *node) yield() float64 {
	around := 1.
	if n.parent != nil && n.parent.parent != nil {
		around = n.parent.yield()
	}
	return (n.news + prior*around) / (n.visits + prior)
}

func (n *node) poor() bool { return n.yield() < poor }

// room returns how many more pages of a family may be under way.
func (n *node) room() int {
	if n.parent == nil {
		return math.MaxInt
	}
	return firstAsked + max(0, 2*(n.total-n.bad)-2*n.bad) - n.underWay
}

// new reports whether a family was never visited, so that it is worth a try. Combinations of parameters never are.
func (n *node) new() bool { return n.total+n.underWay == 0 && n.scope() == n }

// mayTry reports whether a page of a new family in a poor one may be fetched.
func (t *Tree) mayTry(share float64) bool { return t.tried+1 <= mostTries+share/2*t.asked }

// mayWaste reports whether a page of a poor family may be fetched.
func (t *Tree) mayWaste(n *node, share float64) bool {
	return t.spent+1 <= share*t.asked || t.spent < smallSite && share > 0 && !strings.Contains(n.key, "?")
}

// scope returns the family outside of which a found URL counts: all combinations of parameters belong to one page.
func (n *node) scope() *node {
	if i := strings.IndexByte(n.key, '?'); i >= 0 && i < len(n.key)-1 && n.parent.parent != nil {
		return n.parent
	}
	return n
}

// split writes the names of all families of a URL to t.buf and t.keys, the outermost first.
func (t *Tree) split(url string) {
	b, keys := t.buf[:0], t.keys[:0]
	if i := strings.Index(url, "://"); i >= 0 {
		url = url[i+3:]
		url = url[max(0, strings.IndexByte(url, '/')):]
	}
	path, query, program := strings.Cut(url, "?")
	b = append(b, '/')
	keys = append(keys, [2]int{0, 1})
	from, rest := 0, strings.TrimPrefix(path, "/")
	for dirs := 0; ; dirs++ {
		dir, more, ok := strings.Cut(rest, "/")
		if !ok {
			break
		}
		if rest = more; dirs < maxDirs {
			b = append(append(b, alike(dir)...), '/')
			keys = append(keys, [2]int{from, len(b)})
		}
	}
	name := alike(rest)
	begin := func(end string) { // another name, in the last directory
		dir := keys[len(keys)-1]
		for !strings.HasSuffix(string(b[dir[0]:dir[1]]), "/") {
			dir[1]--
		}
		from = len(b)
		b = append(append(b, b[dir[0]:dir[1]]...), end...)
		keys = append(keys, [2]int{from, len(b)})
	}
	if !program {
		if name != rest {
			begin(name)
		}
	} else {
		begin("*?")
		begin(name + "?")
		if names := parameters(query); names != "" {
			begin(name + "?" + names)
		}
	}
	t.buf, t.keys = b, keys
}

// alike returns a part of a path with its numbers replaced by "#".
func alike(s string) string {
	if !strings.ContainsAny(s, "0123456789") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			b.WriteByte(s[i])
		} else if i == 0 || s[i-1] < '0' || s[i-1] > '9' {
			b.WriteByte('#')
		}
	}
	return b.String()
}

// parameters returns the names of the parameters of a query, each once, in order.
func parameters(query string) string {
	var names []string
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if name = strings.ReplaceAll(alike(name), "/", ":"); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "&")
}

// find returns the known families of a URL, the outermost first, in the memory of list.
func (t *Tree) find(url string, list []*node) []*node {
	t.split(url)
	list = list[:0]
	for _, k := range t.keys {
		if n := t.nodes[string(t.buf[k[0]:k[1]])]; n != nil {
			list = append(list, n)
		}
	}
	return list
}

// enter is find for a URL that is fetched: it adds the families that are not known.
func (t *Tree) enter(url string) []*node {
	t.split(url)
	list := t.chain[:0]
	parent := t.root
	for _, k := range t.keys {
		key := t.buf[k[0]:k[1]]
		n := t.nodes[string(key)]
		if n == nil {
			parent.children++ // so that evict keeps it
			if len(key) > maxKey || len(t.nodes) >= maxNodes && !t.evict() {
				parent.children--
				break
			}
			n = &node{key: string(key), parent: parent}
			t.nodes[n.key] = n
		}
		list = append(list, n)
		parent = n
	}
	t.chain = list
	return list
}

// evict removes the family with the fewest visits, and reports whether there was one to remove.
func (t *Tree) evict() bool {
	var least *node
	for _, n := range t.nodes {
		if n.parent == nil || n.children > 0 || n.underWay > 0 || n.waiting > 0 {
			continue
		}
		if least == nil || n.total < least.total || n.total == least.total && n.key < least.key {
			least = n
		}
	}
	if least == nil || least.total >= memory {
		return false
	}
	least.parent.children--
	delete(t.nodes, least.key)
	return true
}

// Ask reports whether a page that was found only by links may be fetched now: at most a share of the requests
// goes to pages of poor families. If not, it is held until Release.
func (t *Tree) Ask(id frontier.PageID, url string, share float64) bool {
	list := t.enter(url)
	leaf := list[len(list)-1]
	ok := true
	for _, n := range list {
		ok = ok && n.room() > 0
	}
	is := given{leaf: leaf, spent: leaf.poor()}
	if ok && is.spent && !t.mayWaste(leaf, share) {
		ok = leaf.new() && t.mayTry(share)
		if ok {
			t.tried++
		}
	}
	if !ok {
		if t.held[id] {
			return false
		}
		t.held[id] = true
		leaf.held = append(leaf.held, id)
		leaf.waiting++
		return false
	}
	if t.out[id].leaf == nil {
		t.out[id] = is
		if is.spent {
			t.spent++
		}
		for n := leaf; n != nil; n = n.parent {
			n.underWay++
		}
	}
	return true
}

// Back records that a page is not under way any more.
func (t *Tree) Back(id frontier.PageID) {
	was := t.out[id]
	delete(t.out, id)
	if was.spent {
		t.spent--
	}
	for n := was.leaf; n != nil; n = n.parent {
		n.underWay--
	}
}

// Holds reports whether a page is held, and Held how many are.
func (t *Tree) Holds(id frontier.PageID) bool { return t.held[id] }
func (t *Tree) Held() int                     { return len(t.held) }

// Let releases a held page, since its site has announced it.
func (t *Tree) Let(id frontier.PageID) {
	if !t.held[id] {
		return
	}
	delete(t.held, id)
	for _, n := range t.nodes {
		if i := slices.Index(n.held, id); i >= 0 {
			n.held = slices.Delete(n.held, i, i+1)
			n.waiting--
			return
		}
	}
}

// take moves up to n pages that a family holds to list.
func (t *Tree) take(list []frontier.PageID, f *node, n int) []frontier.PageID {
	n = min(n, len(f.held))
	for _, id := range f.held[:n] {
		delete(t.held, id)
	}
	list = append(list, f.held[:n]...)
	f.held = slices.Clone(f.held[n:])
	f.waiting -= n
	return list
}

// Release returns held pages that may be fetched by now.
func (t *Tree) Release(share float64) (list []frontier.PageID) {
	if len(t.held) == 0 {
		return nil
	}
	var waiting []*node
	for _, n := range t.nodes {
		if n.waiting > 0 {
			waiting = append(waiting, n)
		}
	}
	slices.SortFunc(waiting, func(a, b *node) int { return cmp.Compare(a.key, b.key) })
	var best *node
	most := 0.
	for _, n := range waiting {
		if n.poor() {
			if n.new() && t.mayTry(share) {
				list = t.take(list, n, 1)
				continue
			}
			// A family with few visits may be better than it seems.
			if s := n.yield() + 1/math.Sqrt(1+float64(n.total)); best == nil || s > most {
				best, most = n, s
			}
			continue
		}
		room := math.MaxInt
		for f := n; f != nil; f = f.parent {
			room = min(room, f.room())
		}
		list = t.take(list, n, max(0, room))
	}
	if best != nil && t.mayWaste(best, share) {
		list = t.take(list, best, 1)
	}
	return list
}

// Full reports whether a link to a URL is to be dropped, since enough pages of its family wait.
func (t *Tree) Full(url string) bool {
	t.other = t.find(url, t.other)
	leaf := t.other[len(t.other)-1]
	if !leaf.poor() {
		return false
	}
	held := 0
	for n := leaf; n != nil && n.poor(); n = n.parent {
		held += n.waiting
	}
	if held < mostHeld && len(t.held) < 4*mostHeld {
		return false
	}
	leaf.refused++
	return true
}

// A Visit is the result of fetching a page.
type Visit struct {
	Page      frontier.PageID
	URL       string
	Text      float64  // share of the text that is new at its site, 0 to 1; negative: not known
	Found     []string // URLs of its site that it was the first to link to
	Refused   int      // links of it that were Full
	CrossHost bool     // it was the first to link to a URL of another site
	Spoiled   bool     // it has the content of another page, or is an error
	Told      bool     // Ask did not decide: its site, or a person, named it
}

// Visited evaluates the first visit to a page, and reports whether it was useless.
func (t *Tree) Visited(v *Visit) (nothing bool) {
	t.Back(v.Page)
	list := t.enter(v.URL)
	program := strings.Contains(v.URL, "?")
	own := make([]int, len(list)) // finds in each family
	worth := make([]float64, len(list))
	for _, u := range v.Found {
		t.other = t.find(u, t.other)
		y := t.other[len(t.other)-1].yield()
		for i, n := range list {
			if slices.Contains(t.other, n.scope()) {
				own[i]++
			} else {
				worth[i] = max(worth[i], y/2)
			}
		}
	}
	for i, n := range list {
		if n.parent == nil && len(list) > 1 {
			continue // pages in families of their own are no evidence about the root
		}
		leaf := i == len(list)-1
		x := max(worth[i], min(1, 3*v.Text))
		if v.CrossHost {
			x = max(x, 0.5)
		}
		bad := v.Text >= 0 && own[i]+v.Refused >= 2 || v.Spoiled && program
		if v.Text >= 0 || x >= useful || bad {
			n.total++
		}
		switch {
		case x >= useful:
			n.learn(x)
		case v.Text >= 0 && own[i]+v.Refused == 0 && !v.Spoiled && !program:
			n.learn(deadEnd)
		case bad:
			n.bad++
			n.learn(0)
			if leaf {
				nothing = true
				if !v.Told {
					t.spent++
				}
			}
		}
	}
	return nothing
}

// learn adds a visit to the recent ones.
func (n *node) learn(x float64) {
	n.news, n.visits = n.news+x, n.visits+1
	if most := memory + float64(n.total)/8; n.visits > most {
		n.news, n.visits = n.news*most/n.visits, most
	}
}

// Requested counts a request to the site, and Requests returns how many there were.
func (t *Tree) Requested()    { t.asked++ }
func (t *Tree) Requests() int { return int(t.asked) }

// A Report is about a family whose pages wait.
type Report struct {
	Like    string `json:"like"`    // path, with # for numbers and * for any name, and the names of its parameters
	Asked   int    `json:"asked"`   // pages that were fetched
	Useful  int    `json:"useful"`  // of those, pages that were not useless
	Waiting int    `json:"waiting"` // pages that wait
	Refused int    `json:"refused"` // links to more of them, which were dropped
}

// Reports returns a Report on each poor family with waiting pages or dropped links, most waiting pages first.
func (t *Tree) Reports() (list []Report) {
	of := map[*node]Report{}
	for _, n := range t.nodes {
		if n.waiting+n.refused > 0 && n.poor() {
			known := n.known()
			r, ok := of[known]
			if !ok {
				r = known.report()
			}
			r.Waiting, r.Refused = r.Waiting+n.waiting, r.Refused+n.refused
			of[known] = r
		}
	}
	list = slices.Collect(maps.Values(of))
	slices.SortFunc(list, func(a, b Report) int { return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Like, b.Like)) })
	return list
}

// known returns the innermost family around this one with enough visits to call it poor.
func (n *node) known() *node {
	for n.parent != nil && n.parent.parent != nil && n.bad < memory && n.parent.poor() {
		n = n.parent
	}
	return n
}

func (n *node) report() Report { return Report{Like: n.key, Asked: n.total, Useful: n.total - n.bad} }

// Waits is the beginning of each text from Why.
const Waits = "waits: "

// Why returns why a page of the site waits, or "".
func (t *Tree) Why(url string) string {
	t.other = t.find(url, t.other)
	leaf := t.other[len(t.other)-1]
	if !leaf.poor() {
		if leaf.waiting > 0 {
			return Waits + "more pages like " + leaf.key + " are fetched after those in progress have shown where they lead"
		}
		return ""
	}
	r := leaf.known().report()
	return fmt.Sprintf("%s%d pages like %s were fetched, and %d of them led only to more of their kind and to nothing new", Waits, r.Asked, r.Like, r.Asked-r.Useful)
}
