package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strconv"
)

// MaxPage is the greatest number of items of a page.
const MaxPage = 100

// Page is a part of a list.
type Page[T any] struct {
	Items []T
	Total int  // items of the whole list
	More  bool // items follow this page
}

// errNoList is the error of an answer that is no page of a list.
var errNoList = errors.New("read answer: it is not a list")

// readPage reads a page whose items are in the member with the name.
func readPage[T any, P interface {
	*T
	holder
}](text []byte, name string) (*Page[T], error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	var items []json.RawMessage
	if !bytes.HasPrefix(bytes.TrimSpace(members[name]), []byte("[")) {
		return nil, errNoList
	}
	var page Page[T]
	for member, v := range map[string]any{name: &items, "total": &page.Total, "has_more": &page.More} {
		if text, ok := members[member]; ok {
			if err := json.Unmarshal(text, v); err != nil {
				return nil, fmt.Errorf("read answer: %s: %w", member, err)
			}
		}
	}
	page.Items = make([]T, len(items))
	for i, item := range items {
		if err := read(item, P(&page.Items[i])); err != nil {
			return nil, err
		}
	}
	return &page, nil
}

// whole returns the items of a list that has one page.
func whole[T any, P interface {
	*T
	holder
}](ctx context.Context, c *Client, path, name string) ([]*T, error) {
	text, err := c.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	page, err := readPage[T, P](text, name)
	if err != nil {
		return nil, err
	}
	list := make([]*T, len(page.Items))
	for i := range page.Items {
		list[i] = &page.Items[i]
	}
	return list, nil
}

// all returns up to limit items of a list from page to page, without a limit if it is not positive.
// Items that come in while the list is read move others to the next page; each is returned once.
func all[T any, P interface {
	*T
	holder
}](ctx context.Context, c *Client, path, name string, q url.Values, limit int, id func(*T) string) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		known := map[string]bool{}
		for offset := 0; ; {
			part := url.Values{}
			for k, v := range q {
				part[k] = v
			}
			size := MaxPage
			if limit > 0 {
				size = min(size, limit-len(known))
			}
			part.Set("limit", strconv.Itoa(size))
			part.Set("offset", strconv.Itoa(offset))
			text, err := c.Get(ctx, path+"?"+part.Encode())
			var page *Page[T]
			if err == nil {
				page, err = readPage[T, P](text, name)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Items {
				item := &page.Items[i]
				if known[id(item)] {
					continue
				}
				known[id(item)] = true
				if !yield(item, nil) {
					return
				}
			}
			offset += len(page.Items)
			if !page.More || len(page.Items) == 0 || limit > 0 && len(known) >= limit {
				return
			}
		}
	}
}

// Collect returns the items of a list as a slice.
func Collect[T any](items iter.Seq2[*T, error]) ([]*T, error) {
	list := []*T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}
