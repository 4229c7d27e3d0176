package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// The defaults of a Client, for one that a person waits for.
const (
	DefaultAttempts = 5
	DefaultMaxPause = 15 * time.Second
)

// Client sends requests to one service with one credential. Its fields are set before the first
// request; it may then be used from many goroutines.
type Client struct {
	Address *url.URL // of the service, see ParseAddress
	Key     string   // an API key or an access token; without one, requests carry none
	KeyFrom string   // where the key is from, for messages; may be empty

	Attempts int           // of one request at most; default DefaultAttempts
	MaxPause time.Duration // between two attempts; if the service asks for more, it is the last. Default DefaultMaxPause
	// HTTP sends the requests; by default one that does not follow redirects: a body may hold a secret.
	HTTP *http.Client
	// Sleep waits before a retry and reports false if ctx ends first; default backoff.Sleep.
	Sleep func(ctx context.Context, d time.Duration) bool

	dialer   *websocket.Dialer // of streams; nil: the default
	answered atomic.Bool       // the service has answered
}

// New returns a client of the service at address with a credential, which may be empty.
func New(address *url.URL, key string) *Client { return &Client{Address: address, Key: key} }

// defaultHTTP does not follow redirects.
var defaultHTTP = &http.Client{CheckRedirect: noRedirects}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Trust makes the client accept certificates of the authorities, and of no others. It is called before the first
// request, and replaces HTTP.
func (c *Client) Trust(authorities *x509.CertPool) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: authorities}
	c.HTTP = &http.Client{Transport: transport, CheckRedirect: noRedirects}
	dialer := *websocket.DefaultDialer
	dialer.TLSClientConfig = &tls.Config{RootCAs: authorities}
	c.dialer = &dialer
}

// With returns a client of the same service with another credential.
func (c *Client) With(key string) *Client {
	return &Client{Address: c.Address, Key: key, Attempts: c.Attempts, MaxPause: c.MaxPause, HTTP: c.HTTP, Sleep: c.Sleep,
		dialer: c.dialer}
}

// Get returns the body of the answer to GET path, which may have a query.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	return (&request{client: c, method: http.MethodGet, path: path}).do(ctx)
}
