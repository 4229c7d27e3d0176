package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// Stream checks the messages of the dashboard stream. It is safe for concurrent
// use.
type Stream struct {
	fromServer map[string]*jsonschema.Schema // by type
	fromClient map[string]*jsonschema.Schema // by action
	closeCodes map[int]bool
}

// asyncAPI holds the relevant parts of a description.
type asyncAPI struct {
	Components struct {
		Messages map[string]message
	}
	Closing []struct{ Code int } `yaml:"x-close-codes"`
}

type message struct {
	Name     string
	Tags     []struct{ Name string }
	Payload  any
	Examples []struct{ Payload any }
}

// NewStream reads the description in a file. It fails the test if the description has
// another form, or if an example does not match its schema.
func NewStream(tb testing.TB, file string) *Stream {
	tb.Helper()
	description, err := os.ReadFile(file)
	if err != nil {
		tb.Fatalf("read description: %v", err)
	}
	var doc asyncAPI
	var whole any
	if err := yaml.Unmarshal(description, &doc); err != nil {
		tb.Fatalf("read description: %v", err)
	}
	if err := yaml.Unmarshal(description, &whole); err != nil {
		tb.Fatalf("read description: %v", err)
	}
	resource, err := jsonValue(whole)
	if err != nil {
		tb.Fatalf("read description: %v", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	const at = "https://example.com/asyncapi.yaml"
	if err := compiler.AddResource(at, resource); err != nil {
		tb.Fatalf("add description: %v", err)
	}
	s := &Stream{fromServer: make(map[string]*jsonschema.Schema), fromClient: make(map[string]*jsonschema.Schema),
		closeCodes: make(map[int]bool)}
	for _, c := range doc.Closing {
		s.closeCodes[c.Code] = true
	}
	for key, m := range doc.Components.Messages {
		schema, err := compiler.Compile(at + "#/components/messages/" + key + "/payload")
		if err != nil {
			tb.Fatalf("compile message %s: %v", key, err)
		}
		for i, example := range m.Examples {
			value, err := jsonValue(example.Payload)
			if err == nil {
				err = schema.Validate(value)
			}
			if err != nil {
				tb.Errorf("example %d of message %s: %v", i, key, err)
			}
		}
		if len(m.Examples) == 0 {
			tb.Errorf("message %s has no example", key)
		}
		if m.Name == "" || len(m.Tags) != 1 {
			tb.Fatalf("message %s needs a name and one tag", key)
		}
		switch m.Tags[0].Name {
		case "server":
			s.fromServer[m.Name] = schema
		case "client":
			s.fromClient[m.Name] = schema
		default:
			tb.Fatalf("message %s comes from %q", key, m.Tags[0].Name)
		}
	}
	return s
}

// FromServer returns the differences of a message of the service from its description.
func (s *Stream) FromServer(message []byte) error { return check(s.fromServer, "type", message) }

// FromClient is FromServer for a message of a client.
func (s *Stream) FromClient(message []byte) error { return check(s.fromClient, "action", message) }

// CloseCode reports whether the service may close a connection with the code.
func (s *Stream) CloseCode(code int) bool { return s.closeCodes[code] }

// Types returns how many types of messages the service and clients may send.
func (s *Stream) Types() (server, client int) { return len(s.fromServer), len(s.fromClient) }

func check(schemas map[string]*jsonschema.Schema, member string, message []byte) error {
	var value any
	if err := unmarshal(message, &value); err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	object, _ := value.(map[string]any)
	name, _ := object[member].(string)
	schema := schemas[name]
	if schema == nil {
		return fmt.Errorf("no message with the %s %q is described", member, name)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("the message %s is not as described: %w", name, err)
	}
	return nil
}

// jsonValue returns v as encoding/json would read it.
func jsonValue(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(b))
}

// unmarshal reads JSON and keeps numbers exact.
func unmarshal(b []byte, v *any) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	*v = value
	return err
}
