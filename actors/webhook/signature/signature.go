// Package signature signs and verifies the requests to webhooks: by the scheme of Standard
// Webhooks, which covers the time of the attempt, and by a simpler one over the body alone.
// A Go receiver can use Verify unchanged.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// The headers of a delivery.
const (
	HeaderSignature = "X-Service-Signature" // "sha256=" and hex: over the body
	HeaderEvent     = "X-Service-Event"
	HeaderDelivery  = "X-Service-Delivery"
	HeaderTimestamp = "X-Service-Timestamp" // Unix seconds of the attempt
	HeaderAttempt   = "X-Service-Attempt"

	// The headers of Standard Webhooks, whose signature covers the time, too.
	HeaderStandardID        = "Webhook-Id"
	HeaderStandardTimestamp = "Webhook-Timestamp"
	HeaderStandardSignature = "Webhook-Signature" // "v1," and base64, separated by spaces
)

const (
	signaturePrefix = "sha256="
	standardPrefix  = "v1,"

	// Tolerance is how far the time of an attempt may be from the receiver's.
	Tolerance = 5 * time.Minute
)

// Sign returns the value of X-Service-Signature: the HMAC-SHA256 of the body with the whole
// text of the secret as key.
func Sign(secret string, body []byte) string {
	return string(newSigner(secret).appendSignature(nil, body))
}

// SignStandard returns one signature of Webhook-Signature, for the id of the event and the
// time of the attempt. The key is the decoded base64 of a secret that begins with whsec_,
// else the bytes of the secret.
func SignStandard(secret, id string, timestamp int64, body []byte) string {
	return string(newSigner(secret).appendStandard(nil, id, timestamp, body))
}

func standardKey(secret string) []byte {
	if text, ok := strings.CutPrefix(secret, delivery.SecretPrefix); ok {
		if key, err := base64.StdEncoding.DecodeString(text); err == nil && len(key) > 0 {
			return key
		}
	}
	return []byte(secret)
}

// Errors of Verify.
var (
	ErrNoSignature  = errors.New("the request carries no signature")
	ErrBadSignature = errors.New("the signature does not match the body and the secret")
	ErrBadTime      = errors.New("the request was sent too long ago, or a clock is wrong")
)

// Verify returns nil if a request with the given headers and body was signed with the
// secret, else one of the errors above. It compares in constant time. If there are
// signatures of Standard Webhooks, one of them must match and the time that they cover must
// be within Tolerance of now; otherwise X-Service-Signature must match.
func Verify(secret string, header http.Header, body []byte, now time.Time) error {
	if list := header.Get(HeaderStandardSignature); list != "" {
		return verifyStandard(secret, list, header, body, now)
	}
	given := header.Get(HeaderSignature)
	if given == "" {
		return ErrNoSignature
	}
	if !hmac.Equal([]byte(given), []byte(Sign(secret, body))) {
		return ErrBadSignature
	}
	return nil
}

// verifyStandard is like Verify, for the list of signatures in Webhook-Signature.
func verifyStandard(secret, list string, header http.Header, body []byte, now time.Time) error {
	sent, err := strconv.ParseInt(header.Get(HeaderStandardTimestamp), 10, 64)
	if err != nil {
		return fmt.Errorf("read %s: %w", HeaderStandardTimestamp, ErrBadTime)
	}
	want := []byte(SignStandard(secret, header.Get(HeaderStandardID), sent, body))
	fits := false
	for one := range strings.FieldsSeq(list) {
		fits = hmac.Equal([]byte(one), want) || fits
	}
	switch {
	case !fits:
		return ErrBadSignature
	case now.Sub(time.Unix(sent, 0)).Abs() > Tolerance:
		return ErrBadTime
	}
	return nil
}

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
