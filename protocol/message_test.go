package protocol_test

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
)

func at(seq uint64) protocol.Cursor { return protocol.Cursor{Epoch: "k3v7q2m4x5n6p2aa", Seq: seq} }

// messages returns one of every kind, with every field set.
func messages() []protocol.Message {
	const base = "https://www.example.com/"
	now := date("2026-11-21T05:00:09.250Z")
	item := protocol.Item{URL: base + "new.html?a=1&b=<2>", Modified: now, Length: 5120, Type: "text/html", Digest: protocol.Sum([]byte("new"))}
	coarse := protocol.Item{URL: base + "coarse.html", Modified: date("2004-10-01"), Span: 24 * time.Hour, Length: -1}
	created := protocol.Change{Seq: 48204, At: now, Op: protocol.Create, Item: item}
	updated := protocol.Change{Seq: 48206, At: now, Op: protocol.Update, Item: coarse, Prev: protocol.Sum([]byte("old"))}
	coarse.Text, coarse.Language, coarse.Canonical, coarse.Importance = protocol.Sum([]byte("text")), "de-AT", "https://other.example/?a=1&b=%3C2%3E", 1
	updated.Item, updated.Significance = coarse, protocol.SignificanceOf(0.057)
	same := protocol.Change{Seq: 48208, At: now, Op: protocol.Update, Item: item, Prev: protocol.Sum([]byte("old")), Significance: protocol.SignificanceOf(0)}
	moved := protocol.Change{Seq: 48207, Significance: protocol.SignificanceOf(1), At: now, Op: protocol.Move, Item: item, From: base + "old.html", Prev: item.Digest}
	deleted := protocol.Change{Seq: 48213, At: now, Op: protocol.Delete, Item: protocol.Item{URL: base + "gone.html", Length: -1}, Prev: protocol.Sum([]byte("gone"))}
	return []protocol.Message{
		{Kind: protocol.Hello, From: at(48200), Head: at(48213), Floor: at(31007), At: now, Heartbeat: 25 * time.Second, Manifest: base + "robots.rdf"},
		{Kind: protocol.Ev, To: at(48204), Changes: []protocol.Change{created}},
		{Kind: protocol.Ev, To: at(48214), Changes: []protocol.Change{deleted}},
		{Kind: protocol.Batch, From: at(48203), To: at(48213), Changes: []protocol.Change{created, updated, moved, same, deleted}},
		{Kind: protocol.Batch, From: at(48213), To: at(48213), Head: at(48213)},
		{Kind: protocol.Mark, To: at(48290), Head: at(48290), At: now},
		{Kind: protocol.Gap, From: at(3), To: at(31007), Reason: "older than is kept", Manifest: base + "robots.rdf"},
		{Kind: protocol.Bye, From: at(48290), Code: protocol.CloseShutdown, Reason: "restart", Retry: 1500 * time.Millisecond},
		{Kind: protocol.Ev, To: at(48204), Changes: []protocol.Change{created}, Bodies: []protocol.Body{inline("", "<p>neu & süß</p>\n\u2028")}},
		{Kind: protocol.Ev, To: at(48204), Changes: []protocol.Change{created}, Bodies: []protocol.Body{inline(protocol.CodingAgent, `{"words":7}`)}},
		{Kind: protocol.Batch, From: at(48203), To: at(48213), Changes: []protocol.Change{created, updated, moved, same, deleted}, Bodies: []protocol.Body{
			inline("", ""), {Coding: protocol.CodingDelta, Base: updated.Prev, Bytes: []byte{0x5e, 0x2a, 0x4d, 0x18, 0xff}, Length: 5}, {},
			{Href: item.URL, Length: 9 << 20, Digest: item.Digest}, {}}},
		{Kind: protocol.Bundle, From: at(48203), To: at(48213), N: 4, Body: inline(protocol.CodingArchive, "\x1f\x8b\x08 a WARC")},
		{Kind: protocol.Bundle, From: at(48203), To: at(48213), Head: at(48214), N: 9000, Body: protocol.Body{
			Coding: protocol.CodingArchive, Href: base + "parley/batch?after=e%3A3&to=e%3A4", Length: -1}},
		{Kind: protocol.Archive, To: at(48213), N: 900, Body: protocol.Body{Href: base + "parley/site.wacz", Length: 3 << 30, Digest: protocol.Sum([]byte("wacz"))}},
	}
}

// inline is a body that stands in its message.
func inline(coding, content string) protocol.Body {
	return protocol.Body{Coding: coding, Bytes: []byte(content), Length: int64(len(content))}
}

