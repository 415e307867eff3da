package report_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/report"
)

// realLog returns a recorded log, decompressed.
func realLog(t *testing.T, name string) []byte {
	t.Helper()
	return machine.Unpacked(t, machine.Data(t, "logs", name))
}

// awk runs a program over a file and returns its lines, sorted.
func awk(t *testing.T, program, file string, variables ...string) []string {
	t.Helper()
	path, err := exec.LookPath("awk")
	if err != nil {
		t.Skip("no awk on this machine")
	}
	args := []string{}
	for _, v := range variables {
		args = append(args, "-v", v)
	}
	cmd := exec.Command(path, append(args, program, file)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("awk: %v: %s", err, stderr.String())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// same compares lines, those of want already sorted.
func same(t *testing.T, got, want []string) {
	t.Helper()
	slices.Sort(got)
	for _, line := range got {
		if _, ok := slices.BinarySearch(want, line); !ok {
			t.Errorf("only the report says %s", line)
		}
	}
	for _, line := range want {
		if _, ok := slices.BinarySearch(got, line); !ok {
			t.Errorf("only awk says        %s", line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, and %d of awk", len(got), len(want))
	}
}

// figures lists a report's figures, one per line.
func figures(r *report.Report) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	say("total %d %d", r.Total.Requests, r.Total.Bytes)
	for status, n := range r.Status {
		say("status %d %d", status, n)
	}
	for h, s := range r.Hours {
		if s.Requests > 0 {
			say("hour %02d %d %d %d", h, s.Requests, s.Bytes, s.Crawlers.Requests)
		}
	}
	for _, d := range r.Days {
		say("day %s %d %d", d.Date, d.Requests, d.Crawlers.Requests)
	}
	for _, c := range r.Crawlers {
		say("crawler %s: %d %d", c.Name, c.Requests, c.Bytes)
		say("reading %s: %d %d %d %d %d %d %d", c.Name, c.Pages, c.Reads.Requests, c.Reads.Bytes, c.Same.Requests, c.Same.Bytes, c.Different.Requests, c.NotModified)
		for status, n := range c.Status {
			say("crawler %s: status %d %d", c.Name, status, n)
		}
		for h, n := range c.Hours {
			if n > 0 {
				say("crawler %s: hour %02d %d", c.Name, h, n)
			}
		}
	}
	for _, p := range r.Pages {
		say("page %d %d %d %d %s", p.Same.Requests, p.Same.Bytes, p.Reads, p.Requests, p.URL)
	}
	return lines
}

// counting computes the same figures in awk: from lines split at their quotes, with the agents' names from a
// file.
const counting = `
BEGIN {
	FS = "\""
	while ((getline line < names) > 0) { i = index(line, "\t"); name[substr(line, i+1)] = substr(line, 1, i-1) }
	split("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec", m, " ")
	for (i in m) month[m[i]] = i
}
{
	split($3, after, " "); status = after[1]; size = after[2] == "-" ? 0 : after[2]
	split($1, before, "["); split(before[2], time, ":"); split(time[1], date, "/")
	hour = time[2]; day = sprintf("%s-%02d-%s", date[3], month[date[2]], date[1])
	split($2, request, " "); url = request[2]
	n++; bytes += size; statuses[status]++; hours[hour]++; hbytes[hour] += size; days[day]++; urls[url]++
	if (!($6 in name)) next
	who = name[$6]
	requests[who]++; sent[who] += size; cstatus[who ": status " status]++; chour[who ": hour " hour]++; crawled[hour]++; dcrawled[day]++
	if (request[1] != "GET") next
	if (status == 304) fresh[who]++
	if (status != 200) next
	reads[who]++; rbytes[who] += size; ureads[url]++
	if ((who, url) in last) {
		if (last[who, url] == size) { again[who]++; abytes[who] += size; uagain[url]++; ubytes[url] += size } else other[who]++
	} else pages[who]++
	last[who, url] = size
}
END {
	printf "total %d %.0f\n", n, bytes
	for (s in statuses) printf "status %s %d\n", s, statuses[s]
	for (h in hours) printf "hour %s %d %.0f %d\n", h, hours[h], hbytes[h], crawled[h]
	for (d in days) printf "day %s %d %d\n", d, days[d], dcrawled[d]
	for (w in requests) {
		printf "crawler %s: %d %.0f\n", w, requests[w], sent[w]
		printf "reading %s: %d %d %.0f %d %.0f %d %d\n", w, pages[w], reads[w], rbytes[w], again[w], abytes[w], other[w], fresh[w]
	}
	for (s in cstatus) printf "crawler %s %d\n", s, cstatus[s]
	for (h in chour) printf "crawler %s %d\n", h, chour[h]
	for (u in uagain) printf "page %d %.0f %d %d %s\n", uagain[u], ubytes[u], ureads[u], urls[u], u
}`

// The report agrees with an independent count, line by line: of requests, bytes, statuses, hours and days; of
// each crawler; and of every page that was fetched again.
func TestAgreesWithAwk(t *testing.T) {
	text := realLog(t, "semicomplete-2015-05.access.log.zst")
	dir := t.TempDir()
	file, names := filepath.Join(dir, "access.log"), filepath.Join(dir, "names")
	must.OK(t, os.WriteFile(file, text, 0o600))
	// The table decides what is a crawler: awk takes the names from it, and counts by them.
	var table strings.Builder
	agents, known := accesslog.NewAgents(), map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), `"`)
		if agent := fields[5]; !known[agent] {
			known[agent] = true
			if a := agents.Identify([]byte(agent)); agent != "-" && a.Kind.Crawler() {
				fmt.Fprintf(&table, "%s\t%s\n", a.Name, agent)
			}
		}
	}
	must.Write(t, names, table.String())
	r := build(t, string(text), report.Options{Top: 100_000})
	check(t, r)
	got, want := figures(r), awk(t, counting, file, "names="+names)
	same(t, got, want)
	t.Logf("%d lines agree", len(want))

	// Some crawlers, counted without the table.
	for name, agent := range map[string]string{
		"Googlebot": "Googlebot/", "bingbot": "bingbot/", "YandexBot": "YandexBot/", "archive.org_bot": "; archive.org_bot",
		"Ezooms": "Ezooms", "FeedBurner": "FeedBurner/", "Baiduspider": "Baiduspider", "Twitterbot": "Twitterbot", "MJ12bot": "MJ12bot/",
	} {
		program := `BEGIN { FS = "\"" } index($6, agent) { split($3, a, " "); n++; if (a[2] != "-") bytes += a[2] } END { printf "%d %.0f\n", n, bytes }`
		want := awk(t, program, file, "agent="+agent)
		if c := crawler(t, r, name, report.Claimed); fmt.Sprintf("%d %d", c.Requests, c.Bytes) != want[0] {
			t.Errorf("%s: %d requests, %d bytes; awk counts %s", name, c.Requests, c.Bytes, want[0])
		}
	}
}

