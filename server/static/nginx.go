package static

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// Nginx is a file to include in the server block of nginx: it makes the server
// answer 410 for pages that are gone and 308 for those that have moved, as the
// journal has them. Crawlers give up a 410 at once, and ask for a 404 for months.
//
// A move is told with the place where the page is in the end; of one that was
// deleted there, the old URL is gone too. A line is left out rather than
// written where it could hide a page that is there, or lead in a circle:
//
//   - nginx compares a location with the decoded path, without the query. So
//     a URL that has a query gets no line, nor does one whose decoded path nginx
//     rewrites ("//", "." and ".." as segments) or some present page has too.
//   - A present page may be found behind the URL: by "index.html" or ".html"
//     put after its own, or a "/" put there or taken away. Where the page moved
//     from there to its present URL, as when .html was taken out of all URLs,
//     the line holds for requests from outside only, and answers others with
//     the file below root, which is then to stand in the server block.
//   - The file still stands (see Docroot): a rule withdrew the page, and visitors may read it.
//
// Its methods may be called by one goroutine at a time.
type Nginx struct {
	// Path is the file; not below Docroot, where anybody could read it. One that
	// is there already is replaced only if Parley wrote it, or it is empty.
	Path string

	Base string // of the site; only URLs that begin with it get a line

	// Docroot is the site's directory, if it has one. A URL that a file stands
	// behind gets no line.
	Docroot string

	// Public says which URLs may be told to anybody now; nil means all.
	Public func(url string) bool

	// Max bounds the lines: the newest are kept. Zero means 10,000.
	Max int

	// After is a command that runs after the file was replaced, as its argument
	// vector: {"nginx", "-s", "reload"}; nil means none. It is given to no shell,
	// which could be had by {"sh", "-c", "..."}. What failed or was cut short
	// runs again with the next Write, whichever process that is in, until it
	// succeeds.
	After []string

	Log *slog.Logger
}

const (
	maxLinesDefault = 10_000

	// maxToken is somewhat less than what nginx takes as one word of its
	// configuration, in bytes.
	maxToken = 4000
)

var _ server.Output = (*Nginx)(nil)

// String names the output.
func (n *Nginx) String() string { return "nginx include" }

// Write implements [server.Output]. Before the journal is whole there is nothing to write.
func (n *Nginx) Write(ctx context.Context, j *server.Journal) (bool, error) {
	wrote, err := n.write(ctx, j)
	if err != nil {
		return wrote, fmt.Errorf("%s: %w", n.Path, err) // whoever calls it says what was to be written
	}
	return wrote, nil
}

func (n *Nginx) write(ctx context.Context, j *server.Journal) (bool, error) {
	if !j.Whole() {
		return false, nil
	}
	if within(n.Docroot, n.Path) {
		return false, fmt.Errorf("it is below the docroot, where anybody could read it: choose another place")
	}
	var was account
	was.read(j, nginxNote)
	now := account{
		Revision: j.Revision(), // before the view: what comes in between is looked at again
		Config:   hashOf(1, n.Path, n.Base, n.Docroot, n.Max),
		Place:    hashOf(n.Path),
	}
	if was.Revision == now.Revision && was.Config == now.Config && was.Files != "" && was.Files == looks([]string{n.Path}) {
		return false, n.after(ctx, j)
	}
	wrote, err := n.replace(ctx, j, was.Place == now.Place)
	if err != nil {
		return wrote, err
	}
	if now.Files = looks([]string{n.Path}); now != was {
		now.note(j, nginxNote, orDiscard(n.Log))
	}
	return wrote, n.after(ctx, j)
}

// replace makes the file what it is to be. It is known if it was written before.
func (n *Nginx) replace(ctx context.Context, j *server.Journal, known bool) (bool, error) {
	lines, err := n.lines(ctx, j)
	if err != nil {
		return false, err
	}
	u, err := begin(n.Path)
	if err != nil {
		return false, err
	}
	defer u.drop()
	if !known {
		if err := u.mind(isInclude); err != nil {
			return false, err
		}
	}
	w := bufio.NewWriter(u)
	if err := cmp.Or(n.print(w, lines), w.Flush()); err != nil {
		return false, err
	}
	wrote, err := u.ready()
	if err == nil && wrote && len(n.After) > 0 {
		// Noted first: who is killed in between reloads once too often, not once too seldom.
		err = j.SetNotes(map[string][]byte{afterNote: []byte("owed")})
	}
	if err != nil || !wrote {
		return false, err
	}
	return true, u.rename()
}

const (
	nginxNote = "output/nginx"
	afterNote = "output/nginx/after"
	afterWait = 30 * time.Second
	afterSays = 2 << 10 // bytes of what the command says that are told
)

