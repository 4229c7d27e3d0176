package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/itchyny/gojq"
)

// program is a jq program.
type program struct{ code *gojq.Code }

// parseProgram reads the program of --jq.
func parseProgram(text string) (*program, error) {
	q, err := gojq.Parse(text)
	if wrong, ok := errors.AsType[*gojq.ParseError](err); ok {
		if err.Error() == "unexpected EOF" {
			return nil, fmt.Errorf("--jq: the program is not complete: after %q something is missing, such as "+
				"a closing bracket", text)
		}
		return nil, fmt.Errorf("--jq: %w at the end of %q", err, text[:wrong.Offset])
	}
	if err != nil {
		return nil, fmt.Errorf("--jq: %w", err)
	}
	code, err := gojq.Compile(q)
	if err != nil {
		return nil, fmt.Errorf("--jq: %w", err)
	}
	return &program{code}, nil
}

// print prints what the program makes of a value of the service.
func (p *program) print(w io.Writer, text []byte) error {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	for results := p.code.Run(v); ; {
		r, ok := results.Next()
		if !ok {
			return nil
		}
		if err, failed := r.(error); failed {
			return fmt.Errorf("--jq: %w", err)
		}
		line, isText := r.(string) // printed as jq -r does
		if !isText {
			b, err := gojq.Marshal(r)
			if err != nil {
				return fmt.Errorf("--jq: %w", err)
			}
			line = string(b)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
}
