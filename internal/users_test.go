package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unused is how many names packages may export that nobody outside of them uses: a ratchet, as
// the ceilings are. What is not listed may export none.
var unused = map[string]int{
	"client":            11, // what the crawler below it asks of it, and errors that a program of one's own matches
	"client/collection": 1,  // errors
	"client/crawl":      1,  // an error
}

// TestUsers finds names that a public package exports and that only the package itself, or packages below it,
// use. Tests elsewhere count as users; so do a document that mentions the name as in client.Follow, and an
// example of the package itself. A bench alone does not.
// A used name also covers the types that it consists of, the constants of its type, and the methods by which
// it implements an interface.
func TestUsers(t *testing.T) {
	u := &users{used: map[string]bool{}, exports: map[string]string{}, fset: token.NewFileSet()}
	u.load(t)
	u.readDocuments(t)
	lacking := map[string][]string{}
	for _, p := range u.public {
		for _, name := range u.lacking(p) {
			lacking[rel(p.Path())] = append(lacking[rel(p.Path())], name)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(lacking)) {
		if n := len(lacking[p]); n > unused[p] {
			t.Errorf("%s exports %d names that no other package uses, at most %d are allowed: %s", p, n, unused[p], strings.Join(lacking[p], " "))
		}
	}
	for p, most := range unused {
		if n := len(lacking[p]); n < most {
			t.Logf("%s exports %d names that no other package uses, and %d are allowed: lower the limit", p, n, most)
		}
	}
}

type users struct {
	used    map[string]bool   // names as path.Name and path.Type.Method
	exports map[string]string // files of export data, by import path
	fset    *token.FileSet
	public  []*types.Package
	methods map[string]bool // of interfaces: name and signature
}

func rel(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, module), "/") }

// load reads all packages, and notes what is used of each from elsewhere.
func (u *users) load(t *testing.T) {
	t.Helper()
	type sources struct {
		ImportPath, Name, Dir, Export      string
		GoFiles, TestGoFiles, XTestGoFiles []string
		DepOnly                            bool
	}
	var list []*sources
	for _, p := range listed[sources](t, "ImportPath,Name,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles,DepOnly") {
		u.exports[p.ImportPath] = p.Export
		if !p.DepOnly && !strings.HasPrefix(rel(p.ImportPath), "bench/") {
			list = append(list, p)
		}
	}
	imp := importing(u.fset, u.exports)
	u.methods = map[string]bool{"Unwrap()(error,)": true, "Unwrap()([]error,)": true} // package errors asks for them
	for _, p := range list {
		u.check(t, imp, p.ImportPath, p.Dir, append(p.GoFiles, p.TestGoFiles...))
		u.check(t, imp, p.ImportPath+"_test", p.Dir, p.XTestGoFiles)
		if pkg, err := imp.Import(p.ImportPath); err == nil && p.Name != "main" && !strings.Contains("/"+rel(p.ImportPath)+"/", "/internal/") {
			u.public = append(u.public, pkg)
		}
	}
	for path := range u.exports {
		if pkg, err := imp.Import(path); err == nil {
			for _, name := range pkg.Scope().Names() {
				u.note(pkg.Scope().Lookup(name).Type())
			}
		}
	}
}

