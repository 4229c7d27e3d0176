package request

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDecodeObject: the reader finds what encoding/json finds, and no recorded fault breaks
// an answer.
func FuzzDecodeObject(f *testing.F) {
	for _, seed := range []string{
		`{"asset":"BTC","strategy":"momentum","parameters":{"keywords":["a","b"],"region":null}}`,
		`{"a":{"b":[1,2.5e-3,"\ud83d\ude00"]},"a":2}`,
		`{"\u0061":"\\\"","":0}`, `[]`, `{"a":"`, "{\"\xff\":1}", `"\ud800"`, strings.Repeat("[", 40)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var faults Faults
		o := ReadObject(data, &faults)
		if o == nil {
			return
		}
		compareMembers(t, data, o, &faults)
		readAny(o)
		for _, f := range faults.list {
			if !utf8.ValidString(f.Name) || !utf8.ValidString(f.Detail) {
				t.Fatalf("fault %q", f)
			}
		}
	})
}

// compareMembers compares the found members with those of encoding/json.
func compareMembers(t *testing.T, data []byte, o *Object, f *Faults) {
	var want map[string]json.RawMessage
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatalf("read %q: %v", data, err)
	}
	if len(o.members) != len(want) && len(o.members) < maxMembers {
		t.Fatalf("%q has %d members, not %d", data, len(want), len(o.members))
	}
	for _, m := range o.members {
		value, ok := want[string(m.name)]
		if !ok {
			t.Fatalf("%q has no member %q", data, m.name)
		}
		if !f.Any() && !bytes.Equal(value, m.value) { // of two, encoding/json takes the last
			t.Fatalf("%q: member %q is %s, not %s", data, m.name, value, m.value)
		}
	}
}

// readAny reads members as anything.
func readAny(o *Object) {
	for _, m := range o.members {
		name := string(m.name)
		o.Text(name)
		o.Bool(name)
		o.Integer(name, 0, 100)
		o.Texts(name, 3, "must be a list", func(string) (code, detail string) { return "", "" })
		if inner, ok := o.Object(name); ok {
			inner.Close()
		}
	}
	o.Require("required", "must be given")
	o.Close()
}
