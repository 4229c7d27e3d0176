package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthcheckTimeout bounds the question: /readyz itself answers within a second.
const healthcheckTimeout = 3 * time.Second

func healthcheckCommand() *cobra.Command {
	url := ""
	c := &cobra.Command{
		Use: "healthcheck", Short: "Ask a running service whether it is ready", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), healthcheckTimeout)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return fmt.Errorf("--url: %w", err)
			}
			w, err := http.DefaultClient.Do(r)
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
	c.Flags().StringVar(&url, "url", "http://localhost:8080/readyz", "address of the service's /readyz")
	return c
}
