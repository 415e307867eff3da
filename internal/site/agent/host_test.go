package agent_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/agent"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
)

func TestMain(m *testing.M) {
	agent.Main() // this executable also runs the programs
	os.Exit(m.Run())
}

func open(t *testing.T, dir string, o agent.Options) *agent.Host {
	t.Helper()
	self := must.Get(os.Executable())
	o.Command = []string{self, agent.ProcessName}
	h := must.Get(agent.Open(dir, o))
	t.Cleanup(func() { h.Close() })
	return h
}

func keep(t *testing.T, h *agent.Host, who string, m *module) protocol.Digest {
	t.Helper()
	return must.Get(h.Keep(t.Context(), who, m.bytes()))
}

func created(n uint64) *protocol.Change {
	return &protocol.Change{Seq: n, Op: protocol.Create, Item: protocol.Item{URL: "https://example.org/", Length: -1}}
}

// echo returns a program that answers with verdict 1 and its input.
func echo() *module {
	return plain(
		i32Const, signed(4095), i32Const, signed(1), 0x3a, 0, 0, // the verdict is stored just before the input
		i64Const, signed(4095<<32+1), localGet, 1, 0xad, 0x7c) // address<<32 + 1 + size
}

func TestQuestionReachesProgram(t *testing.T) {
	h := open(t, t.TempDir(), agent.Options{})
	d := keep(t, h, "bot", echo())
	for _, c := range []struct{ page, before []byte }{
		{[]byte("now"), []byte("then")}, {[]byte("now"), nil}, {[]byte{}, []byte{}}, {nil, nil}, {make([]byte, agent.MaxPage+1), nil},
	} {
		v, err := h.Run(t.Context(), "bot", d, created(7), c.page, c.before)
		if err != nil || !v.Tell {
			t.Fatalf("Run: %v, %v", v, err)
		}
		rest := v.Output
		part := func() []byte {
			if len(rest) < 4 {
				t.Fatalf("the question ends early: %q", v.Output)
			}
			n := uint32(rest[0]) | uint32(rest[1])<<8 | uint32(rest[2])<<16 | uint32(rest[3])<<24
			if rest = rest[4:]; n == 0xFFFFFFFF {
				return nil
			}
			p := rest[:n:n]
			rest = rest[n:]
			return p
		}
		m, err := protocol.ParseMessage(part())
		if err != nil || m.Kind != protocol.Ev || m.Changes[0].Item.URL != "https://example.org/" || m.Changes[0].Seq != 7 {
			t.Errorf("the change is shown as %+v, %v", m, err)
		}
		for i, want := range [][]byte{c.page, c.before} {
			if len(want) > agent.MaxPage {
				want = nil
			}
			if got := part(); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("part %d of the question is %q, want %q", i+1, got, want)
			}
		}
		if len(rest) != 0 {
			t.Errorf("the question goes on: %q", rest)
		}
	}
}

func TestVerdict(t *testing.T) {
	h := open(t, t.TempDir(), agent.Options{})
	yes, no := keep(t, h, "bot", plain(telling(1)...)), keep(t, h, "bot", plain(telling(0)...))
	for d, want := range map[protocol.Digest]bool{yes: true, no: false} {
		if v, err := h.Run(t.Context(), "bot", d, created(1), nil, nil); err != nil || v.Tell != want || v.Output != nil {
			t.Errorf("Run: %+v, %v; want %v", v, err, want)
		}
	}
	if err := h.Has("other", yes); err == nil {
		t.Error("a program is available to a sender that did not upload it")
	}
	if _, err := h.Run(t.Context(), "other", yes, created(1), nil, nil); err == nil {
		t.Error("a program ran for a sender that did not upload it")
	}
}

func TestProgramsSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, agent.Options{})
	d := keep(t, h, "bot", plain(telling(1)...))
	h.Close()
	if _, err := h.Run(t.Context(), "bot", d, created(1), nil, nil); err == nil {
		t.Error("a closed Host runs programs")
	}
	h = open(t, dir, agent.Options{})
	if v, err := h.Run(t.Context(), "bot", d, created(1), nil, nil); err != nil || !v.Tell {
		t.Errorf("after a restart: %v, %v", v, err)
	}
	h.Close()
	name := strings.TrimSuffix(filepath.Base(one(t, filepath.Join(dir, "*.wasm"))), ".wasm")
	must.Write(t, filepath.Join(dir, name+".wasm"), "something else")
	h = open(t, dir, agent.Options{})
	if _, err := h.Run(t.Context(), "bot", d, created(1), nil, nil); !errors.Is(err, caller.ErrProgram) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged program: %v", err)
	}
	keep(t, h, "bot", plain(telling(1)...))
	if v, err := h.Run(t.Context(), "bot", d, created(1), nil, nil); err != nil || !v.Tell {
		t.Errorf("after it was sent again: %v, %v", v, err)
	}
}

func one(t *testing.T, pattern string) string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil || len(list) != 1 {
		t.Fatalf("%s: %v, %v; want one file", pattern, list, err)
	}
	return list[0]
}

// numbered returns a program that differs for each n.
func numbered(n int64) *module {
	return plain(append([]any{i32Const, signed(n), drop}, telling(1)...)...)
}

func TestProgramLimits(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	h := open(t, dir, agent.Options{PerSender: 2, Most: 3, Now: func() time.Time { now = now.Add(time.Second); return now }})
	a, b, c := keep(t, h, "bot", numbered(1)), keep(t, h, "bot", numbered(2)), keep(t, h, "bot", numbered(3))
	if h.Has("bot", a) == nil || h.Has("bot", b) != nil || h.Has("bot", c) != nil {
		t.Error("a third program did not replace the oldest of two")
	}
	keep(t, h, "other", numbered(4))
	if _, err := h.Keep(t.Context(), "third", numbered(5).bytes()); !errors.Is(err, caller.ErrNoRoom) {
		t.Errorf("a fourth program of three: %v", err)
	}
	if _, err := h.Keep(t.Context(), "third", numbered(4).bytes()); !errors.Is(err, caller.ErrNoRoom) {
		t.Errorf("a fourth program of three, which another has sent: %v", err)
	}
	if n := h.Stats().Programs; n != 3 {
		t.Errorf("%d programs of three are counted", n)
	}
	keep(t, h, "other", numbered(4)) // this sender already has it
	if list, _ := filepath.Glob(filepath.Join(dir, "*.wasm")); len(list) != 3 {
		t.Errorf("%d programs are kept, want 3", len(list))
	}
}

// A program that another sender has already sent is compiled again for each sender.
func TestProgramIsCompiledForEachSender(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, agent.Options{PerSender: 1})
	compiled := func(when string, want int) {
		t.Helper()
		found := make(map[string]bool) // by sender
		err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
			if place, _ := filepath.Rel(dir, p); err == nil && !e.IsDir() && strings.Contains(place, ".compiled") {
				found[strings.Join(strings.Split(place, string(filepath.Separator))[:2], "/")] = true
			}
			return err
		})
		if err != nil || len(found) != want {
			t.Errorf("%s: compiled are %v, want %d; %v", when, found, want, err)
		}
	}
	d := keep(t, h, "bot", numbered(1))
	compiled("one has sent it", 1)
	keep(t, h, "other", numbered(1))
	compiled("both have", 2)
	if n := h.Stats().Programs; n != 2 {
		t.Errorf("%d programs are counted, want that of each", n)
	}
	if _, err := h.Keep(t.Context(), "third", []byte("no program")); !errors.Is(err, caller.ErrProgram) {
		t.Error(err)
	}
	keep(t, h, "bot", numbered(2))
	compiled("the one has sent another since", 2)
	if v, err := h.Run(t.Context(), "other", d, created(1), nil, nil); err != nil || !v.Tell {
		t.Errorf("the other's: %+v, %v", v, err)
	}
	keep(t, h, "other", numbered(3))
	compiled("nobody has it now", 2)
}

