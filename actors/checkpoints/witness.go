package checkpoints

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// CountersignedStore keeps the checkpoints that witnesses have signed. See leaves.Store of
// persistence.
type CountersignedStore interface {
	StoreCountersigned(ctx context.Context, c record.Countersigned) error
	Checkpoint(ctx context.Context) (*record.Signed, error)
	CheckpointAt(ctx context.Context, size int64, newest *record.Signed) (*record.Signed, error)
	Countersigned(ctx context.Context) (map[string]string, error)
}

// Witnesses checks and keeps the signatures of witnesses.
type Witnesses struct {
	store   CountersignedStore
	keys    *record.Keys
	trusted *record.Witnesses
}

// NewWitnesses returns the trusted witnesses of a record with the given keys.
func NewWitnesses(store CountersignedStore, keys *record.Keys, trusted *record.Witnesses) *Witnesses {
	return &Witnesses{store: store, keys: keys, trusted: trusted}
}

// Count returns the number of trusted witnesses.
func (w *Witnesses) Count() int { return len(w.trusted.Keys()) }

// Add stores a checkpoint that the service and one or more witnesses have signed. Errors that are
// not of the store are those of record.Witnesses.Read.
func (w *Witnesses) Add(ctx context.Context, signed []byte) error {
	all, err := w.trusted.Read(signed, w.keys)
	if err != nil {
		return err
	}
	newest, err := w.store.Checkpoint(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		stored, err := w.store.CheckpointAt(ctx, c.Size, newest)
		if signal.KindOf(err) == signal.KindNotFound || err == nil && stored.Root.Hash != c.Root {
			return record.ErrLost
		}
		if err != nil {
			return err
		}
		if err := w.store.StoreCountersigned(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// List returns the newest checkpoint that each trusted witness has signed, in the order of the
// setting.
func (w *Witnesses) List(ctx context.Context) ([]record.Countersigned, error) {
	stored, err := w.store.Countersigned(ctx)
	if err != nil {
		return nil, err
	}
	var list []record.Countersigned
	for _, key := range w.trusted.Keys() {
		if signed, ok := stored[key]; ok {
			c, err := record.ReadCheckpoint([]byte(signed))
			if err != nil {
				return nil, err
			}
			if c.Origin != w.keys.Name() { // of the record before
				continue
			}
			list = append(list, record.Countersigned{Key: key, Size: c.Root.N, Note: []byte(signed)})
		}
	}
	return list, nil
}

// Merge adds to a signed checkpoint the signatures of the witnesses that have signed it.
func (w *Witnesses) Merge(ctx context.Context, signed []byte) ([]byte, error) {
	if w.Count() == 0 {
		return signed, nil
	}
	list, err := w.List(ctx)
	if err != nil {
		return nil, err
	}
	notes := make([][]byte, len(list))
	for i := range list {
		notes[i] = list[i].Note
	}
	return record.Merge(signed, notes...), nil
}
