package cel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
)

// Bounds of an expression.
const (
	maxDepth  = 40
	maxNodes  = 20_000 // of the syntax tree, macros expanded
	maxRegexp = 200    // instructions of one pattern
	maxMatch  = 16     // calls of matches: compiling a pattern takes much longer than the rest
	maxCost   = 20_000 // see the package documentation

	// interruptEvery is how many iterations of a macro pass between checks of ctx.
	interruptEvery = 100
)

// Expressions compiles expressions, and caches the most recently used: crawlers send the same ones again. The
// zero value is ready for use, and safe for concurrent use.
type Expressions struct {
	// Keep is how many are cached. Zero means 64.
	Keep int

	once sync.Once
	env  *cel.Env
	err  error

	mu   sync.Mutex
	kept map[string]*program
	turn uint64 // counts the uses
}

type program struct {
	cel.Program
	turn uint64 // of its last use
}

// Compile returns the predicate of an expression, or an error that says what to write instead. The predicate
// returns an error only when ctx ends.
func (x *Expressions) Compile(expression string) (caller.Predicate, error) {
	if len(expression) > protocol.MaxWhere {
		return nil, fmt.Errorf("the expression has %d bytes: shorten it to %d, or narrow the request with the other parameters", len(expression), protocol.MaxWhere)
	}
	x.once.Do(func() { x.env, x.err = environment() })
	if x.err != nil {
		return nil, fmt.Errorf("create CEL environment: %w", x.err)
	}
	if p := x.recall(expression); p != nil {
		return p.tells, nil
	}
	p, err := compile(x.env, expression)
	if err != nil {
		return nil, err
	}
	x.retain(expression, p)
	return p.tells, nil
}

// recall returns a cached program, or nil.
func (x *Expressions) recall(expression string) *program {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.kept[expression]
	if p != nil {
		x.turn++
		p.turn = x.turn
	}
	return p
}

// retain caches a program, and drops the least recently used one.
func (x *Expressions) retain(expression string, p *program) {
	x.mu.Lock()
	defer x.mu.Unlock()
	keep := x.Keep
	if keep <= 0 {
		keep = 64
	}
	if x.kept == nil {
		x.kept = make(map[string]*program)
	}
	for x.kept[expression] == nil && len(x.kept) >= keep { // two may have compiled it at once
		oldest, turn := "", x.turn+1
		for e, k := range x.kept {
			if k.turn < turn {
				oldest, turn = e, k.turn
			}
		}
		delete(x.kept, oldest)
	}
	x.turn++
	p.turn = x.turn
	x.kept[expression] = p
}

// environment returns the CEL environment of expressions.
func environment() (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	return cel.NewEnv(
		cel.CustomTypeAdapter(registry), cel.CustomTypeProvider(&provider{registry}),
		cel.Variable("change", changeType.object), cel.Variable("page", pageType.object),
		cel.ParserExpressionSizeLimit(protocol.MaxWhere), cel.ParserRecursionLimit(maxDepth), cel.ExpressionNodeLimit(maxNodes),
		cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true),
		cel.ASTValidators(cel.ValidateTimestampLiterals(), cel.ValidateDurationLiterals()),
	)
}

// compile parses and checks an expression, and bounds its cost before it is ever evaluated.
func compile(env *cel.Env, expression string) (*program, error) {
	tree, issues := env.Parse(expression)
	if issues.Err() != nil {
		return nil, explain(issues)
	}
	patterns, err := judge(tree.NativeRep())
	if err != nil {
		return nil, err
	}
	if tree, issues = env.Check(tree); issues.Err() != nil {
		return nil, explain(issues)
	}
	if tree.OutputType() != cel.BoolType {
		return nil, fmt.Errorf("the expression is a %s, but must be true or false: compare it with something, as in page.length > 0", tree.OutputType())
	}
	estimate, err := env.EstimateCost(tree, patterns)
	if err != nil {
		return nil, fmt.Errorf("the expression's cost cannot be estimated: %w", err)
	}
	if estimate.Max >= 1<<60 {
		return nil, errors.New("the expression's cost has no bound: compare fields, not change or page as a whole, and do not nest macros")
	} else if estimate.Max > maxCost {
		return nil, fmt.Errorf("the expression may cost %d for one change; the limit is %d: do not nest macros, write shorter lists and patterns, or use the parameters prefix, match and type",
			estimate.Max, maxCost)
	}
	p, err := env.Program(tree, cel.EvalOptions(cel.OptOptimize), cel.CostTracking(patterns), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		return nil, fmt.Errorf("the expression cannot be evaluated: %w", err)
	}
	return &program{Program: p}, nil
}

