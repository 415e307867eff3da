//go:build linux

package anysite

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// lines reads lines of JSON.
func lines(text string) (list []map[string]any) {
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var m map[string]any
		if d.Decode(&m) != nil {
			return list
		}
		list = append(list, m)
	}
}

func str(m map[string]any, name string) string  { s, _ := m[name].(string); return s }
func num(m map[string]any, name string) float64 { n, _ := m[name].(float64); return n }
func yes(m map[string]any, name string) bool    { b, _ := m[name].(bool); return b }

// copyOf reads what a crawler stores, using its list of pages and the files behind it.
func (w *world) copyOf(ctx context.Context, p *process) record.Copy {
	dir := w.into()
	c := record.Copy{Crawler: p.name, Pages: map[string]record.Stored{}, Files: map[string]string{}}
	out, err := w.output(ctx, "crawler", "pages", "--into", dir, "--format", "json")
	if err != nil {
		c.Err = err.Error()
		return c
	}
	archives := map[string][]byte{}
	body := func(file string, offset int64) (string, int64) {
		if below, ok := strings.CutPrefix(file, "mirror/"); ok && p.kind == "follow" {
			file = below
		}
		name := filepath.Join(dir, filepath.FromSlash(file))
		b, ok := archives[name]
		if !ok {
			if b, err = os.ReadFile(name); err != nil {
				return "", 0
			}
			archives[name] = b
		}
		if !strings.Contains(filepath.Base(name), ".warc") {
			return sum(b), int64(len(b))
		}
		if offset >= int64(len(b)) {
			return "", 0
		}
		r, _, err := readRecord(b[offset:])
		if r == nil || err != nil {
			return "", 0
		}
		return r.Sum, int64(len(r.body))
	}
	for _, row := range lines(out) {
		s := record.Stored{Status: int(num(row, "status")), Size: int64(num(row, "length")), Truncated: yes(row, "truncated") || yes(row, "cut"), NoIndex: yes(row, "noindex"), NoFollow: yes(row, "nofollow")}
		s.Stored, _ = time.Parse(time.RFC3339Nano, str(row, "last"))
		at, _ := row["stored"].(map[string]any)
		file := str(at, "file")
		switch {
		case str(row, "state") == "gone":
		case file != "":
			if s.Sum, s.Size = body(file, int64(num(at, "offset"))); s.Sum == "" {
				c.Err = "content of " + str(row, "url") + " cannot be read from " + file
			}
		case w.plan.Chosen["store"] == "none":
			s.Sum = digestSum(str(row, "digest"))
		}
		if s.Sum == "" {
			s.Why = strings.TrimSpace(str(row, "state") + " " + str(row, "fault"))
		}
		c.Pages[str(row, "url")] = s
	}
	root := filepath.Join(dir, "mirror")
	if p.kind == "follow" {
		root = dir
	}
	filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if below, _ := filepath.Rel(root, name); strings.HasPrefix(below, ".parley") && !strings.HasPrefix(below, filepath.Join(".parley", "other")+"/") {
			return nil
		}
		if b, err := os.ReadFile(name); err == nil {
			below, _ := filepath.Rel(root, name)
			c.Files[filepath.ToSlash(below)] = sum(b)
		}
		return nil
	})
	warcs, _ := filepath.Glob(filepath.Join(dir, "warc", "*.warc*"))
	for _, name := range warcs {
		if strings.Contains(name, ".cdxj") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for _, r := range readWARC(filepath.Base(name), b) {
			c.WARC = append(c.WARC, r.WARCRecord)
		}
	}
	return c
}

// accounts records the crawler's own reports: status, pages, sites, why and events.
func (w *world) accounts(ctx context.Context, p *process) {
	dir := w.into()
	a := record.Account{Why: map[string]string{}}
	if out, err := w.output(ctx, "crawler", "status", dir, "--json"); err == nil {
		json.Unmarshal([]byte(out), &a.Status)
	}
	out, _ := w.output(ctx, "crawler", "pages", "--into", dir, "--format", "json")
	a.Pages = lines(out)
	if p.kind != "follow" {
		out, _ = w.output(ctx, "crawler", "sites", "--into", dir, "--format", "json")
		a.Sites = lines(out)
	}
	for i, row := range a.Pages {
		if i >= 3 {
			break
		}
		if out, err := w.output(ctx, "crawler", "why", str(row, "url"), "--into", dir, "--json"); err == nil {
			a.Why[str(row, "url")] = out
		}
	}
	out, err := w.output(ctx, "crawler", "events", "--into", dir)
	var events []record.Event
	for _, row := range lines(out) {
		e := record.Event{Cursor: str(row, "cursor"), Op: str(row, "op"), URL: str(row, "url"), From: str(row, "from"), Sum: digestSum(str(row, "digest"))}
		e.At, _ = time.Parse(time.RFC3339Nano, str(row, "at"))
		for _, flag := range []string{"noindex", "nofollow", "noarchive", "truncated", "cut", "soft_404"} {
			if yes(row, flag) {
				e.Flags = append(e.Flags, flag)
			}
		}
		events = append(events, e)
	}
	if err != nil {
		w.logf("events: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rec.Accounts[p.name], w.rec.Events[p.name] = a, events
}
