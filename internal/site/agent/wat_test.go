package agent_test

import "encoding/binary"

// A module is a WebAssembly module under construction: a minimal assembler for hostile programs.
type module struct {
	types   [][]byte
	imports [][]byte
	funcs   []function
	table   []byte // of the table section, one table
	memory  []byte // limits
	exports [][]byte
	start   int // index of a function, -1: none
	data    []byte
}

type function struct {
	typ    int
	locals []byte // the locals' declaration; nil: none
	code   []byte // without the final end
}

const (
	i32, i64 = 0x7f, 0x7e

	unreachable, block, loop, ifThen, end, br, brIf, call, drop  = 0x00, 0x02, 0x03, 0x04, 0x0b, 0x0c, 0x0d, 0x10, 0x1a
	localGet, localSet, memoryGrow, i32Const, i64Const, i32Store = 0x20, 0x21, 0x40, 0x41, 0x42, 0x36
	void                                                         = 0x40
)

func leb(v uint64) (b []byte) { return binary.AppendUvarint(nil, v) }

// signed encodes v as signed LEB128.
func signed(v int64) (b []byte) {
	for {
		c := byte(v & 0x7f)
		if v >>= 7; v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func cat(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case []byte:
			b = append(b, p...)
		case string:
			b = append(append(b, leb(uint64(len(p)))...), p...)
		}
	}
	return b
}

func vector(items [][]byte) []byte { return cat(leb(uint64(len(items))), cat2(items)) }

func cat2(items [][]byte) (b []byte) {
	for _, i := range items {
		b = append(b, i...)
	}
	return b
}

func funcType(params, results []byte) []byte {
	return cat(0x60, leb(uint64(len(params))), params, leb(uint64(len(results))), results)
}

func export(name string, kind, index int) []byte { return cat(name, kind, leb(uint64(index))) }

func (m *module) bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id int, content []byte) {
		if content != nil {
			out = append(out, cat(id, leb(uint64(len(content))), content)...)
		}
	}
	section(1, vector(m.types))
	if m.imports != nil {
		section(2, vector(m.imports))
	}
	var kinds, bodies [][]byte
	for _, f := range m.funcs {
		locals := f.locals
		if locals == nil {
			locals = []byte{0}
		}
		body := cat(locals, f.code, end)
		kinds = append(kinds, leb(uint64(f.typ)))
		bodies = append(bodies, cat(leb(uint64(len(body))), body))
	}
	section(3, vector(kinds))
	section(4, m.table)
	if m.memory != nil {
		section(5, cat(1, m.memory))
	}
	section(7, vector(m.exports))
	if m.start >= 0 {
		section(8, leb(uint64(m.start)))
	}
	section(10, vector(bodies))
	section(11, m.data)
	return out
}

// plain returns a program that answers with the i64 that its code leaves on the stack; the buffer for the
// input is at 4096.
func plain(code ...any) *module {
	return &module{
		types:   [][]byte{funcType([]byte{i32}, []byte{i32}), funcType([]byte{i32, i32}, []byte{i64}), funcType(nil, nil)},
		funcs:   []function{{typ: 0, code: cat(i32Const, signed(4096))}, {typ: 1, code: cat(code...)}},
		memory:  cat(0, leb(17)),
		exports: [][]byte{export("memory", 2, 0), export("parley_alloc", 0, 0), export("parley_change", 0, 1)},
		start:   -1,
	}
}

// telling returns the instructions that store a verdict in the byte at 0 and return it as the answer.
func telling(verdict int) []any {
	return []any{i32Const, signed(0), i32Const, signed(int64(verdict)), 0x3a, 0, 0, i64Const, signed(1)}
}
