// Package receive is agentsignal webhook: a local receiver, which verifies, prints, forwards
// and saves deliveries and registers itself with a service, and the verification of a saved
// delivery, which explains what does not fit.
package receive

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
)

// Command returns agentsignal webhook. dataDir returns the data directory of the service on this machine,
// which may have a key.
func Command(dataDir func() (string, error)) *cobra.Command {
	c := &cobra.Command{Use: "webhook", Short: "Receive deliveries here, or verify a saved one"}
	c.AddCommand(webhookListen(dataDir), webhookVerify())
	return c
}

// secretVariable is the environment variable with the secret, used without a flag.
const secretVariable = "AGENTSIGNAL_WEBHOOK_SECRET"

// secretFlags are the flags that give the secrets of a webhook.
type secretFlags struct{ texts, files []string }

func (f *secretFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.texts, "secret", nil,
		"secret of the webhook; others on this machine can see it; again for another one during a rotation")
	c.Flags().StringArrayVar(&f.files, "secret-file", nil,
		"file with a secret, - for standard input; may be given again. Without one of the two: "+secretVariable)
}

// read returns the secrets of flags, then those of files, or else that of the variable. It
// returns none without an error if none is given.
func (f *secretFlags) read(cmd *cobra.Command) ([]string, error) {
	if len(f.texts) > 0 {
		command.WarnVisible(cmd, "--secret", "--secret-file or "+secretVariable)
	}
	secrets := append([]string(nil), f.texts...)
	for _, name := range f.files {
		text, err := command.ReadSecret(cmd, name)
		if err != nil {
			return nil, fmt.Errorf("--secret-file: %w", err)
		}
		secrets = append(secrets, text)
	}
	if v := os.Getenv(secretVariable); len(secrets) == 0 && v != "" {
		secrets = append(secrets, v)
	}
	for i, s := range secrets {
		if n := utf8.RuneCountInString(s); n < 1 || n > delivery.MaxWebhookSecret {
			const rule = "secret %d has %d characters: 1 to %d are allowed"
			return nil, fmt.Errorf(rule, i+1, n, delivery.MaxWebhookSecret)
		}
	}
	return secrets, nil
}

// errNoSecret is the error of a verification without a secret.
var errNoSecret = errors.New("give the secret of the webhook by --secret-file or " + secretVariable)

// verifyBy returns the index of the first secret that a delivery was signed with, or else
// the most informative error of signature.Verify.
func verifyBy(secrets []string, h http.Header, body []byte, now time.Time) (int, error) {
	var why error
	for i, secret := range secrets {
		err := signature.Verify(secret, h, body, now)
		if err == nil {
			return i, nil
		}
		if why == nil || errors.Is(err, signature.ErrBadTime) {
			why = err
		}
	}
	return -1, cmp.Or(why, errNoSecret)
}
