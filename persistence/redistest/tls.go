package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TLSFiles are the files of a TLS server on 127.0.0.1.
type TLSFiles struct{ CA, Cert, Key string }

// NewTLSFiles makes an authority of the test's own and a certificate that it signs.
func NewTLSFiles(t testing.TB) TLSFiles {
	t.Helper()
	dir := t.TempDir()
	f := TLSFiles{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	authority, key := newTLSKey(t), newTLSKey(t)
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: from, NotAfter: to,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	signed := func(file string, template *x509.Certificate, of *ecdsa.PrivateKey) {
		der, err := x509.CreateCertificate(rand.Reader, template, ca, &of.PublicKey, authority)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, file, "CERTIFICATE", der)
	}
	signed(f.CA, ca, authority)
	signed(f.Cert, server, key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, f.Key, "PRIVATE KEY", der)
	return f
}

func newTLSKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Args returns the arguments of a server that takes only TLS, on a port.
func (f TLSFiles) Args(port string) []string {
	return []string{"--tls-port", port, "--tls-cert-file", f.Cert, "--tls-key-file", f.Key, "--tls-ca-cert-file", f.CA,
		"--tls-auth-clients", "no", "--tls-replication", "yes", "--bind", "127.0.0.1"}
}
