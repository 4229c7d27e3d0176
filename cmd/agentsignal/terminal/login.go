package terminal

import (
	"bufio"
	"cmp"
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

// signIn are the flags by which a command signs in as a person does: for what an API key may not do.
type signIn struct {
	from           remote.Flags
	password       command.PasswordFlags
	email, profile string
}

// signInHelp is the part of the help of a command that signs in.
const signInHelp = "An API key may not do this: it takes the email and the password of the account. The address and the email\n" +
	"are those of the profile if they are left out. The password is not kept, and the session ends."

// add adds the flags.
func (s *signIn) add(c *cobra.Command) {
	s.from.AddAddress(c, "")
	c.Flags().StringVar(&s.email, "email", "", "the account's email")
	c.Flags().StringVar(&s.profile, "profile", remote.DefaultProfile, "name of the profile")
	s.password.Add(c, "")
}

// as calls do with a client whose key is an access token.
func (s *signIn) as(cmd *cobra.Command, do func(user *client.Client) error) error {
	public, account, err := s.account(cmd)
	if err != nil {
		return err
	}
	password, err := s.password.Read(cmd)
	if err != nil {
		return err
	}
	return inSession(cmd, public, account.Email, password, do)
}

// account returns a client without a key, and what is kept of a service in a profile: the address, the authorities and the
// email.
func (s *signIn) account(cmd *cobra.Command) (public *client.Client, account *remote.Profile, err error) {
	if _, err := remote.ProfilePath(s.profile); err != nil {
		return nil, nil, err
	}
	kept := &remote.Profile{}
	if before, err := remote.ReadProfile(s.profile); err == nil {
		kept = before
	}
	address, err := s.from.Address(kept.URL)
	if err != nil {
		return nil, nil, err
	}
	account = &remote.Profile{URL: address.String(), Email: s.email}
	if account.Authorities, err = s.from.Authorities(); err != nil {
		return nil, nil, err
	}
	if account.URL == kept.URL {
		account.Authorities = cmp.Or(account.Authorities, kept.Authorities)
		account.Email = cmp.Or(account.Email, kept.Email)
	}
	public = client.New(address, "")
	if err := s.from.Trust(public, account.Authorities); err != nil {
		return nil, nil, err
	}
	if account.Email == "" {
		account.Email, err = askEmail(cmd)
	}
	return public, account, err
}

// inSession calls do with a client whose key is the access token of a session that ends with it.
func inSession(
	cmd *cobra.Command, public *client.Client, email, password string, do func(user *client.Client) error,
) error {
	s, err := public.Login(cmd.Context(), email, password)
	if err != nil {
		return remote.Explain(err)
	}
	user := public.With(s.AccessToken)
	return errors.Join(do(user), remote.Explain(user.Logout(cmd.Context())))
}

func loginCommand() *cobra.Command {
	var s signIn
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
			public, made, err := s.account(cmd)
			if err != nil {
				return err
			}
			password, err := s.password.Read(cmd)
			if err != nil {
				return err
			}
			return inSession(cmd, public, made.Email, password, func(user *client.Client) error {
				return keepKey(cmd, user, made, s.profile, scopes)
			})
		},
	}
	s.add(c)
	c.Flags().StringSliceVar(&scopes, "scopes", nil, "scopes of the key; all if left out")
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

// keepKey makes a key and writes the profile, which lacks only that.
func keepKey(cmd *cobra.Command, user *client.Client, profile *remote.Profile, name string, scopes []string) error {
	ctx := cmd.Context()
	before, beforeErr := remote.ReadProfile(name)
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