// A sender that cancels an upload does not disturb another sender's upload of the same program.
func TestCancelledUploadDoesNotDisturbOthers(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, agent.Options{Running: 2})
	m := plain(telling(1)...)
	m.funcs = append(m.funcs, function{typ: 2, code: cat(loop, void, br, 0, end)})
	m.start = 2 // loops for ever
	caches := func(when string, want int) (list []string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			// A compiled file is complete once it has its final name.
			list, _ = filepath.Glob(filepath.Join(dir, "*.compiled", "*", "*", strings.Repeat("[0-9a-f]", 64)))
			if len(list) == want {
				return list
			}
			if time.Now().After(end) {
				t.Fatalf("%s: compiled are %v, want %d", when, list, want)
			}
		}
	}
	begin := func(who string) (giveUp func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := h.Keep(ctx, who, m.bytes())
			done <- err
		}()
		return func() {
			t.Helper()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", who, err)
			}
		}
	}
	first := begin("first")
	his := caches("one is sending it", 1)
	second := begin("second")
	caches("both are", 2)
	second()
	if list := caches("the second has given up", 1); list[0] != his[0] {
		t.Errorf("left over is %v, want %v", list, his)
	}
	first()
	if list, err := filepath.Glob(filepath.Join(dir, "*.compiled")); err != nil || len(list) != 0 {
		t.Errorf("left over are %v, %v", list, err)
	}
}

// A hostile program, and the errors that its sender gets, as regular expressions.
type hostile struct {
	name   string
	module *module
	keep   string // error of Keep; empty: it is accepted
	run    string // error of Run
}

func hostiles() []hostile {
	with := func(m *module, f func(*module)) *module { f(m); return m }
	forever := cat(loop, void, br, 0, end)
	tree := plain(append([]any{call, 32}, telling(1)...)...) // each function calls the next twice: 2^30 calls and no loop
	for i := range 31 {
		code := cat(call, i+1, call, i+1)
		if i == 0 {
			code = cat()
		}
		tree.funcs = append(tree.funcs, function{typ: 2, code: code})
	}
	fills := plain() // fills 64 MiB, again and again, without a loop
	for range 500 {
		fills.funcs[1].code = append(fills.funcs[1].code, cat(i32Const, signed(0), i32Const, signed(1), i32Const, signed(64<<20), 0xfc, 0x0b, 0)...)
	}
	fills.funcs[1].code = append(fills.funcs[1].code, cat(i64Const, signed(1))...)
	fills.memory = cat(0, leb(1024))
	wide := plain(telling(1)...) // many locals in many blocks
	wide.types = append(wide.types, funcType(nil, nil))
	deep := cat()
	for range 100_000 {
		deep = append(deep, cat(localGet, 0, drop)...)
	}
	for range 20 {
		wide.funcs = append(wide.funcs, function{typ: 2, locals: cat(1, leb(50_000), i64), code: cat(deep, loop, void, end)})
	}
	return []hostile{
		{"empty", &module{start: -1}, "does not export its memory", ""},
		{"loops", plain(forever, unreachable), "", "took longer than"},
		{"calls endlessly", tree, "", "took longer than"},
		{"fills memory without a loop", fills, "", "took longer than"},
		{"recurses", plain(localGet, 0, localGet, 1, call, 1), "", "stack overflow|took longer than"},
		{"traps", plain(unreachable), "", "unreachable"},
		{"loops at its start", with(plain(telling(1)...), func(m *module) {
			m.funcs = append(m.funcs, function{typ: 2, code: forever})
			m.start = 2
		}), "took longer than 6s to load", ""},
		{"loops in _initialize", with(plain(telling(1)...), func(m *module) {
			m.funcs = append(m.funcs, function{typ: 2, code: forever})
			m.exports = append(m.exports, export("_initialize", 0, 2))
		}), "took longer than 6s to load", ""},
		{"large memory", with(plain(telling(1)...), func(m *module) { m.memory = cat(0, leb(1025)) }), "memory", ""},
		{"allocates for ever", plain(loop, void, i32Const, signed(1), memoryGrow, 0, drop, br, 0, end, unreachable), "", "took longer than|ThreadSanitizer failed to allocate"}, // which the race detector needs memory for
		{"large table", with(plain(telling(1)...), func(m *module) { m.table = cat(1, 0x70, 0, leb(1<<27)) }), "memory", ""},
		{"large data", with(plain(telling(1)...), func(m *module) {
			m.data = cat(1, 0, i32Const, signed(17<<16-1), end, string(make([]byte, 1<<20)))
		}), "data", ""},
		{"too large", with(plain(telling(1)...), func(m *module) { m.data = cat(1, 0, i32Const, signed(0), end, string(make([]byte, 8<<20))) }), "more than 8388608", ""},
		{"writes too much", plain(i64Const, signed(protocol.MaxInline+2)), "", "at most"},
		{"answer outside its memory", plain(i64Const, signed(int64(0x7ffffff0)<<32|5)), "", "outside its memory"},
		{"answers nothing", plain(i64Const, signed(0)), "", "empty"},
		{"answers something else", plain(telling(7)...), "", "begins with 7"},
		{"has no room", with(plain(telling(1)...), func(m *module) { m.funcs[0].code = cat(i32Const, signed(-1)) }), "", "no room"},
		{"exports no alloc", with(plain(telling(1)...), func(m *module) { m.exports = m.exports[:1] }), "does not export the function parley_alloc", ""},
		{"exports another change", with(plain(telling(1)...), func(m *module) { m.exports[2] = export("parley_change", 0, 0) }), "wrong parameters", ""},
		{"imports", with(plain(telling(1)...), func(m *module) { m.imports = [][]byte{cat("env", "system", 0, 2)} }), "imports", ""},
		{"imports its memory", with(plain(telling(1)...), func(m *module) {
			m.imports, m.memory = [][]byte{cat("env", "memory", 2, 0, 1)}, nil
		}), "imports", ""},
		{"is wide", wide, "", ""},
		{"is no program", nil, "invalid magic number", ""},
		{"opens a file", with(plain(telling(1)...), func(m *module) {
			m.types = append(m.types, funcType([]byte{i32, i32, i32, i32, i32, i64, i64, i32, i32}, []byte{i32}))
			m.imports = [][]byte{cat("wasi_snapshot_preview1", "path_open", 0, 3)}
			for i := range m.exports[1:] {
				m.exports[i+1][len(m.exports[i+1])-1]++
			}
			// path_open(3, ...): the directory does not exist, so it returns EBADF; other results trap
			m.funcs[1].code = cat(i32Const, 3, i32Const, 0, i32Const, 0, i32Const, 1, i32Const, 0, i64Const, 0, i64Const, 0, i32Const, 0, i32Const, 0,
				call, 0, i32Const, 8, 0x47, ifThen, void, unreachable, end, cat(telling(1)...))
		}), "", ""},
	}
}

