package accesslog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// shown writes an entry on a line, for comparison.
func shown(e *accesslog.Entry) string {
	agent := fmt.Sprintf("%q", e.Agent)
	if e.NoAgent {
		agent = "no agent"
	}
	return fmt.Sprintf("%s|%s|%s|%q|%q|%d|%d|%q|%s", e.Host, e.Addr, e.Time().Format(time.RFC3339), e.Method, e.Target, e.Status, e.Bytes, e.Referer, agent)
}

// The same request in every format is read as the same entry.
func TestFormats(t *testing.T) {
	const whole = `|192.0.2.7|2026-10-05T14:03:09+02:00|"GET"|"/a?b=c"|200|5120|"https://example.org/"|"Mozilla/5.0 (X)"`
	const utc = `|192.0.2.7|2026-10-05T12:03:09Z|"GET"|"/a?b=c"|200|5120|"https://example.org/"|"Mozilla/5.0 (X)"`
	for _, c := range []struct{ name, line, want string }{
		{"combined", `192.0.2.7 - - [05/Oct/2026:14:03:09 +0200] "GET /a?b=c HTTP/1.1" 200 5120 "https://example.org/" "Mozilla/5.0 (X)"`, whole},
		{"combined", `192.0.2.7 - ann lee [05/Oct/2026:14:03:09 +0200] "GET /a?b=c HTTP/2.0" 200 5120 "https://example.org/" "Mozilla/5.0 (X)" "203.0.113.9" 0.003`, whole},
		{"common", `192.0.2.7 - - [05/Oct/2026:14:03:09 +0200] "GET /a?b=c HTTP/1.1" 200 5120`, `|192.0.2.7|2026-10-05T14:03:09+02:00|"GET"|"/a?b=c"|200|5120|""|no agent`},
		{"common", `www.a.example - - [05/Oct/2026:14:03:09 +0200] "GET /a" 304 -`, `|www.a.example|2026-10-05T14:03:09+02:00|"GET"|"/a"|304|0|""|no agent`},
		{"combined with virtual host", `example.org:443 192.0.2.7 - - [05/Oct/2026:14:03:09 +0200] "GET /a?b=c HTTP/1.1" 200 5120 "https://example.org/" "Mozilla/5.0 (X)"`, `example.org` + whole},
		{"combined with virtual host", `example.org 192.0.2.7 - - [05/Oct/2026:14:03:09 +0200] "GET /a?b=c HTTP/1.1" 200 5120 "https://example.org/" "Mozilla/5.0 (X)"`, `example.org` + whole},
		{"combined with virtual host", `[2001:db8::1]:80 2001:db8::2 - - [05/Oct/2026:14:03:09 +0200] "GET / HTTP/1.1" 200 1 "-" "-"`, `2001:db8::1|2001:db8::2|2026-10-05T14:03:09+02:00|"GET"|"/"|200|1|""|""`},
		{"combined", `2001:db8::2 - - [05/Oct/2026:14:03:09 -0330] "HEAD * HTTP/1.1" 200 0 "-" "-"`, `|2001:db8::2|2026-10-05T14:03:09-03:30|"HEAD"|"*"|200|0|""|""`},
		{"JSON", `{"time_local":"05/Oct/2026:14:03:09 +0200","remote_addr":"192.0.2.7","request":"GET /a?b=c HTTP/1.1","status":"200","body_bytes_sent":"5120","bytes_sent":"5500","http_referer":"https://example.org/","http_user_agent":"Mozilla/5.0 (X)"}`, whole},
		{"JSON", `{"time_iso8601":"2026-10-05T14:03:09+02:00","remote_addr":"192.0.2.7","request_method":"GET","request_uri":"/a?b=c","status":200,"bytes_sent":5120,"http_referer":"https://example.org/","http_user_agent":"Mozilla/5.0 (X)","request_time":0.001}`, whole},
		{"JSON", `{"msec": "1791201789.123", "remote_addr": "192.0.2.7", "request_method": "GET", "uri": "/a", "args": "b=c", "status": "200", "body_bytes_sent": "5120", "http_referer": "https:\/\/example.org\/", "http_user_agent": "Mozilla/5.0 (X)"}`, utc},
		{"JSON", `{"level":"info","ts":1791201789.1234567,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","remote_port":"49412","client_ip":"192.0.2.7","proto":"HTTP/2.0","method":"GET","host":"example.org:443","uri":"/a?b=c","headers":{"Accept":["*/*"],"User-Agent":["Mozilla/5.0 (X)"],"Referer":["https://example.org/"]},"tls":{"resumed":false}},"bytes_read":0,"user_id":"","duration":0.0009,"size":5120,"status":200,"resp_headers":{"Server":["Caddy"]}}`, `example.org` + utc},
		{"JSON", `{"ClientAddr":"192.0.2.7:51000","ClientHost":"192.0.2.7","DownstreamContentSize":5120,"DownstreamStatus":200,"RequestHost":"example.org","RequestMethod":"GET","RequestPath":"/a?b=c","StartUTC":"2026-10-05T12:03:09.5Z","request_Referer":"https://example.org/","request_User-Agent":"Mozilla/5.0 (X)","time":"2026-10-05T12:03:10Z"}`, `example.org` + utc},
		{"JSON", `{ "time":"[05/Oct/2026:14:03:09 +0200]", "remoteIP":"192.0.2.7", "method":"GET", "request":"/a", "query":"?b=c", "status":"200", "bytes":"5120", "userAgent":"Mozilla/5.0 (X)", "referer":"https://example.org/" }`, whole},
		{"JSON", `{"@timestamp":"2026-10-05T12:03:09.000Z","client":{"ip":"192.0.2.7"},"http":{"request":{"method":"GET","referrer":"https://example.org/"},"response":{"status_code":200,"body":{"bytes":5120}}},"url":{"original":"/a?b=c","domain":"example.org"},"user_agent":{"original":"Mozilla/5.0 (X)"}}`, `example.org` + utc},
		{"JSON", `{"ts":1791201789123,"remote_ip":"192.0.2.7","method":"GET","uri":"/","status":204}`, `|192.0.2.7|2026-10-05T12:03:09Z|"GET"|"/"|204|-1|""|no agent`},
		{"JSON", `{"ts":1.791201789e+09,"remote_ip":"192.0.2.7","method":"GET","uri":"/\u00e9\ud83d\ude00\x22","status":404,"size":0,"user_agent":null}`, `|192.0.2.7|2026-10-05T12:03:09Z|"GET"|"/é😀\""|404|0|""|""`},
	} {
		var p accesslog.Parser
		var e accesslog.Entry
		if err := p.Parse([]byte(c.line), &e); err != nil {
			t.Errorf("%s\n%v", c.line, err)
			continue
		}
		if got := shown(&e); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.line, got, c.want)
		}
		if got := accesslog.Format([]byte(c.line), &e); got != c.name {
			t.Errorf("%s\nis %s, want %s", c.line, got, c.name)
		}
	}
}

