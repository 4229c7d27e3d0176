// Package mail writes the mails to owners of webhooks, and sends them by SMTP.
package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// The default ports of smtp and smtps: with a login that for the submission of mail, else
// that of a relay.
const (
	portRelay  = 25
	portSubmit = 587
	portTLS    = 465
)

// Options are the settings of an SMTP.
type Options struct {
	Timeout time.Duration // of one mail; default 20 s
	TLS     *tls.Config   // nil for the default
}

// SMTP sends mails by a server, with a connection for each. It is safe for concurrent use.
type SMTP struct {
	host    string
	options []gomail.Option
	from    string
	login   bool // with a user and a password
	timeout time.Duration
}

// NewSMTP returns an SMTP for a server. smtp://HOST:PORT uses STARTTLS if the server offers
// it, smtps://HOST:PORT begins with TLS; USER:PASSWORD@ before the host logs in, by a
// method that does not reveal the password on an unencrypted connection. from is the
// sender's address. Errors do not contain the URL.
func NewSMTP(server, from string, o Options) (*SMTP, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return nil, errors.New("read SMTP URL: it is not of the form smtp://host:port or smtps://host:port")
	}
	s := &SMTP{host: u.Hostname(), from: from, timeout: cmp.Or(o.Timeout, 20*time.Second)}
	port := portRelay
	switch u.Scheme {
	case "smtp":
		if u.User != nil {
			port = portSubmit
		}
		s.options = append(s.options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	case "smtps":
		port = portTLS
		s.options = append(s.options, gomail.WithSSL())
	default:
		return nil, errors.New("read SMTP URL: the scheme must be smtp or smtps")
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil || port < 1 || port > 65_535 {
			return nil, errors.New("read SMTP URL: the port must be 1 to 65535")
		}
	}
	s.options = append(s.options, gomail.WithPort(port), gomail.WithTimeout(s.timeout), gomail.WithoutNoop())
	if o.TLS != nil {
		config := o.TLS.Clone()
		config.ServerName = cmp.Or(config.ServerName, s.host)
		s.options = append(s.options, gomail.WithTLSConfig(config))
	}
	if u.User != nil {
		s.login = true
		password, _ := u.User.Password()
		s.options = append(s.options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover),
			gomail.WithUsername(u.User.Username()), gomail.WithPassword(password))
	}
	if _, err := s.message(Message{To: from}); err != nil {
		return nil, fmt.Errorf("read sender of mails: %w", err)
	}
	if _, err := gomail.NewClient(s.host, s.options...); err != nil {
		return nil, fmt.Errorf("read settings of SMTP: %w", err)
	}
	return s, nil
}

// Send passes a mail to the server, within the timeout.
func (s *SMTP) Send(ctx context.Context, l Message) error {
	message, err := s.message(l)
	if err != nil {
		return err
	}
	client, err := gomail.NewClient(s.host, s.options...)
	if err != nil {
		return fmt.Errorf("prepare to send mail: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := client.DialAndSendWithContext(ctx, message); err != nil {
		return fmt.Errorf("send mail: %w", err)
	}
	return nil
}

// Connection is how an SMTP reached its server.
type Connection struct {
	Address string // host:port
	TLS     string // the version, such as "TLS 1.3"; empty without encryption
	Login   bool   // the server has accepted the user and the password
}

// Check connects to the server, with TLS and login as for a mail, and sends none. After an error the
// address is valid.
func (s *SMTP) Check(ctx context.Context) (Connection, error) {
	c := Connection{}
	client, err := gomail.NewClient(s.host, s.options...)
	if err != nil {
		return c, fmt.Errorf("prepare to send mail: %w", err)
	}
	c.Address = client.ServerAddr()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	connected, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return c, fmt.Errorf("connect to mail server: %w", err)
	}
	if state, encrypted := connected.TLSConnectionState(); encrypted {
		c.TLS = tls.VersionName(state.Version)
	}
	c.Login = s.login
	return c, client.CloseWithSMTPClient(connected)
}

func (s *SMTP) message(l Message) (*gomail.Msg, error) {
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := m.From(s.from); err != nil {
		return nil, fmt.Errorf("address mail: %w", err)
	}
	if err := m.To(l.To); err != nil {
		return nil, fmt.Errorf("address mail: %w", err)
	}
	m.Subject(l.Subject)
	m.SetDateWithValue(l.At)
	if l.ID != "" {
		// The same for all tries, so that mail programs show a duplicate once.
		m.SetMessageIDWithValue(l.ID + "@" + s.domainOf())
	}
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetBodyString(gomail.TypeTextPlain, l.Text)
	return m, nil
}

// domainOf returns the domain of the sender's address.
func (s *SMTP) domainOf() string {
	address := strings.TrimSuffix(s.from[strings.LastIndexByte(s.from, '@')+1:], ">")
	return cmp.Or(strings.TrimSpace(address), "localhost")
}
