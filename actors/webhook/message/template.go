package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/market/assets"
)

// Template makes a text of an event. It is a template of text/template without its functions that make texts of
// any length, and without named templates, so that only range repeats something. Each execution has
// a budget of steps, by which its time is bounded on any machine. It is safe for concurrent use.
type Template struct{ tree *template.Template }

const (
	templateName = "template"
	// maxSteps bounds an execution, which then takes some ten milliseconds at most: each run of the body of
	// a range costs the number of its nodes, and a call of a function one step for each stepBytes of its
	// result, both callSteps more.
	maxSteps  = 20_000
	callSteps = 5
	stepBytes = 16
	maxReason = 300 // bytes of an error
)

// allowed are the functions of text/template that templates may use.
var allowed = []string{"and", "or", "not", "len", "index", "eq", "ne", "lt", "le", "gt", "ge"}

// execution is the state of one execution of a template.
type execution struct {
	steps int
	text  bytes.Buffer
}

var (
	errTooLong = fmt.Errorf("the text is longer than %d bytes", MaxBytes)
	errTooSlow = errors.New("the template repeats too much")
)

// Write implements io.Writer. It fails beyond MaxBytes.
func (x *execution) Write(p []byte) (int, error) {
	if x.text.Len()+len(p) > MaxBytes {
		return 0, errTooLong
	}
	return x.text.Write(p)
}

// step uses n steps.
func (x *execution) step(n int) (string, error) {
	if x.steps += n; x.steps > maxSteps {
		return "", errTooSlow
	}
	return "", nil
}

// result returns the result of a function, and uses steps by its length.
func (x *execution) result(s string) (string, error) {
	if len(s) > MaxBytes {
		return "", errTooLong
	}
	_, err := x.step(callSteps + len(s)/stepBytes)
	return s, err
}

// functions are the functions of templates. Those named show and step are called by what ParseTemplate adds.
func (x *execution) functions() template.FuncMap {
	return template.FuncMap{
		"show": x.show,
		"step": x.step,
		"json": func(v any) (string, error) {
			b, err := json.Marshal(v)
			if err != nil {
				return "", err
			}
			return x.result(string(b))
		},
		"upper":   func(s string) (string, error) { return x.result(strings.ToUpper(s)) },
		"percent": func(share float64) (string, error) { return x.result(number(100*share, 1) + " %") },
		"price": func(asset string, price float64) (string, error) {
			return x.result(assets.PriceText(asset, price))
		},
	}
}

