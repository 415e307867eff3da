package judge

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// accounts checks that all reports of a crawler agree: status, sites, pages, why, events, the stored copy,
// and the files.
func accounts(r *record.Recording, w *world) []Finding {
	c := &collector{oracle: "accounts"}
	for _, cp := range r.Copies {
		a, ok := r.Accounts[cp.Crawler]
		if !ok || cp.Err != "" {
			continue
		}
		p, _ := w.program(cp.Crawler, never)
		say := func(format string, args ...any) { c.add(cp.Crawler, "", r.Ended, format, args...) }
		same := func(what string, x any, other string, n int) {
			if f, ok := x.(float64); ok && int(f) != n {
				say("%s is %d, and %s are %d", what, int(f), other, n)
			} else if i, ok := x.(int); ok && i != n {
				say("%s is %d, and %s are %d", what, i, other, n)
			}
		}
		stored, heldBySite := 0, map[string]int{}
		for u, s := range cp.Pages { // stored content stays stored while the page does not answer
			if s.Sum != "" {
				stored++
				heldBySite[originOf(u)]++
			}
		}
		states, bySite := map[string]int{}, map[string]int{}
		rows := map[string]map[string]any{}
		for _, row := range a.Pages {
			u, state := text(row["url"]), text(row["state"])
			rows[u] = row
			states[state]++
			bySite[originOf(u)]++
		}
		if a.Status != nil {
			if a.Pages != nil {
				same("known by status", a.Status["known"], "the lines of pages", len(a.Pages))
				same("held by status", a.Status["held"], "the pages that can be read", stored)
				same("gone by status", a.Status["gone"], "those that are gone by pages", states["gone"])
			}
			if a.Sites != nil {
				same("the sites by status", a.Status["of"], "the lines of sites", len(a.Sites))
			}
			if list := r.Events[cp.Crawler]; len(list) > 0 && p.Kind != "follow" && // status of "follow" has the cursor of the site's journal
				a.Status["cursor"] != nil && text(a.Status["cursor"]) != list[len(list)-1].Cursor {
				say("status is at %s, and events end at %s", text(a.Status["cursor"]), list[len(list)-1].Cursor)
			}
		}
		for _, s := range a.Sites {
			if o := text(s["origin"]); a.Pages != nil {
				same("the pages of "+o+" by sites", s["pages"], "its lines of pages", bySite[o])
				same("held of "+o+" by sites", s["held"], "its pages that can be read", heldBySite[o])
			}
		}
		for u, row := range rows {
			state := text(row["state"])
			s := cp.Pages[u]
			sum := hexOf(text(row["digest"]))
			if state != "gone" && sum != "" && s.Sum != "" && sum != s.Sum {
				c.add(cp.Crawler, u, s.Stored, "is %.8s by pages, and %.8s when it is read", sum, s.Sum)
			}
			if s.Sum == "" && (state == "held" || state != "gone" && sum != "") {
				c.add(cp.Crawler, u, s.Stored, "is held by pages, and cannot be read")
			}
			// Content that was stored before the page stopped answering, answered otherwise, or was forbidden
			// by robots.txt, stays stored.
			if s.Sum != "" && !slices.Contains([]string{"held", "refused", "failing", "moved", "excluded"}, state) {
				c.add(cp.Crawler, u, s.Stored, "is %s by pages, and can be read", state)
			}
			if s.Sum != "" && !s.Truncated && row["truncated"] != true && w.cut(u, s) {
				c.add(cp.Crawler, u, s.Stored, "ends after %d bytes of a longer page, and pages does not say so", s.Size)
			}
			var why struct{ State string }
			if json.Unmarshal([]byte(a.Why[u]), &why) == nil && why.State != "" && why.State != state {
				c.add(cp.Crawler, u, s.Stored, "is %s by pages, and %s by why", state, why.State)
			}
			if row["truncated"] == true && a.Why[u] != "" && !says(a.Why[u], "truncated", "cut", "max-file", "max-page") {
				c.add(cp.Crawler, u, s.Stored, "is cut by pages, and why does not say so")
			}
		}
		if a.Pages != nil {
			for u, s := range cp.Pages {
				if s.Sum != "" && rows[u] == nil {
					c.add(cp.Crawler, u, s.Stored, "can be read, and pages does not know it")
				}
			}
		}
		files(c, cp, rows, p)
	}
	return c.list
}

