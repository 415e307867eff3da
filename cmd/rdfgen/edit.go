package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/internal/atomicfile"
)

// An edit is a change of a file.
type edit struct {
	path, was, now string
	info           fs.FileInfo // nil if the file does not exist
	web            bool        // it is the web server's
}

// ofServer reports whether one is of the web server's configuration.
func ofServer(edits []edit) bool {
	return slices.ContainsFunc(edits, func(e edit) bool { return e.web })
}

// editOf returns an edit that changes nothing yet.
func editOf(path string) (e edit, err error) {
	e.path = path
	e.info, err = os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err == nil && !e.info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file: %s", path, e.info.Mode())
	}
	if err != nil {
		return e, err
	}
	text, err := os.ReadFile(path)
	e.was, e.now = string(text), string(text)
	return e, err
}

// diff shows the change as a unified diff with one hunk.
func (e *edit) diff() string {
	const around = 3 // lines of context
	was, now := slices.Collect(strings.Lines(e.was)), slices.Collect(strings.Lines(e.now))
	same, tail := 0, 0 // lines at the beginning, and at the end
	for same < min(len(was), len(now)) && was[same] == now[same] {
		same++
	}
	for tail < min(len(was), len(now))-same && was[len(was)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	from, left := max(0, same-around), max(0, tail-around) // the hunk is was[from:len(was)-left]
	name := e.path
	if e.info == nil {
		name = "/dev/null"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ -%d,%d +%d,%d @@\n", name, e.path, min(from+1, len(was)), len(was)-left-from, from+1, len(now)-left-from)
	for _, part := range []struct {
		sign  byte
		lines []string
	}{{' ', now[from:same]}, {'-', was[same : len(was)-tail]}, {'+', now[same : len(now)-tail]}, {' ', now[len(now)-tail : len(now)-left]}} {
		for _, line := range part.lines {
			if !strings.HasSuffix(line, "\n") {
				line += "\n\\ No newline at end of file\n"
			}
			fmt.Fprintf(&b, "%c%s", part.sign, line)
		}
	}
	return b.String()
}

// replace makes text the content of the file. Without a file before, an empty text removes it.
func (e *edit) replace(text string) error {
	switch {
	case e.info != nil:
		return atomicfile.Rewrite(e.path, text)
	case text == "":
		return os.Remove(e.path)
	}
	if err := os.MkdirAll(filepath.Dir(e.path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(e.path, text, 0o644)
}

// write writes the files if the web server accepts them. The file with what is forwarded comes before the line that includes it, and is
// removed after it, so that the web server can start at every moment. nginx is asked before, the others after.
func (s *setup) write(ctx context.Context, edits []edit) error {
	if err := s.test(ctx, edits); err != nil {
		return fmt.Errorf("nothing was written: %w", err)
	}
	for _, e := range edits {
		if now, err := editOf(e.path); err != nil || now.was != e.was {
			return fmt.Errorf("%s has been changed meanwhile: run setup again", e.path)
		}
	}
	var err error
	for i := 0; err == nil && i < len(edits); i++ {
		err = edits[i].replace(edits[i].now)
	}
	if err == nil && ofServer(edits) {
		err = s.accepted(ctx)
	}
	if err == nil {
		return nil
	}
	for _, e := range slices.Backward(edits) {
		if now, err := editOf(e.path); err == nil && now.was == e.was {
			continue
		}
		if back := e.replace(e.was); back != nil {
			return fmt.Errorf("%w; and %s could not be restored: %w", err, e.path, back)
		}
	}
	return fmt.Errorf("all files are as before: %w", err)
}

// accepted asks Apache or Caddy, if the program is there, whether it accepts its files.
func (s *setup) accepted(ctx context.Context) error {
	for _, command := range s.web.check {
		words := append(strings.Fields(command), s.web.conf)
		tool, err := findTool(words[0])
		if err != nil {
			continue
		}
		if said, err := exec.CommandContext(ctx, tool, words[1:]...).CombinedOutput(); err != nil {
			about := strings.TrimSpace(string(said))
			if strings.Contains(about, "ProxyPass") {
				about += "\nThis needs Apache 2.4.47 or later, and its module: a2enmod proxy_http"
			}
			return fmt.Errorf("%s: %w: %s", command, err, about)
		}
		return nil
	}
	if len(s.web.check) > 0 {
		fmt.Fprintf(s.env.Stdout, "The files are not checked: no program of %s was found.\n", s.web.name)
	}
	return nil
}

// findTool finds a program that may be in a directory for root.
func findTool(name string) (string, error) {
	tool, err := exec.LookPath(name)
	if err != nil {
		tool, err = exec.LookPath("/usr/sbin/" + name)
	}
	return tool, err
}

// test runs nginx -t on the configuration as it would be, which is a hidden file beside nginx.conf meanwhile.
func (s *setup) test(ctx context.Context, edits []edit) error {
	tool, err := findTool("nginx")
	if err != nil || s.web.name != "nginx" || !ofServer(edits) {
		return nil
	}
	n := nginxReader{dir: filepath.Dir(s.web.conf), root: s.root, edits: edits}
	text, _, err := n.read(s.web.conf)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(n.dir, ".parley-setup.*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	said, err := exec.CommandContext(ctx, tool, "-t", "-q", "-c", f.Name()).CombinedOutput()
	if err == nil {
		return nil
	}
	about := strings.TrimSpace(string(said))
	line, lines := 0, strings.Split(text, "\n")
	_, after, _ := strings.Cut(about, f.Name()+":")
	if fmt.Sscan(after, &line); line > 0 && line <= len(lines) {
		about = strings.Replace(about, fmt.Sprintf("%s:%d", f.Name(), line), strconv.Quote(strings.TrimSpace(lines[line-1])), 1)
	}
	return fmt.Errorf("nginx -t: %w: %s", err, strings.ReplaceAll(about, f.Name(), s.web.conf))
}
