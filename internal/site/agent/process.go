package agent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/parleyweb/parley/protocol"
)

// ProcessName is the only argument of a process that runs a program.
const ProcessName = "agent-process"

// Main must be the first call of an executable that its Host uses as Command. If the
// process was started to run an agent, Main does that and never returns; else it
// returns at once.
func Main() {
	if len(os.Args) != 2 || os.Args[1] != ProcessName {
		return
	}
	restrict()
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// features are the WebAssembly features that a program may use. Growing tables are
// not among them.
const features = api.CoreFeaturesV1 | api.CoreFeatureMutableGlobal | api.CoreFeatureSignExtensionOps |
	api.CoreFeatureNonTrappingFloatToIntConversion | api.CoreFeatureMultiValue | api.CoreFeatureBulkMemoryOperations

// serve runs a process: it reads one program, and then answers questions until the
// input ends.
func serve(in io.Reader, out io.Writer) error {
	ctx := context.Background()
	var load loading
	_, text, err := receive(in, kindLoad, 1<<16)
	if err == nil {
		err = json.Unmarshal(text, &load)
	}
	if err != nil {
		return err
	}
	_, program, err := receive(in, kindProgram, maxProgram)
	if err != nil {
		return err
	}
	// The parent kills a process that takes too long. If the parent is gone, the
	// process exits by itself.
	watch := time.AfterFunc(2*load.Within, func() { os.Exit(1) })
	p, err := newProgram(ctx, program, load)
	if err != nil {
		return send(out, kindFailure, []byte(reason(err)))
	}
	if err := send(out, kindAnswer, nil); err != nil {
		return err
	}
	for {
		watch.Stop()
		_, q, err := receive(in, kindQuestion, maxQuestion)
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		watch.Reset(2 * load.Time)
		kind := kindAnswer
		used := p.used
		answer, err := p.ask(ctx, q)
		if err != nil && used { // perhaps because of state that earlier questions left in memory
			p.discard(ctx)
			answer, err = p.ask(ctx, q)
		}
		if err != nil {
			p.discard(ctx)
			kind, answer = kindFailure, []byte(reason(err))
		}
		if err := send(out, kind, answer); err != nil {
			return err
		}
	}
}

// A program is a compiled module with an instance that is replaced after each failure.
type program struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	instance api.Module // nil: there is none
	used     bool       // the instance has had a question
	said     beginning  // its standard error
}

func newProgram(ctx context.Context, wasm []byte, load loading) (*program, error) {
	config := wazero.NewRuntimeConfig().WithCoreFeatures(features).WithDebugInfoEnabled(false).
		WithMemoryLimitPages(uint32(load.Memory / wasmPage))
	if load.Cache != "" {
		// Without a usable cache, compiling only takes longer.
		if cache, err := wazero.NewCompilationCacheWithDir(load.Cache); err == nil {
			config = config.WithCompilationCache(cache)
		}
	}
	p := &program{runtime: wazero.NewRuntimeWithConfig(ctx, config), said: beginning{most: 300}}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, p.runtime); err != nil {
		return nil, err
	}
	var err error
	if p.compiled, err = p.runtime.CompileModule(ctx, wasm); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, p.start(ctx)
}

const wasmPage = 64 << 10

// check verifies the imports and exports of a program against the package documentation.
func (p *program) check() error {
	for _, f := range p.compiled.ImportedFunctions() {
		if module, name, _ := f.Import(); module != wasi_snapshot_preview1.ModuleName {
			return fmt.Errorf("it imports %.60q.%.60q: only %s is available", module, name, wasi_snapshot_preview1.ModuleName)
		}
	}
	if len(p.compiled.ImportedMemories()) > 0 {
		return errors.New("it imports its memory: it must define and export its own")
	}
	if p.compiled.ExportedMemories()["memory"] == nil {
		return errors.New("it does not export its memory as memory")
	}
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	for _, want := range []struct {
		name            string
		params, results []api.ValueType
	}{
		{exportAlloc, []api.ValueType{i32}, []api.ValueType{i32}},
		{exportChange, []api.ValueType{i32, i32}, []api.ValueType{i64}},
	} {
		f := p.compiled.ExportedFunctions()[want.name]
		if f == nil {
			return fmt.Errorf("it does not export the function %s", want.name)
		}
		if string(f.ParamTypes()) != string(want.params) || string(f.ResultTypes()) != string(want.results) {
			return fmt.Errorf("its %s has the wrong parameters or results: want %s", want.name, signature(want.params, want.results))
		}
	}
	return nil
}

const (
	exportAlloc  = "parley_alloc"
	exportChange = "parley_change"
)

