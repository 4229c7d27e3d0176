package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// mailServer is a real SMTP server that keeps the mails it accepts.
type mailServer struct {
	url  string // without scheme: "127.0.0.1:12345"
	tls  *tls.Config
	mu   sync.Mutex
	got  []received
	fail error // of every recipient, or nil
}

// received is a mail that a mailServer has accepted.
type received struct {
	from string
	to   []string
	data string
	user string
	tls  bool
}

// mailSession is one connection to a mailServer.
type mailSession struct {
	s    *mailServer
	conn *smtp.Conn
	mail received
}

func (m *mailSession) Reset() { m.mail = received{user: m.mail.user} }

func (m *mailSession) Logout() error { return nil }

func (m *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	m.mail.from = from
	return nil
}

func (m *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.mail.to = append(m.mail.to, to)
	return m.s.fail
}

func (m *mailSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	_, secure := m.conn.TLSConnectionState()
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.mail.data, m.mail.tls = string(data), secure
	m.s.got = append(m.s.got, m.mail)
	return nil
}

func (m *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (m *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "signals" || password != "p@ss:word" {
			return errors.New("wrong password")
		}
		m.mail.user = user
		return nil
	}), nil
}

// security is the protection of a mailServer.
type security int

const (
	starttls   security = iota
	tlsAtOnce           // as smtps
	withoutTLS          // and without login
	lax                 // without TLS, and with login
)

