package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

// healthcheckTimeout limits the request; /readyz answers within a second.
const healthcheckTimeout = 3 * time.Second

func healthcheckCommand(s *service.Settings) *cobra.Command {
	given := ""
	c := &cobra.Command{
		Use: "healthcheck", Short: "Ask a running service whether it is ready", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, address := http.DefaultClient, (*url.URL)(nil)
			if given == "" {
				c, err := s.Load()
				if err != nil {
					return err
				}
				given = remote.LocalURL(c.HTTP.Addr, c.TLS)
				// The certificate is for the names that clients use, and no secret is sent.
				anyName := &tls.Config{InsecureSkipVerify: true}
				client = &http.Client{Transport: &http.Transport{TLSClientConfig: anyName}}
			}
			address, err := remote.ParseAddress(given)
			if err != nil {
				return fmt.Errorf("--url: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthcheckTimeout)
			defer cancel()
			return askReady(ctx, client, address, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&given, "url", "", "address of the service; that of the configuration if left out")
	return c
}

// askReady prints the readiness of the service at address. It fails if it is not ready.
func askReady(ctx context.Context, client *http.Client, address *url.URL, out io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String()+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	w, err := client.Do(r)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s does not answer within %v", address.Host, healthcheckTimeout)
	}
	if err != nil {
		return remote.ConnectFault(address, err, false)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(io.LimitReader(w.Body, 1<<16))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	var readiness struct{ Status string }
	if json.Unmarshal(body, &readiness) != nil || readiness.Status == "" || w.StatusCode < 500 &&
		w.StatusCode != http.StatusOK {
		return remote.AnswerFault(address, w.StatusCode, body)
	}
	fmt.Fprintln(out, string(body))
	if w.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", readiness.Status)
	}
	return nil
}
