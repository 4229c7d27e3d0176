package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// GetJSON sends a request and decodes the answer into v.
func (c *Client) GetJSON(ctx context.Context, r Request, v any) error {
	a, err := c.Get(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(a.Body, v); err != nil {
		return c.Undecodable(fmt.Errorf("decode answer: %w", err))
	}
	return nil
}

// GetNames sends a request for a list of objects and returns the value of a field of each, without
// empty ones. There is at least one.
func (c *Client) GetNames(ctx context.Context, r Request, field string) ([]string, error) {
	a, err := c.Get(ctx, r)
	if err != nil {
		return nil, err
	}
	names, err := decodeNames(a.Body, field)
	if err != nil {
		return nil, c.Undecodable(err)
	}
	return names, nil
}

func decodeNames(body []byte, field string) ([]string, error) {
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal(body, &rows); err != nil {
		return nil, fmt.Errorf("decode list: %w", err)
	}
	names := make([]string, 0, len(rows))
	for i, row := range rows {
		var name string
		if value, ok := row[field]; ok {
			if err := json.Unmarshal(value, &name); err != nil {
				return nil, fmt.Errorf("decode %s of entry %d: %w", field, i, err)
			}
		}
		if name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("decode list: it has no " + field)
	}
	return names, nil
}