func newMailServer(t *testing.T, kind security) *mailServer {
	t.Helper()
	local := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1
	local.Close()
	cert := local.TLS.Certificates[0]
	pool := x509.NewCertPool()
	pool.AddCert(local.Certificate())
	m := &mailServer{tls: &tls.Config{RootCAs: pool}}
	session := func(c *smtp.Conn) (smtp.Session, error) { return &mailSession{s: m, conn: c}, nil }
	server := smtp.NewServer(smtp.BackendFunc(session))
	server.Domain = "localhost"
	server.ErrorLog = log.New(io.Discard, "", 0)
	server.ReadTimeout, server.WriteTimeout = 5*time.Second, 5*time.Second
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.url = l.Addr().String()
	switch config := (&tls.Config{Certificates: []tls.Certificate{cert}}); kind {
	case starttls:
		server.TLSConfig = config
	case tlsAtOnce:
		l = tls.NewListener(l, config)
	case lax:
		server.AllowInsecureAuth = true
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return m
}

// smtp returns an SMTP for the server.
func (m *mailServer) smtp(t *testing.T) *SMTP {
	t.Helper()
	s, err := NewSMTP("smtp://"+m.url, "signals@example.org", Options{TLS: m.tls})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mails returns the accepted mails.
func (m *mailServer) mails() []received {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.got
}

var aMail = Message{
	ID:      "m1",
	To:      "ann@example.com",
	Subject: "Your webhook is failing",
	Text:    "One.\n.\nThree: é\n",
	At:      writtenAt,
}

func TestSendMail(t *testing.T) {
	t.Parallel()
	const login = "signals:p%40ss%3Aword@"
	for _, tt := range []struct {
		name   string
		server security
		url    string // before the address
		known  bool   // the server's certificate
		user   string
		tls    bool
		fails  bool
	}{
		{"STARTTLS and login", starttls, "smtp://" + login, true, "signals", true, false},
		{"STARTTLS without login", starttls, "smtp://", true, "", true, false},
		{"TLS from the beginning and login", tlsAtOnce, "smtps://" + login, true, "signals", true, false},
		{"a server without TLS", withoutTLS, "smtp://", false, "", false, false},
		{"a wrong password", starttls, "smtp://signals:wrong@", true, "", false, true},
		{"an unknown certificate", starttls, "smtp://" + login, false, "", false, true},
		{"a login that would reveal the password", lax, "smtp://" + login, false, "", false, true},
		{"TLS to a server without it", withoutTLS, "smtps://", true, "", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMailServer(t, tt.server)
			o := Options{Timeout: 5 * time.Second}
			if tt.known {
				o.TLS = m.tls
			}
			s, err := NewSMTP(tt.url+m.url, "Signals <signals@example.org>", o)
			if err != nil {
				t.Fatal(err)
			}
			c, checked := s.Check(t.Context())
			if (checked != nil) != tt.fails || len(m.mails()) != 0 || c.Address != m.url {
				t.Errorf("the check found %+v, %v, and sent %d mails", c, checked, len(m.mails()))
			}
			if checked == nil && (strings.HasPrefix(c.TLS, "TLS 1.") != tt.tls || c.Login != (tt.user != "")) {
				t.Errorf("the check found %+v", c)
			}
			if checked != nil && strings.Contains(checked.Error(), "p@ss") {
				t.Errorf("the error shows the password: %v", checked)
			}
			err = s.Send(t.Context(), aMail)
			got := m.mails()
			if tt.fails {
				if err == nil || len(got) != 0 {
					t.Fatalf("error %v, %d mails", err, len(got))
				}
				if strings.Contains(err.Error(), "p@ss") || strings.Contains(err.Error(), "p%40ss") {
					t.Errorf("the error shows the password: %v", err)
				}
				return
			}
			if err != nil || len(got) != 1 {
				t.Fatalf("error %v, %d mails", err, len(got))
			}
			g := got[0]
			if g.from != "signals@example.org" || !slices.Equal(g.to, []string{"ann@example.com"}) ||
				g.user != tt.user || g.tls != tt.tls {
				t.Errorf("got %+v", g)
			}
			head, text := readMail(t, g.data)
			want := map[string]string{
				"From":           `"Signals" <signals@example.org>`,
				"To":             "<ann@example.com>",
				"Subject":        aMail.Subject,
				"Message-Id":     "<m1@example.org>",
				"Auto-Submitted": "auto-generated",
				"Date":           "Sat, 21 Nov 2026 09:30:00 +0000",
			}
			for k, v := range want {
				if head.Get(k) != v {
					t.Errorf("%s: %q, want %q", k, head.Get(k), v)
				}
			}
			if text != aMail.Text {
				t.Errorf("text %q, want %q", text, aMail.Text)
			}
		})
	}
}

// readMail splits a mail into its headers and its text.
func readMail(t *testing.T, data string) (mail.Header, string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if m.Header.Get("Content-Transfer-Encoding") != "quoted-printable" {
		t.Errorf("encoding %q", m.Header.Get("Content-Transfer-Encoding"))
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	return m.Header, strings.ReplaceAll(string(text), "\r\n", "\n")
}

func TestAServerThatRefuses(t *testing.T) {
	t.Parallel()
	m := newMailServer(t, starttls)
	m.fail = &smtp.SMTPError{Code: 550, Message: "no such mailbox"}
	if err := m.smtp(t).Send(t.Context(), aMail); err == nil || len(m.mails()) != 0 {
		t.Errorf("error %v, %d mails", err, len(m.mails()))
	}
}

func TestAMailServerThatHangs(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, and nothing answers them
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	brief := Options{Timeout: 200 * time.Millisecond}
	s, err := NewSMTP("smtp://"+silent.Addr().String(), "signals@example.org", brief)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Send(ctx, aMail); err == nil || ctx.Err() != nil {
		t.Errorf("error %v, context %v", err, ctx.Err())
	}
}

func TestBadSMTPSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, from string }{
		{"", "a@example.org"},
		{"mail.example.org:25", "a@example.org"},
		{"http://mail.example.org", "a@example.org"},
		{"smtp://", "a@example.org"},
		{"smtp:mail.example.org", "a@example.org"},
		{"smtp://user:secret@mail.example.org:0", "a@example.org"},
		{"smtp://user:secret@mail.example.org:70000", "a@example.org"},
		{"smtp://user:secret@mail.exa mple.org", "a@example.org"},
		{"smtp://mail.example.org", ""},
		{"smtp://mail.example.org", "nobody"},
		{"smtp://mail.example.org", "a@example.org\r\nBcc: b@example.org"},
	} {
		_, err := NewSMTP(tt.url, tt.from, Options{})
		if err == nil {
			t.Errorf("%q from %q: no error", tt.url, tt.from)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// Values from outside cannot add a header, a recipient or a line of ours.
func TestNothingIsInjectedIntoMails(t *testing.T) {
	t.Parallel()
	m := newMailServer(t, starttls)
	s := m.smtp(t)
	const evil = "x\r\nBcc: eve@example.net\r\n.\r\nMAIL FROM:<eve@example.net>\n\u2028  Last error:     none\x00\x7f"
	of := delivery.Mail{ID: "1", Webhook: "whk_1", URL: "https://example.com/" + evil, Error: evil, At: writtenAt}
	of.Since = writtenAt.Add(-time.Hour)
	kinds := []delivery.MailKind{
		delivery.MailWebhookFailing, delivery.MailWebhookDisabled, delivery.MailWebhookRecovered, "another",
	}
	for _, of.Kind = range kinds {
		if err := s.Send(t.Context(), Compose(&of, "ann@example.com")); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range m.mails() {
		head, text := readMail(t, g.data)
		if len(head["Bcc"]) != 0 || len(g.to) != 1 || g.from != "signals@example.org" {
			t.Errorf("got %+v", g)
		}
		for line := range strings.Lines(text) {
			for _, prefix := range []string{"Bcc", ".", "  Last error:     none"} {
				if strings.HasPrefix(line, prefix) {
					t.Errorf("the text has the line %q", line)
				}
			}
		}
		if strings.ContainsAny(text, "\x00\x7f\u2028") {
			t.Errorf("text %q", text)
		}
	}
	if n := len(m.mails()); n != 4 {
		t.Errorf("%d mails, want 4", n)
	}
	for _, to := range []string{
		"ann@example.com\r\nBcc: eve@example.net", "ann@example.com>\r\nRCPT TO:<eve@example.net",
		"ann@example.com, eve@example.net", "", "nobody",
	} {
		if err := s.Send(t.Context(), Message{To: to, Subject: "s", Text: "t", At: writtenAt}); err == nil {
			t.Errorf("a mail to %q is sent", to)
		}
	}
	l := aMail
	l.Subject, l.ID = "s\r\nBcc: eve@example.net", "i\r\nBcc: eve@example.net"
	if err := s.Send(t.Context(), l); err == nil {
		all := m.mails()
		if head, _ := readMail(t, all[len(all)-1].data); len(head["Bcc"]) != 0 {
			t.Errorf("headers %v", head)
		}
	}
}
