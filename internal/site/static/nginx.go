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

// Nginx writes a file to include in the server block of nginx: it makes the server answer 410 for pages that
// are gone and 308 for those that have moved, according to the journal. Crawlers drop a URL at once after a
// 410, but retry one with 404 for months.
//
// A move leads to the final URL of the page; if the page was deleted there, the old URL is gone too. A line
// is left out if it could hide a present page, or lead in a circle:
//
//   - nginx matches a location against the decoded path, without the query. So there is no line for a URL with
//     a query, nor for one whose decoded path nginx rewrites ("//", "." and ".." as segments) or equals that of
//     a present page.
//   - A present page may be served for the URL: by appending "index.html" or ".html", or by adding or removing
//     a "/". If the page moved from that URL to its present one, as when .html was removed from all URLs, the
//     line applies to external requests only; internal ones get the file below root, so root must be set in the
//     server block.
//   - The file still exists (see Docroot): a rule withdrew the page, and visitors may read it.
//
// Its methods are not safe for concurrent use.
type Nginx struct {
	// Path is the file; not below Docroot, where anybody could read it. An existing file is replaced only if
	// Parley wrote it, or it is empty.
	Path string

	Base string // of the site; only URLs that begin with it get a line

	// Docroot is the site's directory, if it has one. A URL with a file behind it gets no line.
	Docroot string

	// Public reports which URLs may be published now, by robots.txt and by the choice of pages; nil means all.
	Public func(url string) bool

	// Max bounds the lines; the newest are kept. Zero means 10,000.
	Max int

	// After is a command that runs after the file was replaced, as its argument vector: {"nginx", "-s",
	// "reload"}; nil means none. It runs without a shell; for one use {"sh", "-c", "..."}. A failed or
	// interrupted command runs again with the next Write, in whatever process, until it succeeds.
	After []string

	Log *slog.Logger
}

const (
	maxLinesDefault = 10_000

	// maxToken is somewhat less than the longest word of an nginx configuration, in bytes.
	maxToken = 4000
)

var _ server.Output = (*Nginx)(nil)

// String names the output.
func (n *Nginx) String() string { return "nginx include" }

// Own returns nothing: the file is not below the docroot.
func (n *Nginx) Own() []string { return nil }

// Write implements [server.Output]. It writes nothing before the journal is whole.
func (n *Nginx) Write(ctx context.Context, j *server.Journal) (bool, error) {
	wrote, err := n.write(ctx, j)
	if err != nil {
		return wrote, fmt.Errorf("%s: %w", n.Path, err) // the caller names the output
	}
	return wrote, nil
}

func (n *Nginx) write(ctx context.Context, j *server.Journal) (bool, error) {
	if !j.Whole() {
		return false, nil
	}
	if within(n.Docroot, n.Path) {
		return false, fmt.Errorf("it is below the docroot, where visitors could read it: choose another path")
	}
	var was outputState
	was.read(j, nginxNote)
	now := outputState{
		Revision: j.Revision(), // before the view: later changes count for the next Write
		Config:   hashOf(1, n.Path, n.Base, n.Docroot, n.Max),
		Place:    hashOf(n.Path),
	}
	if was.Revision == now.Revision && was.Config == now.Config && was.Files != "" && was.Files == fileStamps([]string{n.Path}) {
		return false, n.after(ctx, j)
	}
	wrote, err := n.replace(ctx, j, was.Place == now.Place)
	if err != nil {
		return wrote, err
	}
	if now.Files = fileStamps([]string{n.Path}); now != was {
		now.note(j, nginxNote, orDiscard(n.Log))
	}
	return wrote, n.after(ctx, j)
}

// replace writes the file if it has changed. known says that an earlier run wrote it.
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
		if err := u.checkReplaceable(isInclude); err != nil {
			return false, err
		}
	}
	w := bufio.NewWriter(u)
	if err := cmp.Or(n.print(w, lines), w.Flush()); err != nil {
		return false, err
	}
	wrote, err := u.ready()
	if err == nil && wrote && len(n.After) > 0 {
		// Noted first: a kill in between causes one reload too many, not one too few.
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
	afterSays = 2 << 10 // bytes of the command's output that are reported
)