func signature(params, results []api.ValueType) string {
	var b strings.Builder
	for i, list := range [][]api.ValueType{params, results} {
		b.WriteString([]string{"(", " ("}[i])
		for k, t := range list {
			if k > 0 {
				b.WriteString(" ")
			}
			b.WriteString(api.ValueTypeName(t))
		}
		b.WriteString(")")
	}
	return b.String()
}

func (p *program) start(ctx context.Context) (err error) {
	p.said.text = p.said.text[:0]
	p.instance, err = p.runtime.InstantiateModule(ctx, p.compiled,
		wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithStderr(&p.said))
	return p.told(err)
}

func (p *program) discard(ctx context.Context) {
	if p.instance != nil {
		p.instance.Close(ctx)
		p.instance, p.used = nil, false
	}
}

// ask calls the program with one question. The answer is a copy.
func (p *program) ask(ctx context.Context, q []byte) ([]byte, error) {
	if p.instance == nil {
		if err := p.start(ctx); err != nil {
			return nil, err
		}
	}
	p.said.text, p.used = p.said.text[:0], true
	r, err := p.instance.ExportedFunction(exportAlloc).Call(ctx, uint64(len(q)))
	if err != nil {
		return nil, p.told(err)
	}
	at := uint32(r[0])
	if !p.instance.Memory().Write(at, q) {
		return nil, fmt.Errorf("%s returned %d, but its memory has no room for %d bytes there", exportAlloc, at, len(q))
	}
	if r, err = p.instance.ExportedFunction(exportChange).Call(ctx, uint64(at), uint64(len(q))); err != nil {
		return nil, p.told(err)
	}
	at, size := uint32(r[0]>>32), uint32(r[0]&math.MaxUint32)
	if size > 1+protocol.MaxInline {
		return nil, fmt.Errorf("its answer has %d bytes: at most %d are delivered with a change", size, protocol.MaxInline)
	}
	answer, ok := p.instance.Memory().Read(at, size)
	if !ok {
		return nil, fmt.Errorf("its answer of %d bytes at %d is outside its memory", size, at)
	}
	return append([]byte(nil), answer...), nil
}

// told adds the program's standard error to an error.
func (p *program) told(err error) error {
	if err == nil {
		return nil
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("it exited with code %d", exit.ExitCode())
	}
	if text := strings.Join(strings.Fields(string(p.said.text)), " "); text != "" {
		err = fmt.Errorf("%w; it said: %s", err, strings.ToValidUTF8(text, "?"))
	}
	return err
}

// A beginning is a Writer that keeps only the first bytes.
type beginning struct {
	text []byte
	most int
}

func (b *beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), b.most-len(b.text))]...)
	return len(p), nil
}

// reason returns the text of an error in one line, without the stack that wazero adds.
func reason(err error) string {
	text := err.Error()
	stack, said, ok := strings.Cut(text, "; it said: ")
	stack, _, _ = strings.Cut(stack, "\nwasm stack trace:")
	if ok {
		stack += "; it said: " + said
	}
	return strings.ToValidUTF8(cut(strings.Join(strings.Fields(stack), " "), maxReason), "?")
}

func cut(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return s
}

// The messages between a process and its parent: a byte for the kind, the length,
// and the content.
const (
	kindLoad     byte = 'l' // loading, as JSON
	kindProgram  byte = 'p'
	kindQuestion byte = 'q'
	kindAnswer   byte = 'a' // empty after a program
	kindFailure  byte = 'f' // of the program, as text

	maxReason   = 700
	maxQuestion = 2*maxPage + 1<<20 // the change takes less than 1 MiB
)

// loading says how to run a program.
type loading struct {
	Cache        string // directory for compiled code; empty: compile each time
	Memory       int64
	Time, Within time.Duration // for an answer; for loading
}

func send(w io.Writer, kind byte, content []byte) error {
	head := binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(content)))
	if _, err := w.Write(append(head, content...)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// receive reads a message of the kind want and of at most max bytes, or a failure in
// place of an answer. The error is io.EOF at the end of the input.
func receive(r io.Reader, want byte, max int) (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.LittleEndian.Uint32(head[1:])
	switch {
	case head[0] == kindFailure && want == kindAnswer:
		max = maxReason
	case head[0] != want:
		return 0, nil, fmt.Errorf("receive %q: want %q", head[0], want)
	}
	if int64(size) > int64(max) {
		return 0, nil, fmt.Errorf("receive %d bytes: at most %d", size, max)
	}
	content = make([]byte, size)
	if _, err := io.ReadFull(r, content); err != nil {
		return 0, nil, fmt.Errorf("receive: %w", err)
	}
	return head[0], content, nil
}
