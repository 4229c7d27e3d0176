// Package template executes templates in the syntax of text/template over JSON values, without its named templates. It
// uses the parser of text/template but no reflection: where a program executes a template of text/template or
// html/template, the linker keeps every exported method of every type in use, a quarter of the binary.
//
// A value is nil, a bool, an int, a float64, a string, a []any or a map[string]any. Templates have the functions and,
// or, not, len, index, eq, ne, lt, le, gt, ge and those of their Options; all behave as in text/template, with two
// exceptions. A member of null is null, like a member of what is missing. And to print a null, a list or an object is an
// error, so that a text does not lack a value unnoticed.
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// Options say what templates may do.
type Options struct {
	Functions map[string]Function
	Escape    func(string) string // of the printed texts, or nil
	Data      string              // what the data is called in errors
	// MaxBytes bounds the text made and each result of a function, if it is above 0.
	MaxBytes int
	// MaxSteps bounds an execution on any machine alike, if it is above 0: each node costs a step, an iteration of
	// range callSteps more, and a text that a function returns as many and one for each stepBytes.
	MaxSteps int
}

const (
	callSteps = 5
	stepBytes = 16
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	Options
	text string
	root *parse.ListNode
}

var (
	errBreak, errContinue = errors.New("break"), errors.New("continue")
	errTooSlow            = errors.New("the template repeats too much")
)

// place matches what the parser puts before its errors.
var place = regexp.MustCompile(`^template: :(\d+)(:\d+)?: `)

// Parse returns the template with a text. An error begins with the line.
func Parse(text string, o Options) (*Template, error) {
	known := map[string]any{}
	for _, functions := range []map[string]Function{builtins, o.Functions} {
		for name := range functions {
			known[name] = true
		}
	}
	trees, err := parse.Parse("", text, "", "", known)
	if err != nil {
		return nil, errors.New(place.ReplaceAllString(err.Error(), "line $1: "))
	}
	tree := trees[""]
	if tree == nil || len(trees) > 1 {
		return nil, errors.New("line 1: define and block are not available")
	}
	if err := refuseNamed(tree.Root); err != nil {
		return nil, err
	}
	return &Template{o, text, tree.Root}, nil
}

// Must returns the result of a Parse that cannot fail: it panics at an error.
func Must(t *Template, err error) *Template {
	if err != nil {
		panic(err)
	}
	return t
}