func TestHostilePrograms(t *testing.T) {
	// Other callers' programs are answered during and after it.
	h := open(t, t.TempDir(), agent.Options{Time: 300 * time.Millisecond, Load: 6 * time.Second, PerSender: 100, Most: 100})
	good := keep(t, h, "good", plain(telling(1)...))
	for _, c := range hostiles() {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			program := []byte("is no program")
			if c.module != nil {
				program = c.module.bytes()
			}
			d, err := h.Keep(t.Context(), "bad", program)
			switch {
			case c.keep != "":
				if !errors.Is(err, caller.ErrProgram) || !regexp.MustCompile(c.keep).MatchString(err.Error()) {
					t.Errorf("Keep: %v; want %q", err, c.keep)
				}
			case err != nil && c.name != "is wide": // it may or may not be too much to compile
				t.Errorf("Keep: %v", err)
			case err == nil:
				_, err = h.Run(t.Context(), "bad", d, created(1), []byte("page"), nil)
				if c.run == "" && err != nil || c.run != "" && (!errors.Is(err, caller.ErrProgram) || !regexp.MustCompile(c.run).MatchString(err.Error())) {
					t.Errorf("Run: %v; want %q", err, c.run)
				}
			}
			if err != nil && (len(err.Error()) > 900 || strings.ContainsAny(err.Error(), "\n\r")) {
				t.Errorf("a reason of %d bytes: %v", len(err.Error()), err)
			}
			t.Logf("%v: %v", time.Since(begun).Round(time.Millisecond), err)
			if since := time.Since(begun); since > 30*time.Second { // loading and running end after 6 and .3 s; the rest is for a busy machine
				t.Errorf("it took %v", since)
			}
			if v, err := h.Run(t.Context(), "good", good, created(uint64(begun.UnixNano())), nil, nil); err != nil || !v.Tell {
				t.Errorf("another's program afterwards: %v, %v", v, err)
			}
		})
	}
}

