package internal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ceilings bound the size of the project, outside of tests, bench and examples. They go down as the project gets
// smaller. A commit that needs more raises one, and says in its message what was taken away and what the rest is for.
//
// They began with the sizes of a rebuild, in which most packages got borders of their own (exported names). Most was added
// since by setup and reports on the side of the site, by simulators, the census and the live pages on the side of the
// crawler, and by manifests in parts. That a visit is charged before it is made took 15 lines of client/crawl and a name; that setup reads and
// changes the files of Apache and Caddy took 2,300 tokens, and that crawlers share a crawl by partitions 3,300 and 60 lines of client/collection, and by NATS 7,600 and 12 exported names. That doors elsewhere have archives took 3,900 tokens and 4 public names. A scan of unchanged files that allocates a third as much took 230 tokens. That it does not match robots.txt for each file took 180 and a name; that the notifier says what its web server does not forward, and that URLs for other partitions are one record of a transaction, 270. Of the dependencies only tests import gonum and jsonschema, their oracles, nats-server and gofakes3. Copies of WARC files took 20 lines of
// client/collection and 11 exported names. The pages took 11,000 tokens, 15 names and a dependency as Go functions; as templates, which do not count, they made the
// programs a sixth larger.
var ceilings = map[string]int{
	"wide structs":        5,
	"methods of a type":   40,
	"lines of a package":  6_688,
	"exported names":      2_481,
	"public names":        535,
	"tokens":              934_400,
	"direct dependencies": 23,
	"lines of a file":     645,
}

// before are the sizes at commit 49ea21a, as this test counts them: the last one before the project was rebuilt to be smaller.
var before = map[string]int{
	"wide structs":        73,
	"methods of a type":   133,    // client/crawl.run
	"lines of a package":  13_355, // server
	"exported names":      1_535,
	"public names":        1_113,
	"tokens":              611_219,
	"direct dependencies": 17,
	"lines of a file":     625, // server/archive/maker.go
}

// TestSizes prints how big the project was and is, and fails where it has outgrown a ceiling.
//
//   - wide structs: of more than 12 fields and more than 3 methods, both through embedding
//   - methods of a type: of the type that has most
//   - lines of a package, lines of a file: of the longest
//   - exported names: types, functions, methods, constants and variables
//   - public names: those of them that other modules can import
//   - tokens: of Go, without comments
func TestSizes(t *testing.T) {
	sizes := map[string]int{"direct dependencies": directDependencies(t)}
	most := map[string]string{} // which is the widest, longest
	largest := func(what string, n int, who string) {
		if n > sizes[what] {
			sizes[what], most[what] = n, who
		}
	}
	packages := load(t)
	for _, p := range packages {
		lines := 0
		for _, file := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			n := bytes.Count(src, []byte("\n"))
			lines += n
			largest("lines of a file", n, p.name()+"/"+file)
			sizes["tokens"] += tokens(src)
		}
		largest("lines of a package", lines, p.name())
		names, public := exported(p.types)
		sizes["exported names"] += names
		if public && !strings.HasPrefix(p.name(), "cmd/") && !strings.Contains("/"+p.name()+"/", "/internal/") {
			sizes["public names"] += names
		}
		for _, name := range p.types.Scope().Names() {
			named, ok := p.types.Scope().Lookup(name).(*types.TypeName)
			if !ok || named.IsAlias() {
				continue
			}
			methods := methodsOf(named.Type())
			largest("methods of a type", methods, p.name()+"."+name)
			if s, ok := named.Type().Underlying().(*types.Struct); ok && methods > 3 && fieldsOf(s) > 12 {
				sizes["wide structs"]++
			}
		}
	}
	for _, what := range slices.Sorted(mapKeys(ceilings)) {
		t.Logf("%-20s before %7d, now %7d of %7d %s", what, before[what], sizes[what], ceilings[what], most[what])
		if sizes[what] > ceilings[what] {
			t.Errorf("%s: %d, above the ceiling of %d %s", what, sizes[what], ceilings[what], most[what])
		}
	}
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

type loaded struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	types                   *types.Package
}

func (p *loaded) name() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// listed is what go list says of the module's packages and of all that they import.
func listed[P any](t *testing.T, fields string) (list []*P) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json="+fields, "./...")
	cmd.Dir = ".."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(P)
		if err := d.Decode(p); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// importing reads the types of packages from their export data, by the files that go list has named.
func importing(fset *token.FileSet, exports map[string]string) types.Importer {
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
}

// load returns the packages of the module but for benches, examples and what only tests use.
func load(t *testing.T) (list []*loaded) {
	t.Helper()
	exports := map[string]string{}
	for _, p := range listed[loaded](t, "ImportPath,Dir,Export,GoFiles,DepOnly") {
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && len(p.GoFiles) > 0 && !regexp.MustCompile(`^(bench|examples|internal/(anysite|endtoend|fakeweb|front|machine|must|nats/natstest|sitetest))(/|$)`).MatchString(p.name()) {
			list = append(list, p)
		}
	}
	fset := token.NewFileSet()
	imp := importing(fset, exports)
	for _, p := range list {
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		c := types.Config{Importer: imp, IgnoreFuncBodies: true}
		var err error
		if p.types, err = c.Check(p.ImportPath, fset, files, nil); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func tokens(src []byte) (n int) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(src)), src, nil, 0)
	for {
		_, tok, lit := s.Scan()
		if tok == token.EOF {
			return n
		}
		if tok != token.SEMICOLON || lit != "\n" {
			n++
		}
	}
}

// exported counts what a package exports; a command exports nothing.
func exported(p *types.Package) (n int, public bool) {
	if p.Name() == "main" {
		return 0, false
	}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		n++
		if named, ok := o.Type().(*types.Named); ok && o == named.Obj() {
			for i := range named.NumMethods() {
				if named.Method(i).Exported() {
					n++
				}
			}
		}
	}
	return n, true
}

func isOurs(p *types.Package) bool {
	return p != nil && (p.Path() == module || strings.HasPrefix(p.Path(), module+"/"))
}

// methodsOf counts the methods of a type that are declared in this module.
func methodsOf(typ types.Type) (n int) {
	if types.IsInterface(typ) {
		return 0
	}
	set := types.NewMethodSet(types.NewPointer(typ))
	for i := range set.Len() {
		if isOurs(set.At(i).Obj().Pkg()) {
			n++
		}
	}
	return n
}

// fieldsOf counts the fields of a struct, with those of structs of ours that it embeds.
func fieldsOf(s *types.Struct) (n int) {
	for i := range s.NumFields() {
		f := s.Field(i)
		typ := f.Type()
		if p, ok := typ.(*types.Pointer); ok {
			typ = p.Elem()
		}
		named, ok := typ.(*types.Named)
		if inner, is := typ.Underlying().(*types.Struct); f.Embedded() && ok && is && isOurs(named.Obj().Pkg()) {
			n += fieldsOf(inner)
			continue
		}
		n++
	}
	return n
}

func directDependencies(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "require"))
		if f := strings.Fields(line); len(f) >= 2 && strings.Contains(f[0], ".") && strings.HasPrefix(f[1], "v") && !strings.Contains(line, "// indirect") {
			n++
		}
	}
	return n
}
