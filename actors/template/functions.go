package template

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// Function is a function of templates.
type Function struct {
	count    int  // of its arguments
	variadic bool // it has one argument or more
	call     func(arguments []any) (any, error)
}

// Unary returns a function of one argument, whose type is one of those of values.
func Unary[A any](f func(A) string) Function {
	return Function{count: 1, call: func(arguments []any) (any, error) {
		a, err := as[A](arguments[0])
		if err != nil {
			return nil, err
		}
		return f(a), nil
	}}
}

// Binary returns a function of two arguments.
func Binary[A, B any](f func(A, B) string) Function {
	return Function{count: 2, call: func(arguments []any) (any, error) {
		a, errA := as[A](arguments[0])
		b, errB := as[B](arguments[1])
		if err := cmp.Or(errA, errB); err != nil {
			return nil, err
		}
		return f(a, b), nil
	}}
}

// as returns an argument with its type. An int is also a float64.
func as[A any](v any) (A, error) {
	var want A
	if n, ok := v.(int); ok {
		if _, ok := any(want).(float64); ok {
			v = float64(n)
		}
	}
	a, ok := v.(A)
	if !ok {
		return a, fmt.Errorf("wrong type for value; expected %T; got %T", want, v)
	}
	return a, nil
}

// JSON is the function that prints any value as JSON.
var JSON = Function{count: 1, call: func(arguments []any) (any, error) {
	b, err := json.Marshal(arguments[0])
	return string(b), err
}}

// builtins are the functions that all templates have.
var builtins = map[string]Function{
	"and": {variadic: true, call: lastOf},
	"or":  {variadic: true, call: lastOf},
	"not": {count: 1, call: func(arguments []any) (any, error) { return !truth(arguments[0]), nil }},
	"len": {count: 1, call: func(arguments []any) (any, error) { return length(arguments[0]) }},
	"index": {variadic: true, call: func(arguments []any) (any, error) {
		return index(arguments[0], arguments[1:])
	}},
	"eq": {variadic: true, call: func(arguments []any) (any, error) {
		return equalsAny(arguments[0], arguments[1:])
	}},
	"ne": {count: 2, call: func(arguments []any) (any, error) {
		equal, err := equals(arguments[0], arguments[1])
		return !equal, err
	}},
	"lt": ordered(func(order int) bool { return order < 0 }),
	"le": ordered(func(order int) bool { return order <= 0 }),
	"gt": ordered(func(order int) bool { return order > 0 }),
	"ge": ordered(func(order int) bool { return order >= 0 }),
}

// lastOf is the result of and and of or if no argument before the last one decides it.
func lastOf(arguments []any) (any, error) { return arguments[len(arguments)-1], nil }

// truth reports whether a value is neither null nor the zero of its type, nor empty.
func truth(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case nil:
		return false
	}
	n, _ := length(v)
	return n > 0
}

// length returns the length of a text, in bytes, of a list or of an object.
func length(v any) (int, error) {
	switch v := v.(type) {
	case string:
		return len(v), nil
	case []any:
		return len(v), nil
	case map[string]any:
		return len(v), nil
	}
	return 0, fmt.Errorf("len of type %T", v)
}

// index returns what the keys select in a list or an object, of which each is within the one before.
func index(v any, keys []any) (any, error) {
	if v == nil {
		return nil, errors.New("index of untyped nil")
	}
	for _, key := range keys {
		switch of := v.(type) {
		case []any:
			i, ok := key.(int)
			if !ok {
				return nil, fmt.Errorf("cannot index slice/array with type %T", key)
			}
			if i < 0 || i >= len(of) {
				return nil, fmt.Errorf("index out of range: %d", i)
			}
			v = of[i]
		case map[string]any:
			name, err := as[string](key)
			if err != nil {
				return nil, err
			}
			v = of[name]
		default:
			return nil, fmt.Errorf("can't index item of type %T", v)
		}
	}
	return v, nil
}

// equalsAny reports whether a equals one of others.
func equalsAny(a any, others []any) (any, error) {
	if len(others) == 0 {
		return nil, errors.New("missing argument for comparison")
	}
	for _, b := range others {
		if equal, err := equals(a, b); equal || err != nil {
			return equal, err
		}
	}
	return false, nil
}

// equals reports whether two values of one type, which is neither list nor object, are equal. Null equals only null.
func equals(a, b any) (bool, error) {
	if a == nil || b == nil {
		return a == nil && b == nil, nil
	}
	if x, ok := a.(bool); ok {
		if y, ok := b.(bool); ok {
			return x == y, nil
		}
	}
	order, err := compare(a, b)
	return order == 0, err
}

// ordered returns the function that reports whether the order of two values is as wanted.
func ordered(wanted func(order int) bool) Function {
	return Function{count: 2, call: func(arguments []any) (any, error) {
		order, err := compare(arguments[0], arguments[1])
		return wanted(order), err
	}}
}

// compare returns the order of two texts, two ints or two float64s, as package cmp does.
func compare(a, b any) (int, error) {
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return cmp.Compare(x, y), nil
		}
	case int:
		if y, ok := b.(int); ok {
			return cmp.Compare(x, y), nil
		}
	case float64:
		if y, ok := b.(float64); ok {
			return cmp.Compare(x, y), nil
		}
	}
	return 0, fmt.Errorf("incompatible types for comparison: %T and %T", a, b)
}