// after runs the command if it is owed.
func (n *Nginx) after(ctx context.Context, j *server.Journal) error {
	if len(n.After) == 0 {
		return nil
	}
	if owed, err := j.Note(afterNote); err != nil || owed == nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, afterWait, fmt.Errorf("it did not end within %v", afterWait))
	defer stop()
	cmd := exec.CommandContext(ctx, n.After[0], n.After[1:]...)
	cmd.WaitDelay = time.Second // for what it may have started
	said := &tail{most: afterSays}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("run %q afterwards: %w%s; it is tried again with the next write", strings.Join(n.After, " "), err, said.quoted())
	}
	orDiscard(n.Log).Debug("ran", "command", n.After)
	return j.SetNotes(map[string][]byte{afterNote: nil})
}

// tail keeps the end of what is written to it.
type tail struct {
	most int
	b    []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-t.most):]...)
	t.b = t.b[max(0, len(t.b)-t.most):]
	return len(p), nil
}

func (t *tail) quoted() string {
	if s := strings.TrimSpace(string(t.b)); s != "" {
		return fmt.Sprintf(": %q", s)
	}
	return ""
}

// A line is what is said of one location.
type line struct {
	name string // of the location: the path, decoded
	url  string // that has it
	to   string // where the page is now; empty if it is gone

	// guarded says that nginx may come to the location by itself, on its way
	// to the file of the very page that the line sends to.
	guarded bool
}

