package template_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	reference "text/template"
	"text/template/parse"

	"pgregory.net/rapid"

	"github.com/agentsignal/agentsignal/actors/template"
)

const document = `{"type":"a.b","n":null,"yes":true,"no":false,"zero":0,"half":0.5,"big":1e30,"text":"a <b> & \"c\"","empty":"",
	"list":["x","",null,1.5,{"k":"v","n":null}],"none":[],"map":{"b":"1","a":{"text":"deep","list":[1,2]}}}`

func data(tb testing.TB) (v map[string]any) {
	tb.Helper()
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		tb.Fatal(err)
	}
	return v
}

var options = template.Options{Data: "the data", MaxBytes: 2000, MaxSteps: 5000, Functions: map[string]template.Function{
	"json":  template.JSON,
	"upper": template.Unary(strings.ToUpper),
	"fixed": template.Binary(fixed),
}}

func fixed(name string, n float64) string { return name + strconv.FormatFloat(n, 'f', 2, 64) }

// expected returns what text/template makes.
func expected(text string, data any) (string, error) {
	show := func(what string, v any) (string, error) {
		switch v := v.(type) {
		case nil:
			return "", fmt.Errorf("the data has no %s", what)
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64), nil
		case string, bool, int:
			return fmt.Sprint(v), nil
		}
		return "", fmt.Errorf("%s is an object or a list: use json", what)
	}
	t, err := reference.New("").Funcs(reference.FuncMap{"show": show, "upper": strings.ToUpper, "fixed": fixed,
		"json": func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err }}).Parse(text)
	if err != nil {
		return "", err
	}
	showAll(t.Tree, t.Root)
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.String(), err
}

// showAll lets all actions in a list of nodes end in show.
func showAll(tree *parse.Tree, list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		var b parse.BranchNode
		switch n := n.(type) {
		case *parse.ActionNode:
			if what := n.Pipe.String(); len(n.Pipe.Decl) == 0 {
				show := &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{
					parse.NewIdentifier("show").SetTree(tree),
					&parse.StringNode{NodeType: parse.NodeString, Quoted: strconv.Quote(what), Text: what}}}
				n.Pipe.Cmds = append(n.Pipe.Cmds, show)
			}
		case *parse.IfNode:
			b = n.BranchNode
		case *parse.WithNode:
			b = n.BranchNode
		case *parse.RangeNode:
			b = n.BranchNode
		}
		showAll(tree, b.List)
		showAll(tree, b.ElseList)
	}
}

// excused are errors of one side only: limits and the exceptions that the package documents, complex numbers, and an
// int where a function wants a float64.
var excused = struct{ ours, theirs []string }{
	[]string{"repeats too much", "is longer than", "complex numbers", "overflows int", "undefined variable", "is not available",
		"not defined", "are not available"},
	[]string{"nil pointer evaluating", "explicit nil", "expected float64; got int"},
}

