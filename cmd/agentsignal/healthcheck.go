package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/configs"
)

// healthcheckTimeout bounds the question: /readyz itself answers within a second.
const healthcheckTimeout = 3 * time.Second

func healthcheckCommand(s *settings) *cobra.Command {
	url := ""
	c := &cobra.Command{
		Use: "healthcheck", Short: "Ask a running service whether it is ready", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := http.DefaultClient
			if url == "" {
				c, err := s.load()
				if err != nil {
					return err
				}
				url = localURL(c.HTTP.Addr, c.TLS) + "/readyz"
				// The certificate is for the names that clients use, and no secret is told.
				client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthcheckTimeout)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return fmt.Errorf("--url: %w", err)
			}
			w, err := client.Do(r)
			if err != nil {
				return err
			}
			defer w.Body.Close()
			body, err := io.ReadAll(io.LimitReader(w.Body, 1<<16))
			if err != nil {
				return fmt.Errorf("read answer: %w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), string(body))
			if w.StatusCode != http.StatusOK {
				return fmt.Errorf("not ready: %s", w.Status)
			}
			return nil
		},
	}
	c.Flags().StringVar(&url, "url", "", "address of the service's /readyz; that of the configuration if left out")
	return c
}

// localURL returns where a service that listens at addr, host:port, answers on this
// machine.
func localURL(addr string, c configs.TLS) string {
	scheme := "http"
	if c.CertFile != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(addr) // bound, or checked by Load
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
