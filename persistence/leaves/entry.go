package leaves

import (
	"context"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	// maxTexts is how many texts of metadata are remembered, and maxText the longest packed metadata
	// among them. Most runs of a busy moment evaluate one strategy at one price.
	maxTexts = 256
	maxText  = 2 << 10
)

// entries decodes entries of signal logs as leaves need them.
type entries struct {
	mu    sync.Mutex
	texts map[string]string // by packed metadata of creations: what record.Metadata returns
}

// decode returns the signal of an entry, and the members of its leaf for the metadata.
func (n *entries) decode(e *redisclient.Entry) (*signal.Signal, string, error) {
	if !codec.IsClosing(e.Header) {
		s, err := codec.DecodeRecord(e.Position, e.Header, nil)
		if err != nil {
			return nil, "", err
		}
		text, err := n.metadata(e.Body)
		return s, text, err
	}
	c, err := codec.DecodeClosed(e.Position, e.Header)
	if err != nil {
		return nil, "", err
	}
	metadata, err := codec.UnpackMetadata(e.Body)
	if err != nil {
		return nil, "", err
	}
	s := &signal.Signal{ID: c.ID, Account: c.Account, Agent: c.Agent, Asset: c.Asset, Levels: c.Levels,
		CreatedAt: c.Created.Time(), Closing: &c.Closing}
	c.Apply(s)
	return s, record.ClosingMetadata(metadata), nil
}

// metadata returns the members of a leaf for the packed metadata of a creation.
func (n *entries) metadata(packed []byte) (string, error) {
	n.mu.Lock()
	text, ok := n.texts[string(packed)]
	n.mu.Unlock()
	if ok {
		return text, nil
	}
	metadata, err := codec.UnpackMetadata(packed)
	if err != nil {
		return "", err
	}
	text = record.Metadata(metadata)
	if len(packed) <= maxText {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.texts == nil || len(n.texts) >= maxTexts {
			n.texts = make(map[string]string, maxTexts)
		}
		n.texts[string(packed)] = text
	}
	return text, nil
}

// signedFor is how long the sizes in the newest checkpoint are remembered. Older ones count fewer
// leaves as signed, never more.
const signedFor = time.Second

// signed knows how many leaves of each log the newest checkpoint has.
type signed struct {
	checkpoints *Checkpoints

	mu    sync.Mutex
	read  time.Time
	sizes []int64
}

// leaves returns how many leaves of the log of partition p are signed.
func (s *signed) leaves(ctx context.Context, p int) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.read) > signedFor {
		c, err := s.checkpoints.Checkpoint(ctx)
		if err != nil && signal.KindOf(err) != signal.KindNotFound {
			return 0, err
		}
		s.read, s.sizes = time.Now(), s.sizes[:0]
		if c != nil {
			for _, l := range c.Logs {
				s.sizes = append(s.sizes, l.N)
			}
		}
	}
	if p >= len(s.sizes) {
		return 0, nil
	}
	return s.sizes[p], nil
}