func isExcused(err error, among []string) bool {
	for _, s := range among {
		if err != nil && strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

// check compares a template with one of text/template.
func check(tb interface{ Errorf(string, ...any) }, text string, v any) {
	var got []byte
	parsed, err := template.Parse(text, options)
	if err == nil {
		got, err = parsed.Execute(v)
	}
	if isExcused(err, excused.ours) {
		return
	}
	want, wantErr := expected(text, v)
	if isExcused(wantErr, excused.theirs) {
		return
	}
	switch {
	case (err == nil) != (wantErr == nil):
		tb.Errorf("%s: %v, text/template: %v", text, err, wantErr)
	case err == nil && string(got) != want:
		tb.Errorf("%s: %q, text/template: %q", text, got, want)
	case err != nil && !strings.HasPrefix(err.Error(), "line "):
		tb.Errorf("%s: no line in %v", text, err)
	case err != nil && strings.Contains(wantErr.Error(), "error calling show: "):
		if _, reason, _ := strings.Cut(wantErr.Error(), "error calling show: "); !strings.HasSuffix(err.Error(), reason) {
			tb.Errorf("%s: %v, text/template: %v", text, err, wantErr)
		}
	}
}

var examples = []string{
	"{{.map.a.text}} {{$.type | upper}} {{fixed .type .half}}{{json .list}}{{json nil}}",
	"{{range $i, $x := .list}}{{$i}}{{json $x}}{{else}}-{{end}}" +
		"{{range .none}}{{else}}none{{end}}{{range .gone}}{{else}}none{{end}}",
	"{{range $k, $v := .map}}{{$k}}{{if eq $k \"a\"}}{{continue}}{{end}}{{$v}}{{end}}",
	"{{range 3}}{{.}}{{if eq . 1}}{{break}}{{end}}{{end}}",
	"{{with $x := .map.a}}{{$x.text}}{{.list | json}}{{else with .type}}{{.}}{{else}}{{end}}" +
		"{{with .gone}}{{else}}{{.type}}{{end}}",
	"{{$x := 1}}{{range 3}}{{$x = .}}{{$x := 9}}{{$x}}{{end}}{{$x}}{{range $x = .list}}{{end}}",
	"{{len .text}}{{len .list}}{{len .map}}{{index .list 0}}{{(index .list 4).k}}",
	"{{index .map \"a\" \"text\"}}{{index .map.a.list 1}}",
	"{{and 1 .zero .n}}{{or .zero .empty \"x\"}}{{not .yes}}{{1 | and .yes}}{{.half | lt 0.25}}",
	"{{ne .n nil}}{{eq .type 1.5 .n \"a.b\"}}",
	"{{eq .half .half}}{{le .half 0.5}}{{ge 2 1}}{{gt \"b\" \"a\"}}{{eq .yes true}}{{eq 'a' 0x61}}{{1e3}}{{0x1p4}}{{-1}}{{.big}}",
	"a\n{{- .gone}}", "{{.list}}", "{{.text.x}}", "{{index .list 9}}", "{{lt .half 1}}", "{{len .n}}", "{{eq .map .map}}",
	"{{. 1}}",
	"{{.type 1}}", "{{if .n}}{{end}}{{if .gone.x.y}}{{end}}{{/* c */}}{{range .half}}{{end}}", "{{or 1 ($x := 2)}}{{$x}}",
	"{{range $i, $x := 3}}{{end}}", "{{upper 1}}", "{{upper}}", "{{nil}}", "{{json .n .n}}", "{{and}}", "{{\"a\" | .type}}",
	"{{define \"x\"}}{{end}}", "{{template \"x\"}}", "{{1i}}",
}

func TestTemplatesAreThoseOfTextTemplate(t *testing.T) {
	t.Parallel()
	for _, text := range examples {
		check(t, text, data(t))
	}
}

func FuzzTemplate(f *testing.F) {
	for _, text := range examples {
		f.Add(text)
	}
	v := data(f)
	f.Fuzz(func(t *testing.T, text string) { check(t, text, v) })
}

// TestRandomTemplates compares templates of which most are valid.
func TestRandomTemplates(t *testing.T) {
	t.Parallel()
	v := data(t)
	atoms := rapid.SampledFrom([]string{".", "$", "$x", "$y", ".k", ".type", ".n", ".yes", ".no", ".zero", ".half", ".list",
		".none",
		".map", ".map.a", ".map.a.list", ".gone", ".gone.x", ".text", ".empty", "$.list", "$.map.b", "1", "0", "2.5", `"a.b"`,
		`"a"`, "true", "'c'", "nil"})
	names := rapid.SampledFrom([]string{"and", "or", "not", "len", "index", "eq", "ne", "lt", "le", "gt", "ge", "json", "upper",
		"fixed"})
	var pipe func(depth int) *rapid.Generator[string]
	pipe = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			kind := rapid.IntRange(0, 5).Draw(t, "pipe")
			switch {
			case depth == 0 || kind < 2:
				return atoms.Draw(t, "atom")
			case kind == 2:
				return pipe(depth-1).Draw(t, "left") + " | " + names.Draw(t, "name")
			case kind == 3:
				return "(" + pipe(depth-1).Draw(t, "inner") + ").k"
			}
			text := names.Draw(t, "name")
			for range rapid.IntRange(1, 2).Draw(t, "arguments") {
				text += " (" + pipe(depth-1).Draw(t, "argument") + ")"
			}
			return text
		})
	}
	var list func(depth int) *rapid.Generator[string]
	list = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) (text string) {
			for range rapid.IntRange(1, 3).Draw(t, "nodes") {
				value := pipe(2).Draw(t, "value")
				kinds := []string{"{{json (%s)}}", "{{%s}}", "{{$x = %s}}", "{{$x := %s}}", "-{{if %s}}{{break}}{{end}}"}
				if depth > 0 {
					kinds = append(kinds, "{{if %s}}[]{{else}}[]{{end}}", "{{with $y := %s}}[]{{else}}[]{{end}}",
						"{{range %s}}[]{{else}}[]{{end}}", "{{range $y, $x = %s}}[]{{continue}}{{end}}",
						"{{range $y, $x := %s}}[]{{end}}")
				}
				node := fmt.Sprintf(rapid.SampledFrom(kinds).Draw(t, "node"), value)
				for strings.Contains(node, "[]") {
					node = strings.Replace(node, "[]", list(depth-1).Draw(t, "list"), 1)
				}
				text += node
			}
			return text
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, `{{$x := 0}}{{$y := ""}}{{range 1}}{{with $}}`+list(2).Draw(t, "template")+"{{end}}{{end}}", v)
	})
}

func TestLimitsAndEscapes(t *testing.T) {
	t.Parallel()
	o := options
	o.Escape = strings.ToUpper
	for text, want := range map[string]string{
		"{{range 2}}a{{.}}{{end}}{{.type}}":                   "a0a1A.B",
		"\n{{range 100000}}{{end}}":                           "line 2: the template repeats too much",
		"{{range 1000}}{{$x := json $.list}}{{end}}":          "line 1: the template repeats too much",
		"{{range 900}}long{{end}}":                            "the text is longer than 2000 bytes",
		`{{$x := "'\"'"}}{{range 99}}{{$x = json $x}}{{end}}`: "the text is longer than 2000 bytes",
	} {
		parsed, err := template.Parse(text, o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parsed.Execute(data(t))
		if err != nil {
			got = []byte(err.Error())
		}
		if !strings.HasSuffix(string(got), want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
