package protocol_test

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func questions() []protocol.Question {
	after, to, d := workedAt(7), workedAt(9), protocol.Sum([]byte("a"))
	return []protocol.Question{
		{},
		{After: &after},
		{After: &after, To: &to, Have: map[string]protocol.Digest{workedBase: d, workedBase + "b": {1}}},
		{Pages: []protocol.RequestedPage{}},
		{Pages: []protocol.RequestedPage{{URL: workedBase, Hash: d}, {URL: workedBase + "b"}}},
	}
}

func TestQuestion(t *testing.T) {
	for _, q := range questions() {
		b, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := protocol.ReadQuestion(strings.NewReader(string(b)))
		if err != nil || !reflect.DeepEqual(*got, q) {
			t.Errorf("%s is %+v, %v", b, got, err)
		}
	}
}

func TestQuestionRefused(t *testing.T) {
	page := `{"url":"/a"},`
	pages := func(n int) io.Reader {
		return io.MultiReader(strings.NewReader(`{"pages":[`), repeat(page, n-1), strings.NewReader(`{"url":"/a"}]}`))
	}
	if q, err := protocol.ReadQuestion(pages(protocol.MaxQuestionPages)); err != nil || len(q.Pages) != protocol.MaxQuestionPages {
		t.Errorf("the maximum number of pages: %v", err)
	}
	for what, c := range map[string]struct {
		r      io.Reader
		limit  bool
		syntax bool
	}{
		"too many pages":              {r: pages(protocol.MaxQuestionPages + 1), limit: true},
		"endless pages":               {r: io.MultiReader(strings.NewReader(`{"pages":[`), repeat(page, 1<<40)), limit: true},
		"endless have":                {r: io.MultiReader(strings.NewReader(`{"have":{`), repeat(`"/a":"sha-256=:LCa0a2j/xo/5m0U8HTBBNBNCLXBkg7+g+YpeiGJm564=:",`, 1<<40)), limit: true},
		"an endless URL":              {r: io.MultiReader(strings.NewReader(`{"pages":[{"url":"`), repeat("a", 1<<40)), limit: true},
		"endless white space":         {r: io.MultiReader(strings.NewReader(`{"pages":[]}`), repeat(" ", 1<<40)), limit: true},
		"nothing":                     {r: strings.NewReader(``), syntax: true},
		"truncated":                   {r: strings.NewReader(`{"pages":[{"url":"/a"}`), syntax: true},
		"two objects":                 {r: strings.NewReader(`{}{}`), syntax: true},
		"an array":                    {r: strings.NewReader(`[]`)},
		"an unknown name":             {r: strings.NewReader(`{"afterwards":"x:1"}`)},
		"an unknown member of a page": {r: strings.NewReader(`{"pages":[{"url":"/a","etag":"x"}]}`)},
		"no cursor":                   {r: strings.NewReader(`{"after":7}`)},
		"pages as an object":          {r: strings.NewReader(`{"pages":{}}`)},
		"have as an array":            {r: strings.NewReader(`{"have":[]}`)},
	} {
		q, err := protocol.ReadQuestion(c.r)
		noJSON := errors.As(err, new(*json.SyntaxError)) || errors.Is(err, io.ErrUnexpectedEOF)
		if err == nil || q != nil || errors.Is(err, protocol.ErrLimit) != c.limit || noJSON != c.syntax || len(err.Error()) > 300 {
			t.Errorf("%s: %v, %v", what, q, err)
		}
	}
}

func FuzzQuestion(f *testing.F) {
	for _, q := range questions() {
		b := must.Get(json.Marshal(q))
		f.Add(string(b))
	}
	f.Add(`{"have":{"/a":null},"pages":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := protocol.ReadQuestion(strings.NewReader(text))
		if err != nil {
			return
		}
		b := must.Get(json.Marshal(q))
		again, err := protocol.ReadQuestion(strings.NewReader(string(b)))
		if err != nil {
			t.Fatalf("%s\nis written as %s\n%v", text, b, err)
		}
		if len(q.Have) == 0 { // which is the same query
			q.Have = nil
		}
		if !reflect.DeepEqual(again, q) {
			t.Fatalf("%s\nis %+v\nwritten %s\nis %+v", text, q, b, again)
		}
	})
}

func agentLines() (lines []any) {
	return []any{
		protocol.AgentOutput{URL: workedBase},
		protocol.AgentOutput{URL: workedBase, Digest: protocol.Digest{1}, Output: []byte{0, 1, 2}},
		protocol.AgentOutput{URL: workedBase, Output: make([]byte, protocol.MaxInline)},
		protocol.AgentOutput{URL: workedBase, Failed: "it took too long"},
		protocol.AgentEnd{},
		protocol.AgentEnd{To: workedAt(7), Pages: 3, Told: 2},
	}
}

func TestAgentLine(t *testing.T) {
	for _, want := range agentLines() {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		output, end, err := protocol.ParseAgentLine(b)
		got := any(output)
		if end != nil {
			got = *end
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%.200s is %+v, %v", b, got, err)
		}
	}
	for _, c := range []struct {
		line  string
		limit bool
	}{
		{``, false}, {`[]`, false}, {`{}`, false}, {`{"n":1,"told":1}`, false}, {`{"to":"x"}`, false}, {`{"url":"/a","b64":"!"}`, false},
		{`{"url":"/a","b64":"` + strings.Repeat("A", (protocol.MaxInline+3)/3*4) + `"}`, true},
		{`{"url":"/a","failed":"` + strings.Repeat("A", protocol.MaxAgentLine) + `"}`, true},
	} {
		if _, end, err := protocol.ParseAgentLine([]byte(c.line)); err == nil || end != nil || errors.Is(err, protocol.ErrLimit) != c.limit {
			t.Errorf("%.100s: %v, %v", c.line, end, err)
		}
	}
}

func FuzzAgentLine(f *testing.F) {
	for _, l := range agentLines() {
		if b, err := json.Marshal(l); err != nil {
			f.Fatal(err)
		} else if len(b) < 1000 {
			f.Add(b)
		}
	}
	f.Add([]byte(`{"url":"/a","to":null,"n":7,"hash":"md5=:x:"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		output, end, err := protocol.ParseAgentLine(line)
		if err != nil {
			return
		}
		said := any(output)
		if end != nil {
			said = end
		}
		b := must.Get(json.Marshal(said))
		again, last, err := protocol.ParseAgentLine(b)
		if len(output.Output) == 0 { // which is no output
			output.Output = nil
		}
		if err != nil || !reflect.DeepEqual(again, output) || !reflect.DeepEqual(last, end) {
			t.Fatalf("%q\nis %+v, %+v\nwritten %q\nis %+v, %+v, %v", line, output, end, b, again, last, err)
		}
	})
}
