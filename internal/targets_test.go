package internal_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompilesForTargets checks the types of every package and of its tests on the systems that
// PARLEY_TARGETS lists, such as "darwin/arm64 windows/amd64". It reads all that they import from
// source, so that nothing has to be compiled for these systems.
func TestCompilesForTargets(t *testing.T) {
	targets := strings.Fields(os.Getenv("PARLEY_TARGETS"))
	if len(targets) == 0 {
		t.Skip("PARLEY_TARGETS is not set: no other systems")
	}
	for _, target := range targets {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			checkTarget(t, target)
		})
	}
}

// A source is a package as go list names it, or a variant of it, compiled for one test.
type source struct {
	ImportPath, Dir, ForTest string
	GoFiles                  []string
	ImportMap                map[string]string
	Error                    *struct{ Err string }
}

func checkTarget(t *testing.T, target string) {
	goos, arch, _ := strings.Cut(target, "/")
	cmd := exec.Command("go", "list", "-deps", "-test", "-e", "-json=ImportPath,Dir,ForTest,GoFiles,ImportMap,Error", "./...")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	checked, fset, parsed, tests := map[string]*types.Package{"unsafe": types.Unsafe}, token.NewFileSet(), map[string]*ast.File{}, 0
	for d := json.NewDecoder(out); ; {
		p := new(source)
		if err := d.Decode(p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // that one is generated
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			name = filepath.Join(p.Dir, name)
			if parsed[name] == nil {
				f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
				if err != nil {
					t.Fatal(err)
				}
				parsed[name] = f
			}
			files = append(files, parsed[name])
		}
		path, _, _ := strings.Cut(p.ImportPath, " ")
		isTest := p.ForTest == strings.TrimSuffix(path, "_test") && p.ForTest != ""
		c := types.Config{
			Importer: importerFunc(func(imported string) (*types.Package, error) {
				if id, ok := p.ImportMap[imported]; ok {
					imported = id
				}
				if checked[imported] == nil {
					return nil, errors.New("not checked before its importer: " + imported)
				}
				return checked[imported], nil
			}),
			Sizes: types.SizesFor("gc", arch),
			// The packages of others are taken as they are; one that a test compiles once more has been checked.
			IgnoreFuncBodies: !strings.HasPrefix(path+"/", module+"/") || p.ForTest != "" && !isTest,
			Error:            func(err error) { t.Error(err) },
		}
		checked[p.ImportPath], _ = c.Check(path, fset, files, nil)
		if isTest {
			tests++
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("go list for %s: %v", target, err)
	}
	t.Logf("%d packages, with variants for tests; %d have tests of ours", len(checked), tests)
	if tests == 0 {
		t.Error("go list names no tests")
	}
}

type importerFunc func(string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }
