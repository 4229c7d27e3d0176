package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

func loginCommand() *cobra.Command {
	var from remote.Flags
	var password command.PasswordFlags
	var email, profile string
	var scopes []string
	c := &cobra.Command{
		Use: "login", Short: "Make an API key and keep it with the address in a profile", Args: cobra.NoArgs,
		Long: "Make an API key by the email and the password of an account, and keep it with the address of the\n" +
			"service in a profile, a file that others cannot read. Commands use the profile\n" +
			"\"" + remote.DefaultProfile + "\" by themselves and others by --profile. The password is not kept, and the\n" +
			"session ends. The key of a profile that is there before is revoked, if it is of the same service.",
		Example: "  agentsignal login --url https://signals.example.com --email me@example.com\n" +
			"  agentsignal login --email me@example.com --password-stdin --profile home < password.txt",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := remote.ProfilePath(profile); err != nil {
				return err
			}
			kept := &remote.Profile{}
			if before, err := remote.ReadProfile(profile); err == nil {
				kept = before
			}
			address, err := from.Address(kept.URL)
			if err != nil {
				return err
			}
			made := &remote.Profile{URL: address.String()}
			if made.Authorities, err = from.Authorities(); err != nil {
				return err
			}
			if made.Authorities == "" && made.URL == kept.URL {
				made.Authorities = kept.Authorities
			}
			public := client.New(address, "")
			if err := from.Trust(public, made.Authorities); err != nil {
				return err
			}
			if email == "" {
				if email, err = askEmail(cmd); err != nil {
					return err
				}
			}
			secret, err := password.Read(cmd)
			if err != nil {
				return err
			}
			made.Email = email
			return logIn(cmd, public, made, secret, profile, scopes)
		},
	}
	from.AddAddress(c, "")
	c.Flags().StringVar(&email, "email", "", "the account's email")
	c.Flags().StringVar(&profile, "profile", remote.DefaultProfile, "name of the profile")
	c.Flags().StringSliceVar(&scopes, "scopes", nil, "scopes of the key; all if left out")
	password.Add(c, "")
	return c
}

// askEmail reads an email from the terminal.
func askEmail(cmd *cobra.Command) (string, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", errors.New("give --email (the account's email)")
	}
	fmt.Fprint(cmd.ErrOrStderr(), "Email: ")
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read email: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// logIn makes a key and writes the profile, which lacks only that.
func logIn(
	cmd *cobra.Command, public *client.Client, profile *remote.Profile, password, name string, scopes []string,
) (err error) {
	ctx := cmd.Context()
	before, beforeErr := remote.ReadProfile(name)
	s, err := public.Login(ctx, profile.Email, password)
	if err != nil {
		return remote.Explain(err)
	}
	user := public.With(s.AccessToken)
	defer func() { err = errors.Join(err, remote.Explain(user.Logout(ctx))) }()
	host, _ := os.Hostname()
	key, err := user.CreateKey(ctx, client.NewAPIKey{Scopes: scopes,
		Name: strings.TrimSpace(fmt.Sprintf("%.60s %s", host, time.Now().UTC().Format("2006-01-02 15:04:05.000")))})
	if err != nil {
		return remote.Explain(err)
	}
	profile.KeyID, profile.Key = key.ID, key.Secret
	path, err := profile.Save(name)
	if err != nil { // the secret would be lost
		return errors.Join(err, remote.Explain(user.RevokeKey(ctx, key.ID)))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "agentsignal: the profile %s is kept in %s\n", name, path)
	if beforeErr == nil && before.URL == profile.URL && before.KeyID != "" {
		// Of another account it is not found.
		if err := user.RevokeKey(ctx, before.KeyID); err != nil {
			if p, ok := errors.AsType[*client.Problem](err); !ok || p.Code != "not_found" {
				return fmt.Errorf("revoke the key before: %w", remote.Explain(err))
			}
		}
	}
	return nil
}