func TestFailingProgramIsDisabled(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	o := agent.Options{Failures: 3, Now: func() time.Time { return now }}
	h := open(t, dir, o)
	// It fails unless its input has an odd size.
	d := keep(t, h, "bot", plain(append([]any{localGet, 1, i32Const, signed(1), 0x71, 0x45, ifThen, void, unreachable, end}, telling(1)...)...))
	run := func(seq uint64, page string) error {
		_, err := h.Run(t.Context(), "bot", d, created(seq), []byte(page), nil)
		return err
	}
	// Another caller has the same program, and its failures are counted separately.
	must.Get(h.Keep(t.Context(), "other", plain(append([]any{localGet, 1, i32Const, signed(1), 0x71, 0x45, ifThen, void, unreachable, end}, telling(1)...)...).bytes()))
	for i := range 2 {
		for _, page := range []string{"", "x"} {
			h.Run(t.Context(), "other", d, created(1000+uint64(i)), []byte(page), nil)
		}
	}
	odd, even := "", "x"
	if run(1, odd) != nil {
		odd, even = even, odd
	}
	for i := range uint64(2) {
		if err := run(1, odd+strings.Repeat("..", int(i)+1)); err != nil {
			t.Fatalf("run: %v", err)
		}
		for range 2 {
			if err := run(1, even); err == nil {
				t.Fatal("the run did not fail")
			}
		}
	}
	if err := h.Has("bot", d); err != nil {
		t.Errorf("after two failures: %v", err)
	}
	run(1, even)
	want := "failed 3 times"
	if err := h.Has("bot", d); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("after three failures: %v", err)
	}
	if v, err := h.Run(t.Context(), "other", d, created(2000), []byte(odd), nil); err != nil || !v.Tell {
		t.Errorf("disabled for another sender too: %v, %v", v, err)
	}
	h.Close()
	h = open(t, dir, o)
	if err := h.Has("other", d); err != nil {
		t.Errorf("after a restart, for another: %v", err)
	}
	if err := h.Has("bot", d); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("after a restart: %v", err)
	}
	now = now.Add(2 * time.Hour)
	if err := h.Has("bot", d); err != nil {
		t.Errorf("two hours later: %v", err)
	}
}

func TestCancelledRunIsNoProgramFailure(t *testing.T) {
	h := open(t, t.TempDir(), agent.Options{Time: time.Minute, Failures: 1})
	d := keep(t, h, "bot", plain(loop, void, br, 0, end, unreachable))
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	begun := time.Now()
	if _, err := h.Run(ctx, "bot", d, created(1), nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run: %v", err)
	}
	if since := time.Since(begun); since > 10*time.Second {
		t.Errorf("it took %v to stop it", since)
	}
	if err := h.Has("bot", d); err != nil {
		t.Errorf("a cancelled request counts as a failure of the program: %v", err)
	}
}

// A program that fails because of memory left by earlier runs is run again with fresh memory.
func TestFreshMemory(t *testing.T) {
	h := open(t, t.TempDir(), agent.Options{Failures: 1})
	// It traps if there is a 1 at 8, and leaves one there.
	d := keep(t, h, "bot", plain(append([]any{
		i32Const, signed(8), 0x2d, 0, 0, ifThen, void, unreachable, end,
		i32Const, signed(8), i32Const, signed(1), 0x3a, 0, 0}, telling(1)...)...))
	for seq := range uint64(4) {
		if v, err := h.Run(t.Context(), "bot", d, created(seq+1), nil, nil); err != nil || !v.Tell {
			t.Errorf("question %d: %v, %v", seq+1, v, err)
		}
	}
}
