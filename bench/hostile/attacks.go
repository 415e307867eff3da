package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

// A kind is an attack: a number of connections from a number of addresses, each of which repeats the same
// request.
type kind struct {
	name, what         string
	connections, addrs int
	again              func(a *attacker, ctx context.Context, addr string) error
}

// attacks returns the attacks that a site must withstand.
func attacks() []kind {
	const bomb = "costly expressions, just below the refused cost"
	return []kind{
		{"expression 1x8", bomb, 8, 1, (*attacker).expression},
		{"expression 1x64", bomb, 64, 1, (*attacker).expression},
		{"expression 64x1", bomb, 64, 64, (*attacker).expression},
		{"expression query", bomb + ", sent to the query door", 64, 64, (*attacker).query},
		{"expression streams", bomb + ", one for each stream", 960, 64, (*attacker).expressionStream},
		{"batch 100000", "100,000 pages in one request", 64, 64, asks(100_000)},
		{"batch 10000", "10,000 pages in one request", 64, 64, asks(10_000)},
		{"ranges", "requests for a thousand ranges of the archive, or one", 64, 64, (*attacker).ranges},
		{"pages 1x8", "page requests like those of real readers, to compare with deltas 1x8", 8, 1, (*attacker).reads},
		{"deltas 1x8", "deltas from versions that nobody has", 8, 1, (*attacker).delta},
		{"pages 64x1", "page requests", 64, 64, (*attacker).reads},
		{"deltas 64x1", "deltas from versions that nobody has", 64, 64, (*attacker).delta},
		{"site streams", "a thousand streams as=site", 1024, 64, (*attacker).siteStream},
		{"agent loop", "programs that never end", 8, 8, sends(loops)},
		{"agent memory", "programs that allocate all memory", 8, 8, sends(grows)},
		{"agent output", "programs that output 256 KiB for each page", 8, 8, sends(tells)},
		{"agent writes", "programs that print forever", 8, 8, sends(prints)},
	}
}

// An attacker is the state of the attacking process.
type attacker struct {
	base, from, page string
	questions        map[int]string // by the number of pages that they name
	programs         atomic.Int64
	seed             int64

	mu      sync.Mutex
	answers map[string]int
	words   map[string]string
}

// attack is the main function of an attacker process.
func attack(ctx context.Context, args []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	a := &attacker{answers: map[string]int{}, words: map[string]string{}, seed: time.Now().UnixNano()}
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	flags.StringVar(&a.base, "base", "", "base URL of the site")
	flags.StringVar(&a.from, "from", "", "cursor to read after")
	flags.StringVar(&a.page, "page", "", "path of one of its pages")
	name := flags.String("name", "", "name of the attack")
	on := flags.Int("on", -1, "number of the CPU to run on; -1: any")
	last := flags.Duration("for", 0, "duration of the attack")
	if err := flags.Parse(args); err != nil {
		return err
	}
	u, err := url.Parse(a.base)
	if err != nil || u.Hostname() != "127.0.0.1" {
		return fmt.Errorf("-base %q: want a URL on 127.0.0.1", a.base)
	}
	if *on >= 0 {
		err = stayOn(*on)
	} else {
		err = yield()
	}
	if err != nil {
		return err
	}
	a.questions = map[int]string{10_000: a.question(10_000), 100_000: a.question(100_000)}
	ctx, cancel := context.WithTimeout(ctx, min(*last, time.Minute))
	defer cancel()
	for _, k := range attacks() {
		if k.name != *name {
			continue
		}
		var all sync.WaitGroup
		for i := range k.connections {
			all.Go(func() {
				addr := fmt.Sprintf("192.0.2.%d", 1+i%k.addrs)
				for ctx.Err() == nil {
					if err := k.again(a, ctx, addr); err != nil && ctx.Err() == nil {
						a.count("none", err.Error())
						time.Sleep(100 * time.Millisecond)
					}
				}
			})
		}
		all.Wait()
	}
	return json.NewEncoder(out).Encode(map[string]any{"Answers": a.answers, "Words": a.words})
}