// lines returns what there is to say, sorted.
func (n *Nginx) lines(ctx context.Context, j *server.Journal) ([]line, error) {
	v, err := j.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	lines, err := n.gone(ctx, v.Tombstones())
	if err != nil {
		return nil, err
	}
	present := func(yield func(string, error) bool) {
		for e, err := range v.Entries() {
			if !yield(e.Item.URL, err) {
				return
			}
		}
	}
	if len(lines) > 0 {
		if err := n.spare(ctx, lines, present); err != nil {
			return nil, err
		}
	}
	list := make([]line, 0, len(lines))
	for _, l := range lines {
		list = append(list, *l)
	}
	slices.SortFunc(list, func(a, b line) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// gone returns the newest lines by location, each with the place where its
// page is in the end, whether that exists or not.
func (n *Nginx) gone(ctx context.Context, tombstones iter.Seq2[protocol.Tombstone, error]) (map[string]*line, error) {
	base, err := protocol.CanonicalURL("", n.Base)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	most := cmp.Or(max(n.Max, 0), maxLinesDefault)
	lines := make(map[string]*line)
	moved := make(map[string]string) // what is gone, and where to; whatever is gone later comes earlier
	read := 0
	for t, err := range tombstones {
		if read++; err == nil && read%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if len(lines) == most {
			break
		}
		to := t.To
		for range read {
			next, gone := moved[to]
			if !gone {
				break
			}
			to = next
		}
		moved[t.URL] = to
		name, ok := location(t.URL)
		if !ok || lines[name] != nil || !strings.HasPrefix(t.URL, base) || n.Public != nil && !n.Public(t.URL) {
			continue
		}
		if to != "" && (!strings.HasPrefix(to, base) || n.Public != nil && !n.Public(to)) {
			to = ""
		}
		lines[name] = &line{name: name, url: t.URL, to: to}
	}
	return lines, nil
}

// spare takes away the lines that could hide a page that is there, and makes
// those that lead to no page say that theirs is gone.
func (n *Nginx) spare(ctx context.Context, lines map[string]*line, present iter.Seq2[string, error]) error {
	wanted := make(map[string]bool) // targets, and whether they are there
	for _, l := range lines {
		if l.to != "" {
			wanted[l.to] = false
		}
	}
	read := 0
	var buf []byte
	for u, err := range present {
		if read++; err == nil && read%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if _, ok := wanted[u]; ok {
			wanted[u] = true
		}
		name := decoded(u)
		delete(lines, name)
		for i := range suffixes {
			var ok bool
			if buf, ok = suffixes[i].apply(buf[:0], name); !ok {
				continue
			}
			if l := lines[string(buf)]; l != nil && (l.to != u || suffixes[i].same) {
				delete(lines, l.name)
			} else if l != nil {
				l.guarded = suffixes[i].inside
			}
		}
	}
	for name, l := range lines {
		if l.to != "" && !wanted[l.to] {
			l.to = ""
		}
		if file := path.Base(name); strings.HasPrefix(file, "index.") && !strings.HasSuffix(name, "/") && !l.guarded {
			delete(lines, name) // where a server takes it for the front door of more than its directory
		} else if !l.guarded && n.stands(l) {
			delete(lines, name)
		}
	}
	return nil
}

// A suffix is one way in which a web server gets from the name of a page to
// another that means the same.
type suffix struct {
	cut, add string
	inside   bool // the server may do so without telling anybody
	same     bool // the server may redirect from either to the other
}

var suffixes = [...]suffix{
	{cut: "/", add: "/index.html", inside: true},
	{add: ".html", inside: true},
	{cut: ".html"},
	{cut: "/", same: true},
	{add: "/", same: true},
}

// apply appends the other name to buf.
func (s suffix) apply(buf []byte, name string) ([]byte, bool) {
	stem, ok := strings.CutSuffix(name, s.cut)
	if !ok || s.cut == "" && strings.HasSuffix(name, "/") || stem+s.add == "" {
		return buf, false
	}
	return append(append(buf, stem...), s.add...), true
}

// stands reports whether there is a file behind a line's URL, other than the
// one that it sends to.
func (n *Nginx) stands(l *line) bool {
	if n.Docroot == "" {
		return false
	}
	rest, ok := strings.CutPrefix(l.name, strings.TrimSuffix(decoded(n.Base), "/"))
	if !ok {
		return false
	}
	file := func(name string) bool {
		if l.to != "" && decoded(l.to) == l.name+".html" && strings.HasSuffix(name, ".html") {
			return false
		}
		info, err := os.Stat(filepath.Join(n.Docroot, filepath.FromSlash(name)))
		return err == nil && !info.IsDir()
	}
	if strings.HasSuffix(rest, "/") {
		return file(rest + "index.html")
	}
	return file(rest) || file(rest+".html")
}

// location returns the name of the location that a request for url is
// compared with, and false if there is none, or none for it alone.
func location(u string) (name string, ok bool) {
	if strings.Contains(u, "?") {
		return "", false
	}
	name = decoded(u)
	if !strings.HasPrefix(name, "/") || strings.Contains(name, "//") || strings.IndexByte(name, 0) >= 0 {
		return "", false
	}
	for s := range strings.SplitSeq(name, "/") {
		if s == "." || s == ".." {
			return "", false
		}
	}
	return name, len(quote(name)) <= maxToken
}

// decoded returns the path of a canonical URL as nginx compares it.
func decoded(u string) string {
	p, _, _ := strings.Cut(u[len(protocol.Origin(u)):], "?")
	if strings.IndexByte(p, '%') < 0 {
		return p
	}
	d, err := url.PathUnescape(p)
	if err != nil {
		return p // not canonical: no name at all
	}
	return d
}

// includeSays begins the second line of the file.
const includeSays = "# Parley writes this file from the site's journal:"

func isInclude(head []byte) bool {
	_, second, _ := bytes.Cut(head, []byte("\n"))
	return bytes.HasPrefix(head, []byte("# Pages of ")) && bytes.HasPrefix(second, []byte(includeSays))
}

// print writes the file.
func (n *Nginx) print(w io.Writer, lines []line) error {
	_, err := fmt.Fprintf(w, "# Pages of %s that are gone (410) or have moved (308).\n"+
		includeSays+" include it in the server block,\n"+
		"# and reload nginx when it has changed. What is written here by hand is lost.\n", n.Base)
	for _, l := range lines {
		if err != nil {
			return err
		}
		to := quote(strings.ReplaceAll(l.to, "$", "%24")) // else nginx looks for a variable
		switch {
		case l.to == "" || len(to) > maxToken:
			_, err = fmt.Fprintf(w, "location = %s { return 410; }\n", quote(l.name))
		case l.guarded:
			asked := regexp.QuoteMeta(l.url[len(protocol.Origin(l.url)):])
			_, err = fmt.Fprintf(w, "location = %s { if ($request_uri ~ %s) { return 308 %s; } }\n",
				quote(l.name), quote(`^`+asked+`(\?|$)`), to)
		default:
			_, err = fmt.Fprintf(w, "location = %s { return 308 %s; }\n", quote(l.name), to)
		}
	}
	return err
}

// quote writes a word of nginx's configuration: within quotes a backslash
// keeps its meaning but before a quote, another backslash, t, r and n.
func quote(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\t", `\t`, "\r", `\r`, "\n", `\n`).Replace(s) + `"`
}

// within reports whether a file is below a directory, by name or by where the names lead.
func within(dir, file string) bool {
	if dir == "" {
		return false
	}
	real := func(p string) string {
		if r, err := filepath.EvalSymlinks(p); err == nil {
			p = r
		}
		if a, err := filepath.Abs(p); err == nil {
			p = a
		}
		return p
	}
	rel, err := filepath.Rel(real(dir), filepath.Join(real(filepath.Dir(file)), filepath.Base(file)))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