// check notes what some files use of other packages.
func (u *users) check(t *testing.T, imp types.Importer, path, dir string, names []string) {
	t.Helper()
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(u.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	c := types.Config{Importer: imp, Error: func(error) {}} // what tests import beside is not there
	c.Check(path, u.fset, files, info)
	user := strings.TrimSuffix(path, "_test")
	for id, o := range info.Uses {
		if isOurs(o.Pkg()) && o.Exported() {
			own := user == o.Pkg().Path() || strings.HasPrefix(user, o.Pkg().Path()+"/")
			if !own || filepath.Base(u.fset.Position(id.Pos()).Filename) == "example_test.go" {
				u.use(o)
			}
		}
	}
	for e, tv := range info.Types {
		if _, ok := e.(*ast.InterfaceType); ok {
			u.note(tv.Type)
		}
	}
}

// use notes that an object is used, and with it the types that it is made of.
func (u *users) use(o types.Object) {
	if f, ok := o.(*types.Func); ok {
		o = f.Origin()
	}
	if key := nameOf(o); key != "" {
		if u.used[key] {
			return
		}
		u.used[key] = true
	} else if !isField(o) {
		return // of a function
	}
	if name, ok := o.(*types.TypeName); ok && !name.IsAlias() {
		u.useType(name.Type().Underlying())
		return
	}
	u.useType(o.Type())
}

func (u *users) useType(typ types.Type) {
	switch typ := typ.(type) {
	case *types.Alias:
		if isOurs(typ.Obj().Pkg()) {
			u.use(typ.Obj())
		}
		u.useType(types.Unalias(typ))
	case *types.Named:
		if isOurs(typ.Obj().Pkg()) {
			u.use(typ.Obj())
		}
		for a := range typ.TypeArgs().Types() {
			u.useType(a)
		}
	case *types.Pointer:
		u.useType(typ.Elem())
	case *types.Slice:
		u.useType(typ.Elem())
	case *types.Array:
		u.useType(typ.Elem())
	case *types.Chan:
		u.useType(typ.Elem())
	case *types.Map:
		u.useType(typ.Key())
		u.useType(typ.Elem())
	case *types.Signature:
		for _, tuple := range []*types.Tuple{typ.Params(), typ.Results()} {
			for v := range tuple.Variables() {
				u.useType(v.Type())
			}
		}
	case *types.Struct:
		for f := range typ.Fields() {
			if f.Exported() {
				u.useType(f.Type())
			}
		}
	case *types.Interface:
		for m := range typ.Methods() {
			u.useType(m.Type())
		}
	}
}

// nameOf names what a package declares, as path.Name or path.Type.Method; "" is anything else.
func nameOf(o types.Object) string {
	if f, ok := o.(*types.Func); ok {
		if r := f.Signature().Recv(); r != nil {
			typ := r.Type()
			if p, ok := typ.(*types.Pointer); ok {
				typ = p.Elem()
			}
			if n, ok := typ.(*types.Named); ok {
				return o.Pkg().Path() + "." + n.Obj().Name() + "." + o.Name()
			}
			return ""
		}
	}
	if o.Parent() != o.Pkg().Scope() && (o.Parent() != nil || isField(o)) {
		return ""
	}
	return o.Pkg().Path() + "." + o.Name()
}

func isField(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && v.IsField()
}

// note takes the methods of an interface as asked for.
func (u *users) note(typ types.Type) {
	if i, ok := typ.Underlying().(*types.Interface); ok {
		for m := range i.Methods() {
			u.methods[bare(m)] = true
		}
	}
}

// bare is a method without the names of its parameters.
func bare(f *types.Func) string {
	var b strings.Builder
	b.WriteString(f.Name())
	for _, tuple := range []*types.Tuple{f.Signature().Params(), f.Signature().Results()} {
		b.WriteString("(")
		for v := range tuple.Variables() {
			if _, ok := v.Type().(*types.Signature); ok {
				b.WriteString("func,") // its parameters have names too
				continue
			}
			b.WriteString(types.TypeString(v.Type(), nil) + ",")
		}
		b.WriteString(")")
	}
	return b.String()
}

// readDocuments takes as used what the documents name.
func (u *users) readDocuments(t *testing.T) {
	t.Helper()
	files, _ := filepath.Glob("../docs/*.md")
	for _, name := range append(files, "../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range u.public {
			for _, o := range p.Scope().Names() {
				if strings.Contains(string(text), p.Name()+"."+o) {
					u.use(p.Scope().Lookup(o))
				}
			}
		}
	}
}

// lacking returns the exported names of a package that no other package uses.
func (u *users) lacking(p *types.Package) (names []string) {
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		if c, ok := o.(*types.Const); ok {
			if n, ok := c.Type().(*types.Named); ok && u.used[nameOf(n.Obj())] {
				continue
			}
		}
		if !u.used[nameOf(o)] {
			names = append(names, name)
		}
		named, ok := o.Type().(*types.Named)
		if !ok || o != named.Obj() {
			continue
		}
		for m := range named.Methods() {
			if m.Exported() && !u.used[nameOf(m)] && !u.methods[bare(m)] {
				names = append(names, name+"."+m.Name())
			}
		}
	}
	return names
}