func TestMessageRoundTrip(t *testing.T) {
	for _, m := range messages() {
		line := m.Encode()
		if bytes.ContainsAny(line, "\n\r") {
			t.Errorf("%s is longer than one line: %q", m.Kind, line)
		}
		if strings.Contains(string(line), `"ev":`) != (m.Kind == protocol.Batch && len(m.Changes) > 0) {
			t.Errorf("ev is present or missing wrongly in a message of %d changes: %s", len(m.Changes), line)
		}
		got, err := protocol.ParseMessage(line)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s\ngives %+v, %v\nwant  %+v", line, got, err, m)
		}
		for n := range line {
			if got, err := protocol.ParseMessage(line[:n]); err == nil {
				t.Errorf("cut at %d, %s gives %+v", n, line[:n], got)
			}
		}
	}
}

// A reader of today understands the messages of a future version.
func TestMessageFromTheFuture(t *testing.T) {
	for _, c := range []struct {
		in   string
		want protocol.Message
	}{
		{`{"t":"refresh","to":17,"ev":"?"}`, protocol.Message{Kind: "refresh"}},
		{`{"t":"mark","to":"e:1","head":"e:2","at":"2026-11-21T05:00:09Z","sites":[{}],"hello":null}`,
			protocol.Message{Kind: protocol.Mark, To: protocol.Cursor{Epoch: "e", Seq: 1}, Head: protocol.Cursor{Epoch: "e", Seq: 2}, At: date("2026-11-21T05:00:09Z")}},
		{`{"t":"ev","to":"e:9","seq":9,"op":"meta","url":"/a","from":"/b","hash":"sha-512=:AA==:","prev":"md5","mod":"yesterday","type":"text/html; charset=utf-8","len":-7,"sig":0.5}`,
			protocol.Message{Kind: protocol.Ev, To: protocol.Cursor{Epoch: "e", Seq: 9}, Changes: []protocol.Change{
				{Seq: 9, Op: protocol.Update, Significance: protocol.SignificanceOf(0.5), Item: protocol.Item{URL: "/a", Length: -1, Type: "text/html"}}}}},
		{`{"t":"ev","to":"e:9","seq":9,"op":"update","url":"https://h/a","sig":1.5,"text":"md5=:AA==:","lang":"e n","canonical":"javascript:alert(1)","imp":-1}`,
			protocol.Message{Kind: protocol.Ev, To: protocol.Cursor{Epoch: "e", Seq: 9}, Changes: []protocol.Change{
				{Seq: 9, Op: protocol.Update, Item: protocol.Item{URL: "https://h/a", Length: -1}}}}},
		{`{"t":"ev","to":"e:9","seq":9,"op":"update","url":"https://h/a","sig":0.0001,"lang":"` + strings.Repeat("x", 36) + `","canonical":"/b","imp":0.001}`,
			protocol.Message{Kind: protocol.Ev, To: protocol.Cursor{Epoch: "e", Seq: 9}, Changes: []protocol.Change{
				{Seq: 9, Op: protocol.Update, Significance: protocol.SignificanceOf(0.001), Item: protocol.Item{URL: "https://h/a", Length: -1, Importance: 1}}}}},
		{`{"t":"ev","to":"e:9","seq":9,"op":"create","url":"https://h/a","sig":0.5,"canonical":"HTTPS://H:443/a#top","imp":1e0}`,
			protocol.Message{Kind: protocol.Ev, To: protocol.Cursor{Epoch: "e", Seq: 9}, Changes: []protocol.Change{
				{Seq: 9, Op: protocol.Create, Item: protocol.Item{URL: "https://h/a", Length: -1, Importance: 100}}}}},
		{`{"t":"ev","to":"e:9","seq":9,"op":"delete","url":"/a","len":3,"mod":"2004","hash":"x","sig":1,"lang":"en","text":"` + protocol.Sum(nil).String() + `","canonical":"https://h/b","imp":1}`,
			protocol.Message{Kind: protocol.Ev, To: protocol.Cursor{Epoch: "e", Seq: 9}, Changes: []protocol.Change{
				{Seq: 9, Op: protocol.Delete, Item: protocol.Item{URL: "/a", Length: -1}}}}},
		{`{"t":"batch","from":"0:0","to":"0:0","n":0,"ev":null}`, protocol.Message{Kind: protocol.Batch}},
		{`{"t":"batch","from":"0:0","to":"0:0","n":0,"ev":[]}`, protocol.Message{Kind: protocol.Batch}},
	} {
		got, err := protocol.ParseMessage([]byte(c.in))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s\ngives %+v, %v\nwant  %+v", c.in, got, err, c.want)
		}
	}
}