func (a *attacker) count(status, words string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[status]++
	a.words[status] = words
}

var hostile = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}}

// do sends a request, and reads and counts the response.
func (a *attacker) do(ctx context.Context, method, ref, addr, body string, header ...string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, a.base+ref, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Forwarded-For", addr)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := hostile.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 300 {
		_, err = io.Copy(io.Discard, resp.Body)
		a.count(strconv.Itoa(resp.StatusCode), "")
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	a.refused(resp.StatusCode, text)
	return text, err
}

func (a *attacker) refused(status int, text []byte) {
	var p struct{ Detail string }
	json.Unmarshal(text, &p) // if it is a problem document
	a.count(strconv.Itoa(status), p.Detail)
}

// bomb returns an expression that costs nearly as much as is allowed, and a different one each time.
func bomb() string {
	var list strings.Builder
	for i := range 30 {
		fmt.Fprintf(&list, "%d,", i)
	}
	l := "[" + strings.TrimSuffix(list.String(), ",") + "]"
	return url.QueryEscape(fmt.Sprintf("%s.exists(a,%s.exists(b, a+b > %d))", l, l, 1000+mathrand.IntN(1_000_000)))
}

func (a *attacker) expression(ctx context.Context, addr string) error {
	_, err := a.do(ctx, http.MethodGet, "parley/changes?after="+a.from+"&where="+bomb(), addr, "")
	return err
}

func (a *attacker) query(ctx context.Context, addr string) error {
	_, err := a.do(ctx, http.MethodGet, "parley/query?where="+bomb(), addr, "")
	return err
}

func (a *attacker) expressionStream(ctx context.Context, addr string) error {
	return a.stream(ctx, addr, "after="+a.from+"&where="+bomb())
}

func (a *attacker) siteStream(ctx context.Context, addr string) error {
	return a.stream(ctx, addr, "as=site&after="+a.from)
}

// stream listens until the connection is cut.
func (a *attacker) stream(ctx context.Context, addr, query string) error {
	conn, err := wsconn.Dial(ctx, "ws"+strings.TrimPrefix(a.base, "http")+"parley/stream?"+query, http.Header{"X-Forwarded-For": {addr}}, nil,
		wsconn.Options{Subprotocols: []string{protocol.Subprotocol}, MaxMessage: protocol.MaxMessage})
	if err != nil {
		return err
	}
	a.count("101", "")
	defer conn.Close(1000, "")
	for err == nil {
		_, err = conn.Read(ctx)
	}
	return err
}

func (a *attacker) reads(ctx context.Context, addr string) error {
	_, err := a.do(ctx, http.MethodGet, a.page, addr, "")
	return err
}

// question returns a request for n pages that do not exist.
func (a *attacker) question(n int) string {
	var b strings.Builder
	b.WriteString(`{"pages":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"url":"%sp/%d.html"}`, a.base, i)
	}
	return b.String() + "]}"
}

// asks returns an attack with requests for n pages.
func asks(n int) func(*attacker, context.Context, string) error {
	return func(a *attacker, ctx context.Context, addr string) error {
		_, err := a.do(ctx, http.MethodPost, "parley/batch", addr, a.questions[n], "Content-Type", "application/json")
		return err
	}
}

func (a *attacker) ranges(ctx context.Context, addr string) error {
	list := []string{fmt.Sprintf("%d-%d", mathrand.IntN(1000), 1000+mathrand.IntN(1000))}
	if mathrand.IntN(2) == 0 {
		for i := range 1000 {
			list = append(list, fmt.Sprintf("%d-%d", 2*i, 2*i))
		}
	}
	_, err := a.do(ctx, http.MethodGet, "parley/site.wacz", addr, "", "Range", "bytes="+strings.Join(list, ","))
	return err
}

