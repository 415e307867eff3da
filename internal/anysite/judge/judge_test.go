package judge

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// Whatever an ideal web and its crawlers do, no oracle finds anything, and every copy counts.
func TestNothingIsWrongWithACleanRecording(t *testing.T) {
	for seed := range uint64(100) {
		r := clean(seed)
		v := Judge(r)
		for _, f := range v.Findings {
			t.Errorf("seed %d: %s", seed, f)
		}
		for _, j := range v.Copies {
			if !j.Counts {
				t.Errorf("seed %d: %s", seed, j)
			}
		}
		if t.Failed() {
			b, _ := json.MarshalIndent(r.Steps, "", " ")
			t.Fatalf("%s", b)
		}
	}
}

// What is expected of a copy is one function that can be read in one sitting.
func TestExpectedIsOneShortFunction(t *testing.T) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "expected.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			if lines := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1; lines > 150 {
				t.Errorf("%s has %d lines, and 150 are the most", fn.Name.Name, lines)
			}
			n++
		}
	}
	if n != 1 {
		t.Errorf("expected.go has %d functions", n)
	}
}

// again is a recording as it comes out of a file.
func again(t *testing.T, r *record.Recording) *record.Recording {
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var c record.Recording
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}
