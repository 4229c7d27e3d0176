package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/http/client"
)

// healthcheckTimeout limits the request; /readyz answers within a second.
const healthcheckTimeout = 3 * time.Second

func healthcheckCommand(s *service.Settings) *cobra.Command {
	var from remote.Flags
	c := &cobra.Command{
		Use: "healthcheck", Short: "Ask a running service whether it is ready", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, other := &http.Client{}, ""
			if !cmd.Flags().Changed("url") {
				c, err := s.Load()
				if err != nil {
					return err
				}
				other = remote.LocalURL(c.HTTP.Addr, c.TLS.CertFile != "")
				// The certificate is for the names that clients use, and no secret is sent.
				anyName := &tls.Config{InsecureSkipVerify: true}
				h.Transport = &http.Transport{TLSClientConfig: anyName}
			}
			address, err := from.Address(other)
			if err != nil {
				return err
			}
			service := &client.Client{Address: address, HTTP: h}
			if err := from.Trust(service, ""); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthcheckTimeout)
			defer cancel()
			return askReady(ctx, service, cmd.OutOrStdout())
		},
	}
	from.AddAddress(c, "")
	c.Flags().Lookup("url").Usage = "address of the service; that of the configuration if left out"
	return c
}

// askReady prints the readiness of a service. It fails if it is not ready.
func askReady(ctx context.Context, c *client.Client, out io.Writer) error {
	r, err := c.Ready(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s does not answer within %v", c.Address.Host, healthcheckTimeout)
	}
	if err != nil {
		return remote.Explain(err)
	}
	fmt.Fprintln(out, string(r.JSON))
	if r.Status != "ready" {
		return fmt.Errorf("not ready: %s", r.Status)
	}
	return nil
}
