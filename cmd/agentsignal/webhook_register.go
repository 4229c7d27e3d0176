package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// registration is a webhook that lasts as long as the local receiver.
type registration struct {
	wanted   bool
	service  string
	address  *url.URL // of service, once it is read
	keys     keyFlags
	key      string
	events   []string
	endpoint string // where the service sends to; empty: the address listened on
	secret   string

	id string // of the webhook, while there is one
}

func (g *registration) add(c *cobra.Command) {
	var all []string
	for _, e := range delivery.WebhookEvents {
		all = append(all, string(e))
	}
	c.Flags().BoolVar(&g.wanted, "register", false, "make a webhook for this address, and remove it at the end")
	c.Flags().StringVar(&g.service, "url", "http://localhost:8080", "address of the service, for --register")
	g.keys.add(c, " with webhooks:manage, for --register")
	c.Flags().StringSliceVar(&g.events, "events", all, "types of events, for --register")
	c.Flags().StringVar(&g.endpoint, "endpoint", "", "URL under which the service reaches this receiver, for --register; else --addr")
}

// configure checks what flags have given.
func (g *registration) configure(cmd *cobra.Command) (err error) {
	if !g.wanted {
		return nil
	}
	if g.address, err = parseAddress(g.service); err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	g.key, err = g.keys.read(cmd)
	return err
}

// begin registers the webhook for the receiver at addr.
func (g *registration) begin(ctx context.Context, addr string) error {
	g.endpoint = cmp.Or(g.endpoint, "http://"+addr)
	body, err := json.Marshal(map[string]any{"url": g.endpoint, "events": g.events, "secret": g.secret,
		"description": "agentsignal webhook listen"})
	if err != nil {
		return err
	}
	text, err := askService(ctx, g.address, g.key, http.MethodPost, "/v1/webhooks", body)
	if err != nil {
		return fmt.Errorf("register webhook: %w", err)
	}
	var record struct {
		ID string `json:"webhook_id"`
	}
	if err := json.Unmarshal(text, &record); err != nil || record.ID == "" {
		return fmt.Errorf("register webhook: the answer %.200q names no webhook", text)
	}
	g.id = record.ID
	return nil
}

// end removes the webhook, if there is one.
func (g *registration) end(ctx context.Context) error {
	if g.id == "" {
		return nil
	}
	if _, err := askService(ctx, g.address, g.key, http.MethodDelete, "/v1/webhooks/"+g.id, nil); err != nil {
		return fmt.Errorf("remove webhook %s, which stays: %w", g.id, err)
	}
	g.id = ""
	return nil
}

// Limits of a request to the service.
const (
	maxAPIAnswer = 1 << 16 // bytes of the answer
	apiTimeout   = 10 * time.Second
)

// apiClient does not follow redirects: the body of a registration may hold a secret.
var apiClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// askService sends a request to the service. An answer other than 2xx is an error.
func askService(ctx context.Context, address *url.URL, key, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w, err := apiClient.Do(r)
	if err != nil {
		return nil, connectFault(address, err, false)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(io.LimitReader(w.Body, maxAPIAnswer))
	if err == nil && w.StatusCode/100 != 2 {
		err = answerFault(address, w.StatusCode, text)
	}
	return text, err
}

// faults returns what an answer says is wrong.
func faults(text []byte) string {
	var problem struct {
		Detail string
		Errors []struct{ Pointer, Detail string }
	}
	if err := json.Unmarshal(text, &problem); err != nil || problem.Detail == "" {
		return plain(string(text))
	}
	all := make([]string, 0, len(problem.Errors))
	for _, e := range problem.Errors {
		all = append(all, e.Pointer+": "+e.Detail)
	}
	return plain(cmp.Or(strings.Join(all, "; "), problem.Detail))
}
