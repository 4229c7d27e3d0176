package service

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/configs"
)

// certificate is the server's certificate, which can be reloaded.
type certificate struct {
	current atomic.Pointer[tls.Certificate]
	expiry  prometheus.Gauge
}

// loadCertificate reads the configured certificate, or returns nil without TLS.
func loadCertificate(c configs.TLS, r prometheus.Registerer) (*certificate, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	k := &certificate{expiry: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "agentsignal_tls_certificate_expiry_timestamp_seconds",
		Help: "When the certificate of the listener expires, in seconds since 1970.",
	})}
	r.MustRegister(k.expiry)
	return k, k.load(c)
}

// ReadCertificate returns the configured certificate with its key.
func ReadCertificate(c configs.TLS) (tls.Certificate, error) {
	key, err := configs.ReadSecretFile(c.KeyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls.key_file: %w", err)
	}
	chain, err := os.ReadFile(c.CertFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls.cert_file: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls: %w", err)
	}
	return pair, nil
}

// load reads the certificate from its files.
func (k *certificate) load(c configs.TLS) error {
	if k == nil {
		return nil
	}
	pair, err := ReadCertificate(c)
	if err != nil {
		return err
	}
	k.current.Store(&pair)
	k.expiry.Set(float64(pair.Leaf.NotAfter.Unix()))
	return nil
}

// config returns the configuration of the listener, or nil without TLS.
func (k *certificate) config() *tls.Config {
	if k == nil {
		return nil
	}
	current := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.current.Load(), nil }
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: current}
}
