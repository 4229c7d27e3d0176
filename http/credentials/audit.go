package credentials

import (
	"context"
	"log/slog"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Client is the origin of a request, for the log of uses and changes of credentials.
type Client struct {
	Address string
	Request string // the ID under which the request is logged
}

type clientKey struct{}

// WithClient returns a context for the requests of a client.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// auditLog logs uses and changes of credentials.
type auditLog struct{ log *slog.Logger }

// write logs a use or change of a credential. attrs must not hold secrets or emails. account
// is empty if it is unknown.
func (a auditLog) write(
	ctx context.Context, level slog.Level, what string, account signal.AccountID, attrs ...slog.Attr,
) {
	line := make([]slog.Attr, 0, len(attrs)+3)
	if account != "" {
		line = append(line, slog.String("account", string(account)))
	}
	line = append(line, attrs...)
	if c, ok := ctx.Value(clientKey{}).(Client); ok {
		line = append(line, slog.String("address", c.Address), slog.String("request", c.Request))
	}
	a.log.LogAttrs(ctx, level, what, line...)
}

func sessionAttr(id signal.SessionID) slog.Attr { return slog.String("session", string(id)) }

func keyAttr(id signal.KeyID) slog.Attr { return slog.String("key", string(id)) }