// A client's data can neither break a line nor forge a field.
func TestHostileLines(t *testing.T) {
	const head = `192.0.2.7 - - [05/Oct/2026:14:03:09 +0200] `
	for _, c := range []struct{ line, want string }{
		{`"GET /\x22 200 1 \x22 HTTP/1.1" 404 7 "-" "a"`, `"GET"|"/\" 200 1 \""|404|7|""|"a"`},
		{`"GET /\" 200 1 \" HTTP/1.1" 404 7 "-" "a \"b\" \\"`, `"GET"|"/\" 200 1 \""|404|7|""|"a \"b\" \\"`},
		{`"GET /a"b HTTP/1.1" 404 7 "-" "a"`, `"GET"|"/a\"b"|404|7|""|"a"`}, // a server that does not escape
		{`"GET /a b c HTTP/1.1" 400 7 "-" "a"`, `"GET"|"/a b c"|400|7|""|"a"`},
		{`"\x16\x03\x01\x02" 400 7 "-" "-"`, `""|"\x16\x03\x01\x02"|400|7|""|""`},
		{`"-" 408 0 "-" "-"`, `""|"-"|408|0|""|""`},
		{`"" 400 0 "-" "-"`, `""|""|400|0|""|""`},
		{`"get / HTTP/1.1" 400 0 "-" "-"`, `""|"get / HTTP/1.1"|400|0|""|""`},
		{`"GET https://other.example/x HTTP/1.1" 200 0 "-" "-"`, `"GET"|"https://other.example/x"|200|0|""|""`},
		{`"GET / HTTP/1.1" 200 12 "-" "cut in the mid`, `"GET"|"/"|200|12|""|"cut in the mid"`},
		{`"GET / HTTP/1.1" 200 12 "-`, `"GET"|"/"|200|12|""|no agent`},
		{`"GET /%00\x00\n HTTP/1.1" 200 12 "-" "\q\u12"`, `"GET"|"/%00\x00\n"|200|12|""|"\\q\\u12"`},
	} {
		var p accesslog.Parser
		var e accesslog.Entry
		if err := p.Parse([]byte(head+c.line), &e); err != nil {
			t.Errorf("%s\n%v", c.line, err)
		} else if got := strings.SplitN(shown(&e), "|", 4)[3]; got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.line, got, c.want)
		}
	}
	// The user's name may hold anything too, but no time.
	var p accesslog.Parser
	var e accesslog.Entry
	if err := p.Parse([]byte(`192.0.2.7 - [01/Foo/2026:14:03:09 +0200] [05/Oct/2026:14:03:09 +0200] "GET / HTTP/1.1" 200 1`), &e); err != nil || e.Status != 200 {
		t.Errorf("brackets in a name: %v, %s", err, shown(&e))
	}
	for _, line := range []string{
		"", "\r", "hello", "{", "{}", `{"a":`, `{"time":"x","ip":"y"}`, `[05/Oct/2026:14:03:09 +0200] "GET / HTTP/1.1" 200 1`,
		head, head + `"GET / HTTP/1.1"`, head + `"GET / HTTP/1.1" 600 1`, head + `"GET / HTTP/1.1" 200 1x`,
		head + `"GET / HTTP/1.1" 200 99999999999999999999`, head + `GET / 200 1`,
		`192.0.2.7 - - [31/Feb/2026:14:03:09 +0200] "GET / HTTP/1.1" 200 1`, `192.0.2.7 - - [05/Oct/2026:24:03:09 +0200] "GET / HTTP/1.1" 200 1`,
		`192.0.2.7 - - [05/Oct/2026:14:03:09 *0200] "GET / HTTP/1.1" 200 1`, `192.0.2.7 - - [05/Oct/0026:14:03:09 +0200] "GET / HTTP/1.1" 200 1`,
		`{"ts":1,"remote_ip":"192.0.2.7"} x`, `{"ts":"later","remote_ip":"192.0.2.7"}`, `{"ts":1,"remote_ip":["192.0.2.7"}`,
		`{"ts":1,"remote_ip":` + strings.Repeat("[", 100_000), `{"ts":1,"a":` + strings.Repeat(`{"a":`, 100_000),
		"#Fields: date time cs-method", "Oct  5 14:03:09 www nginx: something else",
	} {
		if err := p.Parse([]byte(line), &e); err == nil {
			t.Errorf("%.80q was read as %s", line, shown(&e))
		}
	}
}

