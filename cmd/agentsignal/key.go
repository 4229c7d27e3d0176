package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/request"
)

func keyCommand(s *service.Settings) *cobra.Command {
	key := &cobra.Command{Use: "key", Short: "Create, list and revoke API keys"}
	key.AddCommand(keyCreate(s), keyList(s), keyRevoke(s))
	return key
}

// keyJSON is an API key as it is printed: the form of POST /v1/auth/api-key.
type keyJSON struct {
	KeyID     signal.KeyID   `json:"key_id"`
	APIKey    string         `json:"api_key,omitempty"`
	Name      string         `json:"name"`
	Scopes    []signal.Scope `json:"scopes"`
	CreatedAt string         `json:"created_at"`
	ExpiresAt *string        `json:"expires_at"`
	// These are of readers only.
	View           *signal.View `json:"view,omitempty"`
	MaxConnections int          `json:"max_connections,omitempty"`
}

func keyForm(k credential.APIKey, secret string) keyJSON {
	j := keyJSON{KeyID: k.ID, APIKey: secret, Name: k.Name, Scopes: k.Scopes.List(),
		CreatedAt: k.CreatedAt.UTC().Format(signal.TimeLayout), View: k.View, MaxConnections: k.MaxConnections}
	if !k.ExpiresAt.IsZero() {
		at := k.ExpiresAt.UTC().Format(signal.TimeLayout)
		j.ExpiresAt = &at
	}
	return j
}

func keyCreate(s *service.Settings) *cobra.Command {
	var email, name string
	var scopes []string
	var expires int64
	c := &cobra.Command{
		Use: "create", Short: "Create an API key and print it as JSON, its secret this once", Args: cobra.NoArgs,
		Example: "  agentsignal key create --email me@example.com --name laptop --scopes signals:read,agents:read",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAccount(cmd.Context(), s, email,
				func(ctx context.Context, c *credentials.Service, a credential.Account) error {
					var in *int64
					if cmd.Flags().Changed("expires-in") {
						in = &expires
					}
					k, secret, err := c.Keys.CreateKey(ctx, a.ID, name, scopes, in)
					if err != nil {
						return err
					}
					return command.PrintJSON(cmd.OutOrStdout(), keyForm(k, secret))
				})
		},
	}
	emailFlag(c, &email)
	c.Flags().StringVar(&name, "name", "", "the key's name, unique in the account")
	c.Flags().StringSliceVar(&scopes, "scopes", nil,
		request.Joined(signal.Scopes)+"; all if left out")
	c.Flags().Int64Var(&expires, "expires-in", 0, "seconds until it expires; never if left out")
	c.MarkFlagRequired("name")
	return c
}

func keyList(s *service.Settings) *cobra.Command {
	var email string
	var readers bool
	c := &cobra.Command{
		Use: "list", Short: "Print an account's API keys as JSON, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAccount(cmd.Context(), s, email,
				func(ctx context.Context, c *credentials.Service, a credential.Account) error {
					list := c.Keys.List
					if readers {
						list = c.Readers.ListReaders
					}
					keys, _, err := list(ctx, a.ID, math.MaxInt32, 0)
					if err != nil {
						return err
					}
					forms := []keyJSON{}
					for _, k := range keys {
						forms = append(forms, keyForm(k, ""))
					}
					return command.PrintJSON(cmd.OutOrStdout(), forms)
				})
		},
	}
	emailFlag(c, &email)
	c.Flags().BoolVar(&readers, "readers", false, "those with a view, instead of the others")
	return c
}

func keyRevoke(s *service.Settings) *cobra.Command {
	var email string
	c := &cobra.Command{
		Use: "revoke KEY_ID", Short: "Revoke an API key", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, ok := signal.ParseKeyID(args[0])
			if !ok {
				return errors.New("not a key_id: see agentsignal key list")
			}
			return withAccount(cmd.Context(), s, email,
				func(ctx context.Context, c *credentials.Service, a credential.Account) error {
					err := c.Keys.RevokeKey(ctx, a.ID, id)
					if signal.KindOf(err) == signal.KindNotFound {
						return fmt.Errorf("the account has no key %s: see agentsignal key list", id)
					}
					return err
				})
		},
	}
	emailFlag(c, &email)
	return c
}
