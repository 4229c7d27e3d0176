package sender

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
)

// maxTLSSessions is the number of TLS sessions kept for resumption, one for each host.
const maxTLSSessions = 1024

// dialer makes the connections of a Sender. The guard refuses more addresses to those
// without TLS, so they have a net.Dialer of their own.
type dialer struct {
	plain, secure net.Dialer
	tls           *tls.Config
	timeout       time.Duration
}

func newDialer(o Options) *dialer {
	g := o.Guard
	if g == nil {
		g = guard.New(guard.Options{})
	}
	return &dialer{
		plain:  net.Dialer{Control: recovering(o.Log, g.ControlPlain), Resolver: o.Resolver},
		secure: net.Dialer{Control: recovering(o.Log, g.Control), Resolver: o.Resolver},
		tls: &tls.Config{
			RootCAs:            o.RootCAs,
			MinVersion:         tls.VersionTLS12,
			NextProtos:         []string{"http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(maxTLSSessions),
		},
		timeout: cmp.Or(o.ConnectTimeout, 5*time.Second),
	}
}

// dialControl is net.Dialer.Control.
type dialControl = func(network, address string, c syscall.RawConn) error

// recovering wraps control, which a dialer may call on a goroutine of its own. An address
// at which it panics is refused.
func recovering(log *slog.Logger, control dialControl) dialControl {
	return func(network, address string, c syscall.RawConn) error {
		err := panics.ErrPanicked
		panics.Guard(log, panics.Webhooks, func() { err = control(network, address, c) }, "address", address)
		return err
	}
}

// tlsError is a failed TLS handshake, except for a timeout.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return "make TLS handshake: " + e.err.Error() }

func (e *tlsError) Unwrap() error { return e.err }

func (d *dialer) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.plain.DialContext(ctx, network, address)
}

// dialTLS returns a connection whose handshake is complete.
func (d *dialer) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	raw, err := d.secure.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := d.tls.Clone()
	config.ServerName = host
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &tlsError{err}
	}
	return conn, nil
}