// files checks that the files on disk agree with the copy.
func files(c *collector, cp record.Copy, rows map[string]map[string]any, p record.Program) {
	store := option(p, "store", "warc")
	if p.Kind == "follow" {
		store = "mirror"
	}
	if store != "mirror" {
		newest := map[string]record.WARCRecord{}
		at := map[spot]record.WARCRecord{}
		for _, x := range cp.WARC {
			if x.Err != "" {
				c.add(cp.Crawler, x.URL, x.At, "the record at %s:%d cannot be read: %s", x.File, x.Offset, x.Err)
			}
			if x.Type != "response" && x.Type != "resource" && x.Type != "revisit" {
				continue
			}
			at[place(x.File, x.Offset)] = x
			if n, ok := newest[x.URL]; (x.Status == 200 || x.Type == "revisit") && x.Sum != "" && (!ok || !x.At.Before(n.At)) {
				newest[x.URL] = x
			}
		}
		for u, s := range cp.Pages {
			if s.Sum == "" || cp.WARC == nil {
				continue
			}
			n, ok := newest[u]
			if ok && n.Sum != s.Sum {
				c.add(cp.Crawler, u, n.At, "is %.8s, and the newest record of it, at %s:%d, has %.8s", s.Sum, n.File, n.Offset, n.Sum)
			}
			if !ok && !slices.ContainsFunc(cp.WARC, func(x record.WARCRecord) bool { return x.Sum == s.Sum }) {
				c.add(cp.Crawler, u, s.Stored, "is held, and no record has its body")
			}
			if stored, _ := rows[u]["stored"].(map[string]any); stored != nil {
				offset, _ := stored["offset"].(float64)
				x, ok := at[place(text(stored["file"]), int64(offset))]
				if !ok {
					c.add(cp.Crawler, u, s.Stored, "stands at %s:%d by pages, where no record begins", text(stored["file"]), int64(offset))
				} else if x.Sum != "" && x.Sum != s.Sum {
					c.add(cp.Crawler, u, s.Stored, "stands at %s:%d by pages, and there is %.8s", x.File, x.Offset, x.Sum)
				}
			}
		}
	}
	if store != "warc" && store != "none" && cp.Files != nil {
		have := map[string]int{}
		for _, sum := range cp.Files {
			have[sum]++
		}
		n := 0
		for u, s := range cp.Pages {
			if s.Sum == "" {
				continue
			}
			n++
			if have[s.Sum] == 0 {
				c.add(cp.Crawler, u, s.Stored, "is held, and no file of the mirror has its bytes")
			}
		}
		if len(cp.Files) != n {
			c.add(cp.Crawler, "", time.Time{}, "the mirror has %d files, and %d pages are held", len(cp.Files), n)
		}
	}
}

type spot struct {
	file   string
	offset int64
}

func place(file string, offset int64) spot { return spot{path.Base(file), offset} }

func text(v any) string {
	s, _ := v.(string)
	return s
}

// hexOf converts a digest "sha-256=:BASE64:" to the hex form that a recording uses.
func hexOf(digest string) string {
	b, ok := strings.CutPrefix(strings.TrimSuffix(digest, ":"), "sha-256=:")
	raw, err := base64.StdEncoding.DecodeString(b)
	if !ok || err != nil {
		return ""
	}
	return hex.EncodeToString(raw)
}

func says(s string, words ...string) bool {
	s = strings.ToLower(s)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}