func TestMessageRefused(t *testing.T) {
	const ev = `"seq":5,"op":"create","url":"/a"`
	for in, why := range map[string]string{
		``:                                    "end of JSON",
		`null`:                                "no member t",
		`{}`:                                  "no member t",
		`[]`:                                  "cannot unmarshal",
		`{"t":3}`:                             "cannot unmarshal",
		`{"t":"mark","to":"e:1"} {}`:          "invalid character",
		`{"t":"mark"}`:                        "watermark",
		`{"t":"gap","from":"e:1"}`:            "watermark",
		`{"t":"mark","to":"e1"}`:              "parse cursor",
		`{"t":"mark","to":1}`:                 "cannot unmarshal",
		`{"t":"mark","to":"e:1","at":"noon"}`: "parse date",
		`{"t":"hello","hb":-1}`:               "out of range",
		`{"t":"hello","hb":86401}`:            "out of range",
		`{"t":"bye","retry_ms":-1}`:           "out of range",
		`{"t":"ev",` + ev + `}`:               "watermark",
		`{"t":"ev","to":"e:4",` + ev + `}`:    "after its watermark",
		`{"t":"ev","to":"e:5","op":"create","url":"/a"}`:                                              "without \"seq\"",
		`{"t":"ev","to":"e:5","seq":5,"url":"/a"}`:                                                    "without \"op\"",
		`{"t":"ev","to":"e:5","seq":5,"op":"create"}`:                                                 "or \"url\"",
		`{"t":"ev","to":"e:5","seq":5,"op":"move","url":"/a"}`:                                        "move with invalid",
		`{"t":"ev","to":"e:5","from":"/b",` + ev + `}`:                                                "create with invalid",
		`{"t":"batch","to":"e:5","n":0}`:                                                              "batch from",
		`{"t":"batch","from":"e:6","to":"e:5","n":0}`:                                                 "batch from",
		`{"t":"batch","from":"d:4","to":"e:5","n":0}`:                                                 "batch from",
		`{"t":"batch","from":"e:4","to":"e:5"}`:                                                       "differs from",
		`{"t":"batch","from":"e:4","to":"e:5","n":2,"ev":[{` + ev + `}]}`:                             "differs from",
		`{"t":"batch","from":"e:5","to":"e:9","n":1,"ev":[{` + ev + `}]}`:                             "out of order",
		`{"t":"batch","from":"e:1","to":"e:4","n":1,"ev":[{` + ev + `}]}`:                             "out of order",
		`{"t":"batch","from":"e:1","to":"e:9","n":2,"ev":[{` + ev + `},{` + ev + `}]}`:                "out of order",
		`{"t":"batch","from":"e:1","to":"e:9","n":1,"ev":{}}`:                                         "not a list",
		`{"t":"batch","from":"e:1","to":"e:9","n":1001,"ev":[` + strings.Repeat(`{},`, 1000) + `{}]}`: "more than 1000 changes",
		`{"t":"mark","to":"e:1","reason":"` + strings.Repeat("x", protocol.MaxMessage) + `"}`:         "more than 4194304",
		`{"t":"mark","to":"e:1","x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`: "max depth",
	} {
		got, err := protocol.ParseMessage([]byte(in))
		if err == nil || !strings.HasPrefix(err.Error(), "parse message: ") || !strings.Contains(err.Error(), why) {
			t.Errorf("%.80s: %+v, %v, want an error with %q", in, got, err, why)
		}
	}
}