// Times are those of package time, whatever was read before.
func TestParseTimes(t *testing.T) {
	var p accesslog.Parser
	at := time.Date(1999, 12, 30, 22, 58, 57, 0, time.FixedZone("", -3*3600-1800))
	for i := range 5000 {
		line := `a - - [` + at.Format("02/Jan/2006:15:04:05 -0700") + `] "GET / HTTP/1.1" 200 1`
		var e accesslog.Entry
		if err := p.Parse([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.Unix != at.Unix() || !e.Time().Equal(at) || e.Time().Format(time.RFC3339) != at.Format(time.RFC3339) {
			t.Fatalf("%s: is %v", line, e.Time())
		}
		step := []time.Duration{0, time.Second, 17 * time.Second, -3 * time.Second, time.Hour, 40 * 24 * time.Hour}[i%6]
		at = at.Add(step)
		if i%1000 == 999 {
			at = at.In(time.FixedZone("", i*3%80000/60*60))
		}
	}
}

// line writes a line of the combined format, so many seconds after an hour began.
func line(second int, what string) string {
	return fmt.Sprintf("192.0.2.7 - - [05/Oct/2026:14:%02d:%02d +0000] \"GET /%s HTTP/1.1\" 200 5 \"-\" \"a\"\n", second/60, second%60, what)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch filepath.Ext(name) {
	case ".gz":
		w = coding.NewGzip(&b)
	case ".zst":
		w = coding.NewZstd(&b)
	default:
		b.WriteString(text)
	}
	if w != nil {
		must.Get(io.WriteString(w, text))
		must.OK(t, w.Close())
	}
	must.OK(t, os.WriteFile(name, b.Bytes(), 0o600))
	return name
}

// read returns the paths in the order of the entries.
func read(t *testing.T, stdin io.Reader, patterns ...string) (paths string, files *accesslog.Files) {
	t.Helper()
	files = must.Get(accesslog.Open(patterns, stdin))
	defer files.Close()
	for e := files.Next(); e != nil; e = files.Next() {
		paths += string(e.Target)
	}
	if e := files.Next(); e != nil {
		t.Errorf("after the end there is %s", shown(e))
	}
	return paths, files
}

// Rotated files are read oldest first, whatever their names and codings.
func TestRotatedFilesAreReadInOrder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/access.log", line(50, "i")+line(51, "j"))
	write(t, dir+"/access.log.1", line(40, "g")+line(41, "h"))
	write(t, dir+"/access.log.10.gz", line(10, "a")+line(11, "b")+line(11, "c"))
	write(t, dir+"/access.log.2.zst", line(30, "e")+line(31, "f"))
	write(t, dir+"/access.log.3.gz", line(20, "d"))
	write(t, dir+"/access.log.empty", "")
	want := "/a/b/c/d/e/f/g/h/i/j"
	got, files := read(t, nil, dir+"/access.log*", dir+"/access.log") // the second is one of the first
	if got != want || len(files.Files()) != 6 {
		t.Errorf("%d files: %s", len(files.Files()), got)
	}
	stdin := must.Get(os.ReadFile(dir + "/access.log.2.zst"))
	must.OK(t, os.Remove(dir+"/access.log.2.zst"))
	if got, files := read(t, bytes.NewReader(stdin), "-", dir+"/access.log*"); got != want || files.Size() != -1 {
		t.Errorf("with standard input: %s", got)
	}

	// The logs of two servers are one log.
	write(t, dir+"/b.log", line(5, "1")+line(15, "2")+line(35, "3")+line(99, "4"))
	if got, _ := read(t, bytes.NewReader(stdin), "-", dir+"/access.log*", dir+"/b.log"); got != "/1/a/b/c/2/d/e/f/3/g/h/i/j/4" {
		t.Errorf("two servers: %s", got)
	}
	if got, _ := read(t, strings.NewReader(line(1, "x")), "-"); got != "/x" {
		t.Errorf("only standard input: %s", got)
	}
	for _, bad := range [][]string{{dir + "/none*"}, {dir}, {"-", "-"}, {dir + "/[.log"}} {
		if files, err := accesslog.Open(bad, strings.NewReader("")); err == nil {
			files.Close()
			t.Errorf("%q was opened", bad)
		}
	}
}

// A log and its compressed copy are read once, and progress ends at the total.
func TestCompressedCopyIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	text := ""
	for i := range 200 {
		text += line(i, fmt.Sprint(i))
	}
	whole := write(t, dir+"/access.log.1", text)
	write(t, dir+"/access.log.1.gz", text[:len(text)*3/4]) // not finished
	write(t, dir+"/access.log.2.gz", strings.ReplaceAll(text, "05/Oct", "04/Oct"))
	files := must.Get(accesslog.Open([]string{dir + "/*"}, nil))
	defer files.Close()
	progress, n := int64(0), 0
	files.Progress = func(n int64) { progress += n }
	for files.Next() != nil {
		n++
	}
	if n != 400 || progress != files.Size() {
		t.Errorf("%d entries; %d bytes of %d", n, progress, files.Size())
	}
	for _, f := range files.Files() {
		if twin := strings.HasSuffix(f.Name, "1.gz"); twin != (f.DuplicateOf == whole) {
			t.Errorf("%s: twin %q", f.Name, f.DuplicateOf)
		}
	}
}

