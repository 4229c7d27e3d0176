package credentials

import (
	"context"
	"log/slog"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Client is where a request came from, for the lines of the log about who used or
// changed which credential.
type Client struct {
	Address string
	Request string // its identifier, which the line about the request has too
}

type clientKey struct{}

// WithClient returns a context for the requests of a client.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// audit writes one line about a credential of an account. Neither attrs nor anything
// else in it may be a secret or an email; account is empty where it is not known.
func (s *Service) audit(ctx context.Context, level slog.Level, what string, account signal.AccountID,
	attrs ...slog.Attr) {
	line := make([]slog.Attr, 0, len(attrs)+3)
	if account != "" {
		line = append(line, slog.String("account", string(account)))
	}
	line = append(line, attrs...)
	if c, ok := ctx.Value(clientKey{}).(Client); ok {
		line = append(line, slog.String("address", c.Address), slog.String("request", c.Request))
	}
	s.log.LogAttrs(ctx, level, what, line...)
}

func sessionAttr(id signal.SessionID) slog.Attr { return slog.String("session", string(id)) }

func keyAttr(id signal.KeyID) slog.Attr { return slog.String("key", string(id)) }
