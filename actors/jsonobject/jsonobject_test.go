package jsonobject

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	valid := []string{`{}`, `[]`, `"é😀"`, `-1`, strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
		` {"a":[1,-0,0.5,1e9,1E+2,2e-3,true,false,null,"x\u00e9\ud83d\ude00\n"]} `}
	for _, text := range valid {
		if err := Check([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	invalid := map[string]string{
		"":                                  "unexpected end at byte 0",
		"{":                                 "unexpected end at byte 1",
		`{"a"}`:                             "expected a colon at byte 4",
		`{"a":1,}`:                          "expected a member name at byte 7",
		`{a:1}`:                             "expected a member name at byte 1",
		`{"a":1 "b":2}`:                     "expected a comma or a closing brace at byte 7",
		`[1 2]`:                             "expected a comma or a closing bracket at byte 3",
		`[1,]`:                              "expected a value at byte 3",
		`01`:                                "text after the end of the value at byte 1",
		`1.`:                                "unexpected end at byte 2",
		`.5`:                                "expected a value at byte 0",
		`+1`:                                "expected a value at byte 0",
		`1e`:                                "unexpected end at byte 2",
		`-x`:                                "expected a digit at byte 1",
		`tru`:                               "unexpected end at byte 3",
		`nil`:                               "expected a value at byte 1",
		`"abc`:                              "unexpected end at byte 4",
		"\"a\nb\"":                          "control character in a string at byte 2",
		`"\x"`:                              "invalid escape sequence at byte 2",
		`"\u12g4"`:                          "invalid escape sequence at byte 5",
		`"\udc00"`:                          "lone surrogate at byte 7",
		`"\ud800x"`:                         "lone surrogate at byte 7",
		`"\ud800\ud800"`:                    "lone surrogate at byte 13",
		"\"\xc3\"":                          "invalid UTF-8 at byte 1",
		"\"\xed\xa0\x80\"":                  "invalid UTF-8 at byte 1",
		strings.Repeat("[", maxDepth+1):     "nested more than 32 levels deep at byte 32",
		strings.Repeat(`{"a":`, maxDepth+1): "nested more than 32 levels deep at byte 160",
	}
	for text, want := range invalid {
		if err := Check([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// seeds are texts with every kind of value, and some that only one of two readers accepts.
var seeds = []string{
	`{"asset":"BTC","strategy":"momentum","parameters":{"keywords":["a","b"],"region":null}}`,
	`{"a":{"b":[1,2.5e-3,"\ud83d\ude00"]},"a":2}`, `{"\u0061":"\\\"","":0}`, ` { "a" : [ ] , "b" : { } } `,
	`["},{",[[1],2],{"a":"]"}]`, `[]`, `[ ]`, `{"a":"`, "{\"\xff\":1}", `"\ud800"`, strings.Repeat("[", 40),
}

// FuzzCheck tests that encoding/json accepts all that Check accepts, and that Check refuses
// other texts only for its additional rules.
func FuzzCheck(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Check(data)
		if err == nil && !json.Valid(data) {
			t.Fatalf("%q is accepted", data)
		}
		if err != nil && json.Valid(data) && err.Reason != "lone surrogate" && err.Reason != "invalid UTF-8" &&
			!strings.HasPrefix(err.Reason, "nested") {
			t.Fatalf("%q is refused: %v", data, err)
		}
	})
}

// FuzzMembers compares Members and Items with encoding/json.
func FuzzMembers(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		switch data = Trim(data); data[0] {
		case '{':
			var want map[string]json.RawMessage
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			got := map[string]json.RawMessage{} // of a repeated member both keep the last
			for name, value := range Members(data) {
				got[string(name)] = value
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("members of %q (-want +got):\n%s", data, d)
			}
		case '[':
			var want, got []json.RawMessage
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			for item := range Items(data) {
				got = append(got, bytes.Clone(item))
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("items of %q (-want +got):\n%s", data, d)
			}
		}
	})
}