func (a *attacker) delta(ctx context.Context, addr string) error {
	var digest [32]byte
	rand.Read(digest[:])
	_, err := a.do(ctx, http.MethodGet, a.page, addr, "", "Accept-Encoding", "dcz",
		"Available-Dictionary", ":"+base64.StdEncoding.EncodeToString(digest[:])+":")
	return err
}

// sends returns an attack with programs that the site has never seen; the site runs each until it refuses to.
func sends(code []byte) func(*attacker, context.Context, string) error {
	return func(a *attacker, ctx context.Context, addr string) error {
		program := module(code, fmt.Sprint(a.seed, a.programs.Add(1)))
		bearer := []string{"Authorization", "Bearer " + token, "Content-Type", "application/wasm"}
		text, err := a.do(ctx, http.MethodPost, "parley/agents", addr, string(program), bearer...)
		if err == nil && text != nil {
			time.Sleep(20 * time.Millisecond) // it was refused
		}
		agent := "agent=" + url.QueryEscape(protocol.Sum(program).String())
		if err == nil {
			_, err = a.do(ctx, http.MethodGet, "parley/changes?as=page&after="+a.from+"&"+agent, addr, "", bearer[:2]...)
		}
		if err == nil {
			_, err = a.do(ctx, http.MethodPost, "parley/agents/run?"+agent, addr, "", bearer[:2]...)
		}
		return err
	}
}

// The actions of the programs when called: WebAssembly code that leaves its result as an i64, if it ever
// ends.
var (
	loops = []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x00} // loop: br 0; end; unreachable

	// loop: memory.grow(16); memory.fill(0, 1, 64 KiB); br 0; end; unreachable
	grows = []byte{0x03, 0x40, 0x41, 16, 0x40, 0, 0x1a, 0x41, 0, 0x41, 1, 0x3f, 0, 0x41, 16, 0x74, 0xfc, 0x0b, 0, 0x0c, 0, 0x0b, 0x00}

	// memory[0] = 1; 1 + 256 KiB from 0
	tells = []byte{0x41, 0, 0x41, 1, 0x3a, 0, 0, 0x42, 0x81, 0x80, 0x10}

	// memory[4:8] = 64 Ki; loop: fd_write(1, 0, 1, 8), which is that many bytes from 0; drop; br 0; end; unreachable
	prints = []byte{0x41, 4, 0x41, 0x80, 0x80, 0x04, 0x36, 2, 0, 0x03, 0x40, 0x41, 1, 0x41, 0, 0x41, 1, 0x41, 8, 0x10, 0, 0x1a, 0x0c, 0, 0x0b, 0x00}
)

// module returns a program for package internal/site/agent whose result is that of code. Each name gives another
// program.
func module(code []byte, name string) []byte {
	section := func(id byte, content ...byte) []byte {
		return append(binary.AppendUvarint([]byte{id}, uint64(len(content))), content...)
	}
	text := func(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }
	fd := text("wasi_snapshot_preview1")
	fd = append(append(fd, text("fd_write")...), 0, 2) // a function of type 2
	exports := append([]byte{3}, append(text("memory"), 2, 0)...)
	exports = append(exports, append(text("parley_alloc"), 0, 1)...)
	exports = append(exports, append(text("parley_change"), 0, 2)...)
	alloc := []byte{0, 0x41, 0x80, 0x80, 0xc0, 0x00, 0x0b} // the buffer is at 1 MiB
	answer := append(append([]byte{0}, code...), 0x0b)
	bodies := append([]byte{2}, append(text(string(alloc)), text(string(answer))...)...)
	return bytes.Join([][]byte{[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, 3, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 2, 0x7f, 0x7f, 1, 0x7e, 0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f),
		section(2, append([]byte{1}, fd...)...),
		section(3, 2, 0, 1),
		section(5, 1, 0, 80), // 5 MiB initially: an input has at most 4
		section(7, exports...),
		section(10, bodies...),
		section(0, text(name)...),
	}, nil)
}
