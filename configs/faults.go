package configs

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/agentsignal/agentsignal/actors/spelling"
)

// Files are checked against Config before they are decoded: the YAML package reports
// faults in terms of Go types and by the first line of a block. The faults of this file
// name the key, the line and what is allowed, and no values, which may be secrets.

const (
	// maxDepth limits the nesting of a file, which aliases could make endless.
	maxDepth = 16
	// maxProbedLines limits the search for the faulty line of a file.
	maxProbedLines = 5000
)

var (
	yamlPlace     = regexp.MustCompile(`^yaml: (line \d+: )?`)
	unknownAnchor = regexp.MustCompile(`unknown anchor '.*' referenced`)
)

// syntaxFault explains why raw is not YAML. The line that it names is the one after the
// longest valid prefix.
func syntaxFault(raw []byte, err error) error {
	reason := yamlPlace.ReplaceAllString(err.Error(), "")
	reason = unknownAnchor.ReplaceAllString(reason, "a value that begins with * must be in quotes")
	lines := strings.SplitAfter(string(raw), "\n")
	if len(lines) > maxProbedLines {
		return fmt.Errorf("configuration file: %s", reason)
	}
	good := len(lines) - 1
	for ; good > 0; good-- {
		if yaml.Unmarshal([]byte(strings.Join(lines[:good], "")), new(yaml.Node)) == nil {
			break
		}
	}
	return fmt.Errorf("configuration file: line %d: %s: see its indentation, quotes and brackets", good+1, reason)
}

// fileFaults returns the faults of a file.
func fileFaults(document *yaml.Node) error {
	var faults []error
	if len(document.Content) > 0 {
		checkNode(document.Content[0], reflect.TypeFor[Config](), "", maxDepth, &faults)
	}
	return errors.Join(faults...)
}

// checkNode collects the faults of the node n, the value of key, which must be of type t.
func checkNode(n *yaml.Node, t reflect.Type, key string, depth int, faults *[]error) {
	fault := func(line int, format string, args ...any) {
		*faults = append(*faults, fmt.Errorf("configuration file: line %d: %s", line, fmt.Sprintf(format, args...)))
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if depth == 0 {
		fault(n.Line, "%s is nested too deeply", key)
		return
	}
	if n.ShortTag() == "!!null" {
		return
	}
	switch {
	case t.Kind() == reflect.Struct && n.Kind != yaml.MappingNode:
		fault(n.Line, "%s: must hold keys such as %s", orFile(key), strings.Join(keysUnder(t, key), ", "))
	case t.Kind() == reflect.Struct:
		checkKeys(n, t, key, depth, fault, faults)
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for _, element := range n.Content {
			checkNode(element, t.Elem(), key, depth-1, faults)
		}
	default:
		// The YAML package truncates fractions for integers.
		fraction := t.Kind() == reflect.Int && n.ShortTag() == "!!float"
		if v := reflect.New(t); n.Kind != yaml.ScalarNode || fraction || n.Decode(v.Interface()) != nil {
			fault(n.Line, "%s: %s", key, mustBe(t, n))
		}
	}
}

// checkKeys collects the faults of a node that must be of the struct type t.
func checkKeys(n *yaml.Node, t reflect.Type, key string, depth int, fault func(int, string, ...any), faults *[]error) {
	seen := make(map[string]bool)
	known := keysUnder(t, key)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.ShortTag() == "!!merge" {
			checkNode(value, t, key, depth-1, faults)
			continue
		}
		full := join(key, name.Value)
		at := slices.Index(known, full)
		switch {
		case at < 0:
			fault(name.Line, "%s is not a setting%s", full, suggestion(full, known))
			continue
		case seen[full]:
			fault(name.Line, "%s is given twice", full)
		}
		seen[full] = true
		checkNode(value, t.Field(at).Type, full, depth-1, faults)
	}
}

// keysUnder returns the full keys of a struct's fields, in their order. A field that is no setting is the
// last one.
func keysUnder(t reflect.Type, key string) []string {
	var keys []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == "-" {
			break
		}
		keys = append(keys, join(key, name))
	}
	return keys
}

func join(key, name string) string { return strings.TrimPrefix(key+"."+name, ".") }

func orFile(key string) string {
	if key == "" {
		return "the file"
	}
	return key
}

// suggestion returns the end of a fault that names the settings that may be meant.
func suggestion(name string, known []string) string {
	return ": " + cmp.Or(spelling.DidYouMean(spelling.Nearest(name, known)), "see agentsignal config print")
}

// mustBe returns what a value of type t must be. n is the given value, or nil.
func mustBe(t reflect.Type, n *yaml.Node) string {
	single := n == nil || n.Kind == yaml.ScalarNode
	if v, ok := reflect.New(t).Interface().(encoding.TextUnmarshaler); ok && single && n != nil {
		if err := v.UnmarshalText([]byte(n.Value)); err != nil {
			return err.Error()
		}
	}
	switch t.Kind() {
	case reflect.Slice:
		return "must be a list: write [a, b]"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int, reflect.Int64:
		if single {
			return "must be a whole number"
		}
	case reflect.Float64:
		return "must be a number"
	}
	return "must be a single value, not a list or keys"
}