// Four megabytes of empty objects do not allocate four hundred.
func TestMessageOfManyEmptyChanges(t *testing.T) {
	in := []byte(`{"t":"batch","from":"e:1","to":"e:9","n":1,"ev":[` + strings.Repeat(`{},`, 1_300_000) + `{}]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := protocol.ParseMessage(in); err == nil {
		t.Error("no error")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("allocated %d MB", got>>20)
	}
}

// For any URLs, the changes that Fit allows can be sent in a message.
func TestFitLimitsMessageSize(t *testing.T) {
	if n := protocol.Fit(nil); n != 0 {
		t.Errorf("of none: %d", n)
	}
	for _, url := range []string{"https://h/", "https://h/" + strings.Repeat("&", 3000), "https://h/" + strings.Repeat("\x01", 1000)} {
		var all []protocol.Change
		for i := range 1100 {
			all = append(all, protocol.Change{Seq: uint64(i + 1), At: date("2026-11-21T05:00:09.250Z"), Op: protocol.Move,
				Item: protocol.Item{URL: url, Digest: protocol.Sum(nil), Modified: date("2026-11-21T05:00:09.250Z"), Length: 1 << 62,
					Text: protocol.Sum(nil), Language: strings.Repeat("x", 35), Canonical: url + "x", Importance: 99}, From: url, Prev: protocol.Sum(nil), Significance: 1000})
		}
		var from uint64
		for len(all) > 0 {
			n := protocol.Fit(all)
			if n < 1 || n > protocol.MaxBatch {
				t.Fatalf("%d of %d changes", n, len(all))
			}
			to := all[n-1].Seq
			m, err := protocol.ParseMessage(protocol.Message{Kind: protocol.Batch, From: at(from), To: at(to), Changes: all[:n]}.Encode())
			if err != nil || len(m.Changes) != n {
				t.Fatalf("%d changes with URLs of %d bytes: %v", n, len(url), err)
			}
			from, all = to, all[n:]
		}
	}
}

// For any page bytes, the computed weight is at least the encoded size.
func TestWeightBoundsEncodedSize(t *testing.T) {
	const most = protocol.MaxInline
	for name, page := range map[string]string{
		"text": strings.Repeat("a line\n", most/7), "quotes": strings.Repeat(`"`, most), "controls": strings.Repeat("\x01", most),
		"separators": strings.Repeat("\u2028", most/3), "no text": strings.Repeat("\xff", most), "nothing": "",
		"text, but for a byte": strings.Repeat("a", most-1) + "\xff", "deletes": strings.Repeat("\x7f", most), "mixed": strings.Repeat("a\"\x02é", most/5),
	} {
		c := protocol.Change{Seq: 1, Op: protocol.Create, Item: protocol.Item{URL: "https://h/" + name, Digest: protocol.Sum([]byte(page)), Length: int64(len(page))}}
		for _, b := range []protocol.Body{inline("", page), inline(protocol.CodingDelta, page), {Href: "https://h/" + name, Length: most, Digest: c.Item.Digest}} {
			m := protocol.Message{Kind: protocol.Ev, To: at(1), Changes: []protocol.Change{c}, Bodies: []protocol.Body{b}}
			line := m.Encode()
			if weight := protocol.Weight(&c, &b); len(line) > weight || weight > most*4/3+4000 {
				t.Errorf("%s %s: %d bytes, weighed %d", name, b.Coding, len(line), weight)
			}
			if got, err := protocol.ParseMessage(line); err != nil || !reflect.DeepEqual(got.Bodies, m.Bodies) {
				t.Errorf("%s %s: does not round-trip, %v", name, b.Coding, err)
			}
		}
	}
	b := inline("", strings.Repeat("x", most+1))
	if _, err := protocol.ParseMessage(protocol.Message{Kind: protocol.Bundle, To: at(1), From: at(0), Body: b}.Encode()); err == nil {
		t.Error("a body above the limit is accepted")
	}
}

func TestEncodeOfUnknownKindPanics(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "unknown kind") {
			t.Errorf("recovered %v", r)
		}
	}()
	protocol.Message{Kind: "refresh"}.Encode()
}

func FuzzMessage(f *testing.F) {
	for _, m := range messages() {
		f.Add(m.Encode())
	}
	f.Add([]byte(`{"t":"refresh"}`))
	for _, body := range []string{`{}`, `null`, `{"b64":"!"}`, `{"text":"","b64":"AA=="}`, `{"enc":"br","b64":"AAAA"}`, `{"href":"/x","len":-7,"hash":"md5=:x:"}`,
		`{"enc":"dcz","base":"sha-256=:","b64":""}`, `{"text":"\ud800"}`, `{"href":""}`} {
		f.Add([]byte(`{"t":"ev","to":"e:1","seq":1,"op":"create","url":"/a","body":` + body + `}`))
		f.Add([]byte(`{"t":"bundle","from":"e:0","to":"e:1","n":1,"body":` + body + `}`))
		f.Add([]byte(`{"t":"site","from":"0:0","to":"e:1","n":1,"body":` + body + `}`))
		f.Add([]byte(`{"t":"batch","from":"e:0","to":"e:2","n":2,"ev":[{"seq":1,"op":"delete","url":"/a","body":` + body + `},{"seq":2,"op":"update","url":"/a","body":` + body + `}]}`))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := protocol.ParseMessage(b)
		if err != nil {
			return
		}
		switch m.Kind {
		case protocol.Hello, protocol.Ev, protocol.Batch, protocol.Mark, protocol.Gap, protocol.Bye, protocol.Bundle, protocol.Archive:
		default:
			return
		}
		line := m.Encode()
		again, err := protocol.ParseMessage(line)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%q\nis %+v\nwritten %q\nis %+v, %v", b, m, line, again, err)
		}
	})
}