// A log of another site, in another format: awk counts the original, and the report a converted log.
func TestAgreesWithAwkCommon(t *testing.T) {
	text := realLog(t, "nasa-ksc-1995-08-01.tsv.zst")
	file := filepath.Join(t.TempDir(), "nasa.tsv")
	must.OK(t, os.WriteFile(file, text, 0o600))
	var log strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		var unix int64
		if _, err := fmt.Sscan(f[2], &unix); err != nil {
			continue // the header line
		}
		at := time.Unix(unix, 0).In(time.FixedZone("", -4*60*60))
		fmt.Fprintf(&log, "%s - - [%s] \"%s %s HTTP/1.0\" %s %s\n", f[0], at.Format("02/Jan/2006:15:04:05 -0700"), f[3], f[4], f[5], f[6])
	}
	const program = `
BEGIN { FS = "\t" }
NR > 1 {
	local = $3 - 4*3600; hour = sprintf("%02d", int(local % 86400 / 3600))
	n++; bytes += $7; status[$6]++; hours[hour]++; hbytes[hour] += $7; days[int(local / 86400)]++
}
END {
	printf "total %d %.0f\n", n, bytes
	for (s in status) printf "status %s %d\n", s, status[s]
	for (h in hours) printf "hour %s %d %.0f 0\n", h, hours[h], hbytes[h]
	for (d in days) printf "day 1995-08-%02d %d 0\n", d - 9343 + 1, days[d]
}`
	r := build(t, log.String(), report.Options{Top: 100_000})
	check(t, r)
	if r.Log.NoAgent != r.Total.Requests {
		t.Errorf("%d of %d lines have no agent", r.Log.NoAgent, r.Total.Requests)
	}
	want := awk(t, program, file)
	same(t, figures(r), want)
	t.Logf("%d lines agree", len(want))
}