// Broken lines are counted and shown, and stop nothing.
func TestBrokenLinesAreCounted(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 3*accesslog.MaxLine)
	text := "\xef\xbb\xbf" + line(1, "a") +
		"\n" + "garbage \x1b[31m\n" +
		strings.TrimSuffix(line(2, "b"), "\n") + "\r\n" +
		strings.Repeat("\x00", 5*accesslog.MaxLine) + line(3, "c") +
		"192.0.2.7 - - [05/Oct/2026:14:00:04 +0000] \"GET /d HTTP/1.1\" 200 5 \"-\" \"" + long + "\"\n" +
		"192.0.2.7 - - [05/Oct/2026:14:00:05 +0000] \"GET /" + long + " HTTP/1.1\" 414 5 \"-\" \"a\"\n" +
		strings.Repeat("y", accesslog.MaxLine+1) + "\n" +
		line(6, "e") + line(7, "f")
	text = text[:len(text)-1] // the last line has no end
	got, files := read(t, nil, write(t, dir+"/a", text))
	f := files.Files()[0]
	if got != "/a/b/c/d/e/f" || f.Lines != 10 || f.Broken != 4 || f.Cut != 3 || f.Entries != 6 || f.Err != nil {
		t.Errorf("%s: %+v", got, f)
	}
	examples := files.Examples()
	if len(examples) != 4 || examples[1].Line != 3 || examples[1].Text != `"garbage \x1b[31m"` || len(examples[3].Text) > 200 {
		t.Errorf("examples: %+v", examples)
	}

	// A line that is being written is not a broken one.
	half := line(9, "x")[:60]
	if got, files := read(t, nil, write(t, dir+"/b", line(1, "a")+half)); got != "/a" || files.Files()[0].Broken != 0 || files.Files()[0].Lines != 1 {
		t.Errorf("%s: %+v", got, files.Files()[0])
	}
	if _, files := read(t, strings.NewReader(line(1, "a")+half), "-"); files.Files()[0].Broken != 1 {
		t.Errorf("%+v", files.Files()[0])
	}

	// Entries before the damage in a file count.
	text = ""
	for i := range 3000 {
		text += line(i%3600, fmt.Sprint(i*7919%3000, i*104729%3000))
	}
	name := write(t, dir+"/c.gz", text)
	z := must.Get(os.ReadFile(name))
	must.OK(t, os.WriteFile(name, z[:len(z)/2], 0o600))
	write(t, dir+"/d.gz", line(3599, "last"))
	got, files = read(t, nil, dir+"/?.gz")
	if f := files.Files()[0]; f.Err == nil || f.Entries < 500 || !strings.HasSuffix(got, "/last") {
		t.Errorf("%d entries, %v", f.Entries, f.Err)
	}
	must.OK(t, os.WriteFile(name, z[:5], 0o600))
	if got, files = read(t, nil, dir+"/?.gz"); got != "/last" || files.Files()[0].Err == nil {
		t.Errorf("a header cut short: %s, %v", got, files.Files()[0].Err)
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`192.0.2.7 - - [05/Oct/2026:14:03:09 +0200] "GET /a?b=c HTTP/1.1" 200 5120 "https://example.org/" "Mozilla/5.0 (X) \x22 \\ \u00e9"`,
		`example.org:443 2001:db8::1 - - [05/Oct/2026:14:03:09 +0200] "\x16\x03" 400 - "-" "-"`,
		`{"ts":1.791201789e+09,"remote_ip":"192.0.2.7","method":"GET","uri":"/\ud83d\ude00","status":404,"size":0,"request":{"headers":{"User-Agent":["a"]}}}`,
		`{"time_local":"05/Oct/2026:14:03:09 +0200","remote_addr":"192.0.2.7","request":"GET /a?b=c HTTP/1.1","status":"200","body_bytes_sent":"5120","args":"x"}`,
		`{"a":[1,[2,{"b":null}],true],"c":{}}`,
	} {
		f.Add([]byte(line))
	}
	for i, line := range realLines(f) {
		if i%500 == 0 {
			f.Add(line)
		}
	}
	agents := accesslog.NewAgents()
	f.Fuzz(func(t *testing.T, line []byte) {
		var p accesslog.Parser
		var e accesslog.Entry
		err := p.Parse(line, &e)
		if err != nil {
			if err.Error() == "invalid JSON" && json.Valid(line) && bytes.Count(line, []byte("{"))+bytes.Count(line, []byte("[")) < 8 {
				t.Errorf("%q is valid JSON and was rejected", line)
			}
			return
		}
		if len(e.Addr) == 0 || e.Status < 0 || e.Status > 599 || e.Status > 0 && e.Status < 100 || e.Bytes < -1 || e.Bytes > 1<<50 {
			t.Errorf("%q: %s", line, shown(&e))
		}
		if all := len(e.Host) + len(e.Addr) + len(e.Method) + len(e.Target) + len(e.Referer) + len(e.Agent); all > 3*len(line)+16 {
			t.Errorf("%q: grew to %d bytes", line, all)
		}
		// The same line is the same entry, also for a parser that has read before.
		want := shown(&e)
		if err := p.Parse(line, &e); err != nil || shown(&e) != want {
			t.Errorf("%q: once %s, then %s, %v", line, want, shown(&e), err)
		}
		if a := agents.Identify(e.Agent); a.Name == "" || len(a.Name) > 40 {
			t.Errorf("%q is named %q", e.Agent, a.Name)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(line(1, "a") + "\x00\x00\n" + line(2, "b")))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		files := must.Get(accesslog.Open([]string{"-"}, bytes.NewReader(text)))
		defer files.Close()
		n := int64(0)
		for files.Next() != nil {
			n++
		}
		if in := files.Files()[0]; in.Entries != n || in.Entries+in.Broken != in.Lines {
			t.Errorf("%d entries of %+v", n, in)
		}
	})
}

// realLines are lines of a real log, if there is one.
func realLines(t testing.TB) [][]byte {
	path := filepath.Join(os.Getenv("PARLEY_DATA"), "logs", "semicomplete-2015-05.access.log.zst")
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	text := machine.Unpacked(t, path)
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
}
