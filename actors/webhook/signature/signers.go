package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"
)

// Signers sign by the secrets of a webhook, the newest first. They are safe for concurrent
// use.
type Signers []*signer

// NewSigners returns the signers of one or more secrets.
func NewSigners(secrets ...string) Signers {
	list := make(Signers, len(secrets))
	for i, s := range secrets {
		list[i] = newSigner(s)
	}
	return list
}

// Append adds the value of X-Service-Signature, signed by the newest secret.
func (s Signers) Append(b, body []byte) []byte { return s[0].appendSignature(b, body) }

// AppendStandard adds the value of Webhook-Signature: a signature by each secret.
func (s Signers) AppendStandard(b []byte, id string, timestamp int64, body []byte) []byte {
	for i, one := range s {
		if i > 0 {
			b = append(b, ' ')
		}
		b = one.appendStandard(b, id, timestamp, body)
	}
	return b
}

// signer signs by one secret.
type signer struct {
	body     macs // of X-Service-Signature
	standard macs // of Webhook-Signature
}

func newSigner(secret string) *signer {
	return &signer{body: macs{key: []byte(secret)}, standard: macs{key: standardKey(secret)}}
}

// macs keeps HMAC-SHA256 states of a key for reuse: setting one up takes as long as
// signing a short body.
type macs struct {
	key  []byte
	pool sync.Pool // of hash.Hash
}

// sum returns the HMAC of the concatenated parts.
func (m *macs) sum(parts ...[]byte) (sum [sha256.Size]byte) {
	mac, ok := m.pool.Get().(hash.Hash)
	if !ok {
		mac = hmac.New(sha256.New, m.key)
	}
	for _, p := range parts {
		mac.Write(p)
	}
	mac.Sum(sum[:0])
	mac.Reset()
	m.pool.Put(mac)
	return sum
}

// appendSignature adds the value of X-Service-Signature.
func (s *signer) appendSignature(b, body []byte) []byte {
	sum := s.body.sum(body)
	return hex.AppendEncode(append(b, signaturePrefix...), sum[:])
}

// appendStandard adds a signature of Webhook-Signature.
func (s *signer) appendStandard(b []byte, id string, timestamp int64, body []byte) []byte {
	head := make([]byte, 0, 64)
	head = append(append(head, id...), '.')
	head = append(strconv.AppendInt(head, timestamp, 10), '.')
	sum := s.standard.sum(head, body)
	return base64.StdEncoding.AppendEncode(append(b, standardPrefix...), sum[:])
}
