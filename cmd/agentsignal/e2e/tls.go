package e2e

import (
	"crypto/tls"
	"crypto/x509"
)

// Trust makes the client use TLS and trust the certificate.
func (c *Client) Trust(certificate *x509.Certificate) *Client {
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	c.Base.TLSClientConfig = &tls.Config{RootCAs: pool}
	return c
}