// after runs the command if it is pending.
func (n *Nginx) after(ctx context.Context, j *server.Journal) error {
	if len(n.After) == 0 {
		return nil
	}
	if owed, err := j.Note(afterNote); err != nil || owed == nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, afterWait, fmt.Errorf("timed out: it did not end within %v", afterWait))
	defer stop()
	cmd := exec.CommandContext(ctx, n.After[0], n.After[1:]...)
	cmd.WaitDelay = time.Second // for processes that it may have started
	said := &tail{most: afterSays}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("run %q after the write: %w%s; retried at the next write", strings.Join(n.After, " "), err, said.quoted())
	}
	orDiscard(n.Log).Debug("ran", "command", n.After)
	return j.SetNotes(map[string][]byte{afterNote: nil})
}

// tail is a writer that keeps the last bytes.
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

// A line is the rule for one location.
type line struct {
	name string // of the location: the decoded path
	url  string // the URL with this path
	to   string // where the page is now; empty if it is gone

	// guarded means that nginx may rewrite a request to this location internally, on its way to the file of
	// the very page that the line redirects to.
	guarded bool
}

// lines returns the lines of the file, sorted.
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

// gone returns the newest lines by location, each with the final URL of its page, whether that exists or not.
func (n *Nginx) gone(ctx context.Context, tombstones iter.Seq2[protocol.Tombstone, error]) (map[string]*line, error) {
	base, err := protocol.CanonicalURL("", n.Base)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	most := cmp.Or(max(n.Max, 0), maxLinesDefault)
	lines := make(map[string]*line)
	moved := make(map[string]string) // URLs that are gone, with their new URLs; newer tombstones come first
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

// spare removes the lines that could hide a present page, and turns lines whose target does not exist into
// 410.
func (n *Nginx) spare(ctx context.Context, lines map[string]*line, present iter.Seq2[string, error]) error {
	wanted := make(map[string]bool) // targets; true if present
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
			delete(lines, name) // a server may use it as the index of more than its directory
		} else if !l.guarded && n.stands(l) {
			delete(lines, name)
		}
	}
	return nil
}

// A suffix is one way in which a web server maps a page's name to an equivalent one.
type suffix struct {
	cut, add string
	inside   bool // the server may do so internally
	same     bool // the server may redirect from either to the other
}

var suffixes = [...]suffix{
	{cut: "/", add: "/index.html", inside: true},
	{add: ".html", inside: true},
	{cut: ".html"},
	{cut: "/", same: true},
	{add: "/", same: true},
}

// apply appends the equivalent name to buf.
func (s suffix) apply(buf []byte, name string) ([]byte, bool) {
	stem, ok := strings.CutSuffix(name, s.cut)
	if !ok || s.cut == "" && strings.HasSuffix(name, "/") || stem+s.add == "" {
		return buf, false
	}
	return append(append(buf, stem...), s.add...), true
}

// stands reports whether a file exists behind a line's URL, other than the one of its target.
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

// location returns the name of the location that matches requests for url, and false if there is none, or
// none for it alone.
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

// decoded returns the path of a canonical URL in the form that nginx compares.
func decoded(u string) string {
	p, _, _ := strings.Cut(u[len(protocol.Origin(u)):], "?")
	if strings.IndexByte(p, '%') < 0 {
		return p
	}
	d, err := url.PathUnescape(p)
	if err != nil {
		return p // not canonical: matches nothing
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
		"# and reload nginx when it has changed. Edits by hand are lost.\n", n.Base)
	for _, l := range lines {
		if err != nil {
			return err
		}
		to := quote(strings.ReplaceAll(l.to, "$", "%24")) // else nginx expands a variable
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

// quote writes a quoted word of an nginx configuration: within quotes a backslash is literal except before a
// quote, another backslash, t, r and n.
func quote(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\t", `\t`, "\r", `\r`, "\n", `\n`).Replace(s) + `"`
}

// within reports whether a file is below a directory, by its path or after symbolic links are resolved.
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
