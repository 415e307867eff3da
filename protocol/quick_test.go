package protocol

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// The reader and writer without encoding/json agree with encoding/json.
func FuzzQuick(f *testing.F) {
	const flat = `{"t":"ev","after":"e:4","to":"e:5","seq":5,"at":"2026-11-21T05:00:09Z","op":"update","url":"https://e.example/a?b=c&d","mod":"2026-11-21","len":0,"type":"text/html","hash":"sha-256=:x+/=:","prev":"p","text":"x","lang":"en","canonical":"https://e.example/"}`
	if q := (fastCodec{b: []byte(flat), reading: true}); !q.ev(new(wireEv)) {
		f.Fatal("a flat message is not read")
	}
	for _, s := range []string{flat, `{"t":"ev","to":"0:0","seq":0,"op":"create","url":"<&>"}`, `{}`, `{"t":"ev"}`, `{"t":"ev",}`, `{"T":"ev","to":"e:5"}`, `{"t":"ev","t":"x"}`,
		`{"t":"ev","to":"e:5","seq":05,"op":"","url":""}`, `{"t":"ev","seq":}`, `{"t":"ev","to":"e:5","seq":1,"op":"x","url":"","len":-1}`, `{"t":"ev","to":"e:5","seq":1,"op":"x","url":"","len":1e3}`,
		`{"t":"ev","to":"e:5","seq":18446744073709551615,"op":"x","url":""}`, `{"t":"ev","to":"e:5","seq":1,"op":"x","url":"","len":999999999999999999}`, `{"t":"ev","to":null}`,
		`{"t":"ev","to":"e:5","seq":1,"op":"x","url":"a\u0062\"c"}`, "{\"t\":\"ev\",\"to\":\"e:5\",\"seq\":1,\"op\":\"x\",\"url\":\"a\x7f\xff\"}", `{"t":"ev","sig":0.5,"imp":1}`, `{"t":"ev","body":{"text":"x"}}`, `{"t":"ev"} `, `{"t":"ev"}x`, `{"t":"ev","to":"e:5"`, `{"t":"ev","to":"e"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var want, got wireEv
		err := json.Unmarshal(b, &want)
		if q := (fastCodec{b: b, reading: true}); q.ev(&got) && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Errorf("%q is read as %+v, not %+v, %v", b, got, want, err)
		}
		if err != nil {
			return
		}
		var say bytes.Buffer
		e := json.NewEncoder(&say)
		e.SetEscapeHTML(false)
		must.OK(t, e.Encode(want))
		if q := (fastCodec{}); q.ev(&want) && string(q.b)+"\n" != say.String() {
			t.Errorf("written %q, not %q", q.b, say.String())
		}
	})
}
