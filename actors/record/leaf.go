package record

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// SaltSize is the number of random bytes of an account's salt.
const SaltSize = 32

// Counts are the signals of an account that were created and closed, up to and including a leaf.
type Counts struct{ Created, Closed int64 }

// Place is what the text of a leaf has of its place in the log.
type Place struct {
	Counts
	Previous time.Time // of a creation: when the account created the signal before; zero in its first
	Signed   int64     // of a closing: the leaves of the log that the newest checkpoint had then
}

// Text returns the text of the leaf for a creation, or for a closing if s has one: a JSON object
// with the members of GET /v1/signals/{id} under the same names, except for those that follow from
// others. Of a closing s needs only ID, Account, Confidence, MFE, MAE and Closing. metadata is what
// Metadata or ClosingMetadata returns for it. The text of a signal never changes, so that a leaf
// can be opened as long as the signal log has the signal.
func Text(s *signal.Signal, metadata string, at Place) string {
	if s.Closing != nil {
		return closedText(s, metadata, at)
	}
	b := appendHead(make([]byte, 0, 1024), "created", s, at)
	if b = appendName(b, "previous_created_at"); at.Previous.IsZero() {
		b = append(b, "null"...)
	} else {
		b = signal.AppendTime(b, at.Previous)
	}
	b = appendMember(b, "agent_id", string(s.Agent))
	b = appendMember(b, "asset", s.Asset)
	b = appendMember(b, "strategy", s.Strategy)
	b = appendMember(b, "timeframe", string(s.Timeframe))
	b = appendMember(b, "risk_level", string(s.Risk))
	b = appendMember(b, "direction", string(s.Direction))
	b = signal.AppendConfidence(appendName(b, "initial_confidence"), s.Confidence)
	var entry, stop, target *float64
	if l := s.Levels; l != nil {
		entry, stop, target = &l.Entry, &l.Stop, &l.Target
	}
	b = appendNumber(b, "entry_price", entry)
	b = appendNumber(b, "stop_loss", stop)
	b = appendNumber(b, "take_profit", target)
	b = appendTime(b, "created_at", s.CreatedAt)
	b = appendTime(b, "expires_at", s.ExpiresAt)
	return string(append(append(b, metadata...), '}'))
}

func closedText(s *signal.Signal, metadata string, at Place) string {
	c := s.Closing
	b := appendHead(make([]byte, 0, 512), "closed", s, at)
	b = strconv.AppendInt(appendName(b, "signed_leaves"), at.Signed, 10)
	b = signal.AppendConfidence(appendName(b, "final_confidence"), s.Confidence)
	b = appendNumber(b, "mfe_r", &s.MFE)
	b = appendNumber(b, "mae_r", &s.MAE)
	b = appendTime(b, "closed_at", c.At)
	b = appendMember(b, "close_reason", string(c.Reason))
	b = appendNumber(b, "exit_price", c.ExitPrice)
	return string(append(append(b, metadata...), '}'))
}

// copied are the members of the metadata of a creation that its leaf repeats, so that a reader sees
// which of those was changed on which the worth of a record rests most.
var copied = []string{"source", "time_compression", "proxy", "cost_r", "break_even_net", "expected_r_net"}

// Metadata returns the members of a leaf for the metadata of a creation: a copy of some, and the
// hash of all in their canonical form. Nothing is copied of what is no JSON object.
func Metadata(metadata []byte) string {
	text := jsontext.Value(slices.Clone(metadata))
	if text.Canonicalize() != nil || text.Kind() != '{' {
		text = jsontext.Value("{}") // what cannot be read is shown to no reader
	}
	var copies []byte
	for name, value := range jsonobject.Members(text) {
		if slices.Contains(copied, string(name)) {
			copies = append(appendName(copies, string(name)), value...)
		}
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf(`,"metadata":{%s},"metadata_sha256":"%x"`, bytes.TrimPrefix(copies, []byte(",")), sum)
}

// ClosingMetadata returns the members of a leaf for the metadata that a closing has added, mostly
// none.
func ClosingMetadata(metadata []byte) string {
	if len(metadata) == 0 {
		return ""
	}
	return `,"metadata":` + string(metadata)
}

// UnreadableText returns the text of the leaf for an entry of the signal log that cannot be
// decoded, so that it has a leaf as well.
func UnreadableText(entry []byte) string {
	sum := sha256.Sum256(entry)
	return `{"v":2,"kind":"unreadable","sha256":"` + hex.EncodeToString(sum[:]) + `"}`
}

func appendHead(b []byte, kind string, s *signal.Signal, n Place) []byte {
	b = append(b, `{"v":2,"kind":"`...)
	b = append(b, kind...)
	b = append(b, '"')
	b = appendMember(b, "account", string(s.Account))
	b = append(b, `,"created":`...)
	b = strconv.AppendInt(b, n.Created, 10)
	b = append(b, `,"closed":`...)
	b = strconv.AppendInt(b, n.Closed, 10)
	return appendMember(b, "signal_id", string(s.ID))
}

func appendName(b []byte, name string) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	return append(b, `":`...)
}

func appendMember(b []byte, name, value string) []byte {
	return signal.AppendText(appendName(b, name), value)
}

// appendNumber appends null for nil, and for what JSON has no number for.
func appendNumber(b []byte, name string, v *float64) []byte {
	if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
		v = nil
	}
	return signal.AppendNumber(appendName(b, name), v)
}

func appendTime(b []byte, name string, t time.Time) []byte {
	return signal.AppendTime(appendName(b, name), t)
}

// LeafHash returns the hash that a tree has for a text under a salt.
func LeafHash(salt []byte, text string) tlog.Hash { return tlog.RecordHash(verify.Commit(salt, text)) }

// Hasher is LeafHash for many texts under one salt, with less work for each.
type Hasher struct {
	mac  hash.Hash
	text []byte
}

// NewHasher returns a hasher for a salt, which may be empty.
func NewHasher(salt []byte) *Hasher { return &Hasher{mac: hmac.New(sha256.New, salt)} }

// LeafHash returns the hash that a tree has for a text.
func (h *Hasher) LeafHash(text string) tlog.Hash {
	h.mac.Reset()
	h.text = append(h.text[:0], text...) // an interface cannot take the bytes of a string without a copy
	h.mac.Write(h.text)
	return tlog.RecordHash(h.mac.Sum(h.text[:0]))
}