// refuseNamed returns an error if a list of nodes calls a named template.
func refuseNamed(list *parse.ListNode) error {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		var b parse.BranchNode
		switch n := n.(type) {
		case *parse.TemplateNode:
			return fmt.Errorf("line %d: template is not available", n.Line)
		case *parse.IfNode:
			b = n.BranchNode
		case *parse.WithNode:
			b = n.BranchNode
		case *parse.RangeNode:
			b = n.BranchNode
		}
		for _, inner := range []*parse.ListNode{b.List, b.ElseList} {
			if err := refuseNamed(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// Values returns v, which JSON can represent, as values of a template.
func Values(v any) (values any, err error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return values, json.Unmarshal(b, &values)
}

// execution is the state of one execution of a template.
type execution struct {
	*Template
	vars  []variable
	steps int
	out   bytes.Buffer
}

type variable struct {
	name  string
	value any
}

// Execute returns the text for data. An error begins with the line, unless the text is too long.
func (t *Template) Execute(data any) ([]byte, error) {
	x := execution{Template: t, vars: []variable{{"$", data}}}
	if err := x.list(data, t.root); err != nil {
		return nil, err
	}
	return x.out.Bytes(), nil
}

// errorAt returns an error with the line of a node, and the node itself if exact.
func (x *execution) errorAt(n parse.Node, err error, exact bool) error {
	line := 1 + strings.Count(x.text[:n.Position()], "\n")
	if exact {
		return fmt.Errorf("line %d: at <%s>: %w", line, n, err)
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// use uses steps at a node.
func (x *execution) use(n parse.Node, steps int) error {
	if x.steps += steps; x.MaxSteps > 0 && x.steps > x.MaxSteps {
		return x.errorAt(n, errTooSlow, false)
	}
	return nil
}

// checkLength returns an error if a text has too many bytes.
func (x *execution) checkLength(bytes int) error {
	if x.MaxBytes > 0 && bytes > x.MaxBytes {
		return fmt.Errorf("the text is longer than %d bytes", x.MaxBytes)
	}
	return nil
}

func (x *execution) write(s string) error {
	x.out.WriteString(s)
	return x.checkLength(x.out.Len())
}

// list executes a list of nodes, which may be nil.
func (x *execution) list(dot any, list *parse.ListNode) error {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		err := x.use(n, 1)
		if err == nil {
			err = x.node(dot, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *execution) node(dot any, n parse.Node) error {
	switch n := n.(type) {
	case *parse.TextNode:
		return x.write(string(n.Text))
	case *parse.ActionNode:
		v, err := x.pipe(dot, n.Pipe)
		if err != nil || len(n.Pipe.Decl) > 0 {
			return err
		}
		return x.print(n, v)
	case *parse.IfNode:
		return x.branch(dot, &n.BranchNode)
	case *parse.WithNode:
		return x.branch(dot, &n.BranchNode)
	case *parse.RangeNode:
		return x.loop(dot, n)
	case *parse.BreakNode:
		return errBreak
	case *parse.ContinueNode:
		return errContinue
	}
	return x.errorAt(n, errors.New("unknown node"), true)
}

// print writes the value of an action.
func (x *execution) print(n *parse.ActionNode, v any) error {
	switch v := v.(type) {
	case nil:
		return x.errorAt(n, fmt.Errorf("%s has no %s", x.Data, n.Pipe), false)
	case string:
		if x.Escape != nil {
			v = x.Escape(v)
		}
		return x.write(v)
	case float64:
		return x.write(strconv.FormatFloat(v, 'f', -1, 64))
	case bool, int:
		return x.write(fmt.Sprint(v))
	}
	return x.errorAt(n, fmt.Errorf("%s is an object or a list: use json", n.Pipe), false)
}

// branch executes if or with.
func (x *execution) branch(dot any, b *parse.BranchNode) error {
	defer x.forget(len(x.vars))
	v, err := x.pipe(dot, b.Pipe)
	switch {
	case err != nil:
		return err
	case !truth(v):
		return x.list(dot, b.ElseList)
	case b.NodeType == parse.NodeWith:
		return x.list(v, b.List)
	}
	return x.list(dot, b.List)
}

func (x *execution) loop(dot any, n *parse.RangeNode) error {
	defer x.forget(len(x.vars))
	v, err := x.pipe(dot, n.Pipe)
	if err != nil {
		return err
	}
	declared, empty := n.Pipe.Decl, true
	iterate := func(key, element any) error {
		defer x.forget(len(x.vars))
		empty = false
		for i, d := range declared {
			value := element
			if i < len(declared)-1 {
				value = key
			}
			if err := x.set(d, value); err != nil {
				return err
			}
		}
		if err := x.use(n, callSteps); err != nil {
			return err
		}
		if err := x.list(element, n.List); !errors.Is(err, errContinue) {
			return err
		}
		return nil
	}
	switch v := v.(type) {
	case nil:
	case int:
		if len(declared) > 1 {
			return x.errorAt(n.Pipe, fmt.Errorf("can't use %v to iterate over more than one variable", v), true)
		}
		for i := 0; i < v && err == nil; i++ {
			err = iterate(nil, i)
		}
	case []any:
		for i := 0; i < len(v) && err == nil; i++ {
			err = iterate(i, v[i])
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err = iterate(key, v[key]); err != nil {
				break
			}
		}
	default:
		return x.errorAt(n.Pipe, fmt.Errorf("range can't iterate over %v", v), true)
	}
	if empty {
		err = x.list(dot, n.ElseList)
	}
	if errors.Is(err, errBreak) { // as in text/template, also of the else
		return nil
	}
	return err
}

// forget drops the variables that were declared after the first n.
func (x *execution) forget(n int) { x.vars = x.vars[:n] }

// set changes the variable of a node.
func (x *execution) set(n *parse.VariableNode, value any) error {
	v, err := x.variable(n)
	if err == nil {
		v.value = value
	}
	return err
}

// variable returns the innermost variable of the name of a node. There may be none, as in {{or 1 ($x := 2)}}{{$x}}.
func (x *execution) variable(n *parse.VariableNode) (*variable, error) {
	for i := len(x.vars) - 1; i >= 0; i-- {
		if x.vars[i].name == n.Ident[0] {
			return &x.vars[i], nil
		}
	}
	return nil, x.errorAt(n, fmt.Errorf("undefined variable: %s", n.Ident[0]), true)
}

// pipe returns the value of a pipe and sets its variables.
func (x *execution) pipe(dot any, p *parse.PipeNode) (any, error) {
	var last []any // the value of the command before, if there is one
	for _, c := range p.Cmds {
		v, err := x.command(dot, c, last)
		if err != nil {
			return nil, err
		}
		last = []any{v}
	}
	for _, d := range p.Decl {
		if !p.IsAssign {
			x.vars = append(x.vars, variable{d.Ident[0], last[0]})
		} else if err := x.set(d, last[0]); err != nil {
			return nil, err
		}
	}
	return last[0], nil
}

func (x *execution) command(dot any, c *parse.CommandNode, last []any) (any, error) {
	switch first := c.Args[0].(type) {
	case *parse.IdentifierNode:
		return x.call(dot, first, c.Args[1:], last)
	case *parse.NilNode:
		return nil, x.errorAt(first, errors.New("nil is not a command"), true)
	default:
		return x.value(dot, first, len(c.Args)+len(last) > 1)
	}
}

// value returns the value of a node, which is an error if it has arguments.
func (x *execution) value(dot any, n parse.Node, arguments bool) (any, error) {
	if err := x.use(n, 1); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *parse.FieldNode:
		return x.member(n, dot, n.Ident, arguments)
	case *parse.ChainNode:
		v, err := x.value(dot, n.Node, false)
		if err != nil {
			return nil, err
		}
		return x.member(n, v, n.Field, arguments)
	case *parse.VariableNode:
		v, err := x.variable(n)
		if err != nil {
			return nil, err
		}
		if len(n.Ident) > 1 || !arguments {
			return x.member(n, v.value, n.Ident[1:], arguments)
		}
	case *parse.IdentifierNode:
		return x.call(dot, n, nil, nil)
	}
	if arguments {
		return nil, x.errorAt(n, fmt.Errorf("can't give argument to non-function %s", n), true)
	}
	switch n := n.(type) {
	case *parse.PipeNode:
		return x.pipe(dot, n)
	case *parse.DotNode:
		return dot, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		return x.number(n)
	}
	return nil, nil // a NilNode
}

// number returns an int or a float64, as the number is written.
func (x *execution) number(n *parse.NumberNode) (any, error) {
	hex := strings.HasPrefix(strings.ToLower(n.Text), "0x") && !strings.ContainsAny(n.Text, "pP")
	switch {
	case n.IsComplex:
		return nil, x.errorAt(n, errors.New("complex numbers are not available"), true)
	case n.IsFloat && !hex && n.Text[0] != '\'' && strings.ContainsAny(n.Text, ".eEpP"):
		return n.Float64, nil
	case n.IsInt && int64(int(n.Int64)) == n.Int64:
		return int(n.Int64), nil
	}
	return nil, x.errorAt(n, fmt.Errorf("%s overflows int", n.Text), true)
}

// member returns the member of an object with the names, of which each is within the one before.
func (x *execution) member(n parse.Node, v any, names []string, arguments bool) (any, error) {
	for i, name := range names {
		switch object := v.(type) {
		case nil:
			return nil, nil
		case map[string]any:
			if arguments && i == len(names)-1 {
				return nil, x.errorAt(n, fmt.Errorf("%s is not a method but has arguments", name), true)
			}
			v = object[name]
		default:
			return nil, x.errorAt(n, fmt.Errorf("can't evaluate field %s in type %T", name, v), true)
		}
	}
	return v, nil
}

// call returns the result of a function. The value last, if there is one, is its last argument.
func (x *execution) call(dot any, n *parse.IdentifierNode, nodes []parse.Node, last []any) (any, error) {
	f, ok := builtins[n.Ident]
	if !ok {
		f = x.Functions[n.Ident]
	}
	switch count := len(nodes) + len(last); {
	case f.variadic && count == 0:
		return nil, x.errorAt(n, fmt.Errorf("wrong number of args for %s: want at least 1 got 0", n.Ident), true)
	case !f.variadic && count != f.count:
		return nil, x.errorAt(n, fmt.Errorf("wrong number of args for %s: want %d got %d", n.Ident, f.count, count), true)
	}
	var arguments []any
	for _, node := range nodes {
		v, err := x.value(dot, node, false)
		if err != nil {
			return nil, err
		}
		if n.Ident == "and" && !truth(v) || n.Ident == "or" && truth(v) {
			return v, nil
		}
		arguments = append(arguments, v)
	}
	v, err := f.call(append(arguments, last...))
	if text, ok := v.(string); ok && err == nil {
		if err := x.use(n, callSteps+len(text)/stepBytes); err != nil {
			return nil, err
		}
		err = x.checkLength(len(text))
	}
	if err != nil {
		return nil, x.errorAt(n, fmt.Errorf("error calling %s: %w", n.Ident, err), true)
	}
	return v, nil
}