// show returns a value, of the pipe what, as a template prints it. A value that the event lacks is an error, so
// that a message does not lack it unnoticed.
func (x *execution) show(what string, v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", fmt.Errorf("the event has no %s", what)
	case string:
		return x.result(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case bool, int:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("%s is an object or a list: use json", what)
}

// ParseTemplate returns the template with a text. The error names the line and the fault.
func ParseTemplate(text string) (*Template, error) {
	ours := new(execution).functions()
	known := maps.Clone(ours)
	delete(known, "show")
	delete(known, "step")
	for _, name := range allowed {
		known[name] = true
	}
	trees, err := parse.Parse(templateName, text, "", "", known)
	if err != nil {
		return nil, reason(err)
	}
	tree := trees[templateName]
	if tree == nil || len(trees) > 1 {
		return nil, errors.New("line 1: define and block are not available")
	}
	if _, err := meter(tree, tree.Root); err != nil {
		return nil, err
	}
	t, err := template.New(templateName).Funcs(ours).AddParseTree(templateName, tree)
	if err != nil {
		return nil, reason(err)
	}
	return &Template{t}, nil
}

// meter lets the list and those in it use steps and show values. It returns how many nodes they have.
func meter(tree *parse.Tree, list *parse.ListNode) (nodes int, err error) {
	if list == nil {
		return 0, nil
	}
	for _, n := range list.Nodes {
		lists, loops := []*parse.ListNode(nil), false
		switch n := n.(type) {
		case *parse.ActionNode:
			nodes += pipeNodes(n.Pipe)
			if len(n.Pipe.Decl) == 0 {
				show := call(tree, "show", n.Pos)
				what := n.Pipe.String()
				show.Args = append(show.Args, &parse.StringNode{NodeType: parse.NodeString, Pos: n.Pos,
					Quoted: strconv.Quote(what), Text: what})
				n.Pipe.Cmds = append(n.Pipe.Cmds, show)
			}
		case *parse.IfNode:
			nodes += pipeNodes(n.Pipe)
			lists = []*parse.ListNode{n.List, n.ElseList}
		case *parse.WithNode:
			nodes += pipeNodes(n.Pipe)
			lists = []*parse.ListNode{n.List, n.ElseList}
		case *parse.RangeNode:
			nodes += pipeNodes(n.Pipe)
			lists, loops = []*parse.ListNode{n.List, n.ElseList}, true
		case *parse.TemplateNode:
			return 0, fmt.Errorf("line %d: template is not available", n.Line)
		}
		nodes++
		for i, l := range lists {
			inside, err := meter(tree, l)
			if err != nil {
				return 0, err
			}
			nodes += inside
			if loops && i == 0 {
				l.Nodes = append([]parse.Node{stepNode(tree, l, callSteps+inside)}, l.Nodes...)
			}
		}
	}
	return nodes, nil
}

// pipeNodes returns the number of arguments in a pipe, with those of the pipes in it.
func pipeNodes(p *parse.PipeNode) (n int) {
	for _, c := range p.Cmds {
		for _, a := range c.Args {
			n++
			if inner, ok := a.(*parse.PipeNode); ok {
				n += pipeNodes(inner)
			}
		}
	}
	return n
}

// stepNode returns the node of {{step n}} at the beginning of a list.
func stepNode(tree *parse.Tree, l *parse.ListNode, n int) parse.Node {
	number := &parse.NumberNode{NodeType: parse.NodeNumber, Pos: l.Pos, IsInt: true, Int64: int64(n), Text: strconv.Itoa(n)}
	command := call(tree, "step", l.Pos)
	command.Args = append(command.Args, number)
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Pos: l.Pos, Cmds: []*parse.CommandNode{command}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: l.Pos, Pipe: pipe}
}

// call returns a call of a function.
func call(tree *parse.Tree, name string, at parse.Pos) *parse.CommandNode {
	function := parse.NewIdentifier(name).SetPos(at).SetTree(tree)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: at, Args: []parse.Node{function}}
}

// Execute returns the text for an event, of at most MaxBytes. The error names the line and the fault.
func (t *Template) Execute(event map[string]any) (text []byte, err error) {
	defer func() { // text/template lets faults of its own through
		if r := recover(); r != nil {
			text, err = nil, reason(fmt.Errorf("%v", r))
		}
	}()
	x := &execution{}
	own, err := t.tree.Clone()
	if err != nil {
		return nil, reason(err)
	}
	if err := own.Funcs(x.functions()).Execute(io.Writer(x), event); err != nil {
		return nil, reason(err)
	}
	if len(bytes.TrimSpace(x.text.Bytes())) == 0 {
		return nil, errors.New("the template makes no text of this event")
	}
	return x.text.Bytes(), nil
}

var (
	place    = regexp.MustCompile(`^template: ` + templateName + `:(\d+)(:\d+)?: (executing "` + templateName + `" )?`)
	addition = regexp.MustCompile(`(at <(show|step)[^>]*>: )?error calling (show|step): `)
)

// reason returns an error of text/template as one for the account: it begins with the line.
func reason(err error) error {
	text := place.ReplaceAllString(err.Error(), "line $1: ")
	text = oneLine(addition.ReplaceAllString(text, ""))
	if len(text) > maxReason {
		n := maxReason
		for !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	return errors.New(text)
}
