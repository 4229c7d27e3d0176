package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/http/credentials"
)

func accountCommand(s *service.Settings) *cobra.Command {
	account := &cobra.Command{Use: "account", Short: "Create, list and change accounts"}
	account.AddCommand(accountCreate(s), accountList(s), accountSetPassword(s), accountUnlock(s), accountDelete(s))
	return account
}

// accountJSON is an account as it is printed: the form of GET /v1/account.
type accountJSON struct {
	AccountID signal.AccountID `json:"account_id"`
	Email     string           `json:"email"`
	CreatedAt string           `json:"created_at"`
}

func accountForm(a credential.Account) accountJSON {
	return accountJSON{a.ID, a.Email, a.CreatedAt.UTC().Format(signal.TimeLayout)}
}

// passwordRule says in helps which passwords are allowed.
var passwordRule = fmt.Sprintf(", %d to %d characters", credentials.MinPassword, credentials.MaxPassword)

func emailFlag(c *cobra.Command, email *string) {
	c.Flags().StringVar(email, "email", "", "the account's email")
	c.MarkFlagRequired("email")
}

func accountCreate(s *service.Settings) *cobra.Command {
	var email string
	var password command.PasswordFlags
	c := &cobra.Command{
		Use: "create", Short: "Create an account and print it as JSON", Args: cobra.NoArgs,
		Example: "  agentsignal account create --email me@example.com",
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret, err := password.Read(cmd)
			if err != nil {
				return err
			}
			return withCredentials(cmd.Context(), s, service.WithNewCredentials,
				func(ctx context.Context, c *credentials.Service) error {
					a, err := c.Accounts.CreateAccount(ctx, email, secret)
					if signal.KindOf(err) == signal.KindConflict {
						return fmt.Errorf("%w: agentsignal account set-password --email %s sets its password, and "+
							"agentsignal key create --email %[2]s --name NAME makes a key", err, email)
					}
					if err != nil {
						return err
					}
					return command.PrintJSON(cmd.OutOrStdout(), accountForm(a))
				})
		},
	}
	emailFlag(c, &email)
	password.Add(c, passwordRule)
	return c
}

func accountList(s *service.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Print all accounts as JSON", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withCredentials(cmd.Context(), s, service.WithCredentials,
				func(ctx context.Context, c *credentials.Service) error {
					all := []accountJSON{}
					const page = 1000
					for {
						accounts, total, err := c.Accounts.List(ctx, page, len(all))
						if err != nil {
							return err
						}
						for _, a := range accounts {
							all = append(all, accountForm(a))
						}
						if len(accounts) == 0 || len(all) >= total {
							return command.PrintJSON(cmd.OutOrStdout(), all)
						}
					}
				})
		},
	}
}

// withCredentials runs f with the accounts and keys that open gives for the configuration.
func withCredentials(
	ctx context.Context, s *service.Settings,
	open func(context.Context, configs.Config, func(context.Context, *credentials.Service) error) error,
	f func(context.Context, *credentials.Service) error,
) error {
	c, err := s.Load()
	if err != nil {
		return err
	}
	return open(ctx, c, f)
}

// withAccount runs f with the account that has the email.
func withAccount(
	ctx context.Context,
	s *service.Settings,
	email string,
	f func(context.Context, *credentials.Service, credential.Account) error,
) error {
	return withCredentials(ctx, s, service.WithCredentials, func(ctx context.Context, c *credentials.Service) error {
		a, err := c.Accounts.AccountByEmail(ctx, email)
		if signal.KindOf(err) == signal.KindNotFound {
			return fmt.Errorf("no account has the email %s: agentsignal account list shows all, and "+
				"agentsignal account create --email %[1]s makes one", email)
		}
		if err != nil {
			return err
		}
		return f(ctx, c, a)
	})
}

func accountSetPassword(s *service.Settings) *cobra.Command {
	var email string
	var password command.PasswordFlags
	c := &cobra.Command{
		Use: "set-password", Short: "Set an account's password; all its sessions end", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret, err := password.Read(cmd)
			if err != nil {
				return err
			}
			return withAccount(cmd.Context(), s, email,
				func(ctx context.Context, c *credentials.Service, a credential.Account) error {
					return c.Accounts.SetPassword(ctx, a.ID, secret)
				})
		},
	}
	emailFlag(c, &email)
	password.Add(c, passwordRule)
	return c
}

func accountUnlock(s *service.Settings) *cobra.Command {
	var email string
	c := &cobra.Command{
		Use: "unlock", Short: "Let an email log in again after too many failed logins", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withCredentials(cmd.Context(), s, service.WithCredentials,
				func(ctx context.Context, c *credentials.Service) error {
					return c.Locks.Unlock(ctx, email)
				})
		},
	}
	emailFlag(c, &email)
	return c
}

func accountDelete(s *service.Settings) *cobra.Command {
	var email string
	var sure bool
	c := &cobra.Command{
		Use: "delete", Short: "Delete an account with all that it has", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !sure {
				return errors.New("this deletes the account's signals, jobs and keys for good: add --yes to do it")
			}
			return withAccount(cmd.Context(), s, email,
				func(ctx context.Context, c *credentials.Service, a credential.Account) error {
					return c.Accounts.DeleteAccount(ctx, a.ID)
				})
		},
	}
	emailFlag(c, &email)
	c.Flags().BoolVar(&sure, "yes", false, "delete for good")
	return c
}
