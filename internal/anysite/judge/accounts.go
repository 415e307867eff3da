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
				say("%s: %d, but %s: %d", what, int(f), other, n)
			} else if i, ok := x.(int); ok && i != n {
				say("%s: %d, but %s: %d", what, i, other, n)
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
				same("known pages by status", a.Status["known"], "lines printed by pages", len(a.Pages))
				same("stored pages by status", a.Status["held"], "readable pages", stored)
				same("gone pages by status", a.Status["gone"], "gone pages by pages", states["gone"])
			}
			if a.Sites != nil {
				same("sites by status", a.Status["of"], "lines printed by sites", len(a.Sites))
			}
			if list := r.Events[cp.Crawler]; len(list) > 0 && p.Kind != "follow" && // status of "follow" has the cursor of the site's journal
				a.Status["cursor"] != nil && text(a.Status["cursor"]) != list[len(list)-1].Cursor {
				say("status is at cursor %s, but events end at %s", text(a.Status["cursor"]), list[len(list)-1].Cursor)
			}
		}
		for _, s := range a.Sites {
			if o := text(s["origin"]); a.Pages != nil {
				same("pages of "+o+" by sites", s["pages"], "its lines printed by pages", bySite[o])
				same("stored pages of "+o+" by sites", s["held"], "its readable pages", heldBySite[o])
			}
		}
		for u, row := range rows {
			state := text(row["state"])
			s := cp.Pages[u]
			sum := hexOf(text(row["digest"]))
			if state != "gone" && sum != "" && s.Sum != "" && sum != s.Sum {
				c.add(cp.Crawler, u, s.Stored, "has digest %.8s according to pages, but %.8s when read", sum, s.Sum)
			}
			if s.Sum == "" && (state == "held" || state != "gone" && sum != "") {
				c.add(cp.Crawler, u, s.Stored, "is stored according to pages, but cannot be read")
			}
			// Content that was stored before the page stopped answering, answered otherwise, or was forbidden
			// by robots.txt, stays stored.
			if s.Sum != "" && !slices.Contains([]string{"held", "refused", "failing", "moved", "excluded"}, state) {
				c.add(cp.Crawler, u, s.Stored, "is %s according to pages, but can be read", state)
			}
			if s.Sum != "" && !s.Truncated && row["truncated"] != true && w.cut(u, s) {
				c.add(cp.Crawler, u, s.Stored, "is cut after %d bytes, but pages does not report it as truncated", s.Size)
			}
			var why struct{ State string }
			if json.Unmarshal([]byte(a.Why[u]), &why) == nil && why.State != "" && why.State != state {
				c.add(cp.Crawler, u, s.Stored, "is %s according to pages, but %s according to why", state, why.State)
			}
			if row["truncated"] == true && a.Why[u] != "" && !says(a.Why[u], "truncated", "cut", "max-file", "max-page") {
				c.add(cp.Crawler, u, s.Stored, "is truncated according to pages, but why does not mention it")
			}
		}
		if a.Pages != nil {
			for u, s := range cp.Pages {
				if s.Sum != "" && rows[u] == nil {
					c.add(cp.Crawler, u, s.Stored, "can be read, but pages does not list it")
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
				c.add(cp.Crawler, u, n.At, "has digest %.8s, but its newest record, at %s:%d, has %.8s", s.Sum, n.File, n.Offset, n.Sum)
			}
			if !ok && !slices.ContainsFunc(cp.WARC, func(x record.WARCRecord) bool { return x.Sum == s.Sum }) {
				c.add(cp.Crawler, u, s.Stored, "is stored, but no record has its body")
			}
			if stored, _ := rows[u]["stored"].(map[string]any); stored != nil {
				offset, _ := stored["offset"].(float64)
				x, ok := at[place(text(stored["file"]), int64(offset))]
				if !ok {
					c.add(cp.Crawler, u, s.Stored, "is at %s:%d according to pages, but no record begins there", text(stored["file"]), int64(offset))
				} else if x.Sum != "" && x.Sum != s.Sum {
					c.add(cp.Crawler, u, s.Stored, "is at %s:%d according to pages, but the record there has digest %.8s", x.File, x.Offset, x.Sum)
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
				c.add(cp.Crawler, u, s.Stored, "is stored, but no file of the mirror has its bytes")
			}
		}
		if len(cp.Files) != n {
			c.add(cp.Crawler, "", time.Time{}, "the mirror has %d files, but %d pages are stored", len(cp.Files), n)
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