// judge rejects calls whose cost cannot be estimated, and returns the patterns of the expression.
func judge(tree *ast.AST) (patterns, error) {
	found, calls := patterns{}, 0
	var err error
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if err != nil || e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		switch name := call.FunctionName(); {
		case name == "matches" && len(call.Args()) > 0:
			if calls++; calls > maxMatch {
				err = fmt.Errorf(`the expression has more than %d patterns: join them by |, as in "^/(news|docs)/", or use contains, startsWith and endsWith`, maxMatch)
				return
			}
			pattern, ok := literal(call.Args()[len(call.Args())-1])
			if !ok {
				err = errors.New(`matches requires a literal pattern, as in change.path.matches("^/[0-9]+/"): to search for the value of a field, use contains, startsWith or endsWith`)
				return
			}
			n, wrong := types.RegexProgramSize(pattern)
			switch {
			case wrong != nil:
				err = fmt.Errorf("%.100q is not a valid RE2 pattern: %w", pattern, wrong)
			case n > maxRegexp:
				err = fmt.Errorf("the pattern %.100q compiles to %d instructions; the limit is %d: write a shorter one, with smaller counts in {}", pattern, n, maxRegexp)
			}
			found[pattern] = uint64(n)
		case call.IsMemberFunction() && len(call.Args()) == 1 && strings.HasPrefix(name, "get"):
			err = fmt.Errorf("%s accepts no time zone: times are in UTC", name)
		}
	}))
	return found, err
}

func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// tells evaluates the expression. If it has no value, the result is true for a delete, else false.
func (p *program) tells(ctx context.Context, c *protocol.Change) (bool, error) {
	v, _, err := p.ContextEval(ctx, (*activation)(c))
	if err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		return c.Op == protocol.Delete, nil
	}
	return v == types.True, nil
}

// patterns are the patterns of an expression, with the number of their instructions. They determine its cost,
// estimated before evaluation and counted during it.
type patterns map[string]uint64

// longText is the length assumed for a URL or a title in an estimate, in bytes; few are longer, and for those
// the counted cost applies.
const longText = 1024

// EstimateSize returns the longest text of a field.
func (patterns) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	if path := n.Path(); len(path) == 2 {
		if f := fieldOf(path[0], path[1]); f != nil && f.most > 0 {
			return &cost.SizeEstimate{Max: min(f.most, longText)}
		}
	}
	return nil
}

// EstimateCallCost returns the cost of matches: each byte of text may have to go through all instructions of
// the pattern, however short that is.
func (p patterns) EstimateCallCost(function, _ string, target *cost.AstNode, args []cost.AstNode) *cost.CallEstimate {
	if function != "matches" || len(args) == 0 {
		return nil
	}
	text := args[0]
	if target != nil {
		text = *target
	}
	size := text.ComputedSize()
	if size == nil {
		if size = p.EstimateSize(text); size == nil {
			size = &cost.SizeEstimate{Max: protocol.MaxWhere}
		}
	}
	pattern, _ := literal(args[len(args)-1].Expr())
	return &cost.CallEstimate{CostEstimate: cost.Estimate{Min: 1, Max: p.matching(size.Max, pattern)}}
}

// CallCost returns the cost of a call of matches.
func (p patterns) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function != "matches" || len(args) != 2 {
		return nil
	}
	text, _ := args[0].(types.String)
	pattern, _ := args[1].(types.String)
	n := p.matching(uint64(len(text)), string(pattern))
	return &n
}

func (p patterns) matching(size uint64, pattern string) uint64 {
	return 1 + min(size, 1<<30)*p[pattern]/20
}
