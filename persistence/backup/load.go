package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Check reads a backup to its end, and returns what it has. It returns ErrDamaged, ErrNewer, or an error if the values
// have another version than this build reads. opens may be nil.
func Check(r io.Reader, opens Opens) (Summary, error) {
	in, s, err := open(r)
	if err != nil {
		return s, err
	}
	defer in.close()
	err = in.each(func(k kind, f fields) error {
		if err := validate(k, f, s.Partitions); err != nil {
			return err
		}
		s.count(k)
		if k != kindWebhook || opens == nil {
			return nil
		}
		return s.check(webhookOf(f), opens)
	})
	return s, err
}

// open begins to read a file, which the caller closes.
func open(r io.Reader) (*reader, Summary, error) {
	in, err := newReader(r)
	if err != nil {
		return nil, Summary{}, err
	}
	s, err := readHeader(in)
	if err != nil {
		in.close()
	}
	return in, s, err
}

// readHeader reads the first record.
func readHeader(in *reader) (Summary, error) {
	k, f, err := in.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return Summary{}, err
	}
	var h header
	if k != kindHeader || len(f) != 1 || json.Unmarshal(f[0], &h) != nil ||
		h.Partitions < 1 || h.Partitions > redisclient.MaxPartitions {
		return Summary{}, ErrDamaged
	}
	if h.Formats != codec.Version {
		return Summary{}, fmt.Errorf("the values in the backup have version %d, and this build reads version %d: "+
			"use a build for that version", h.Formats, codec.Version)
	}
	return Summary{CreatedAt: h.CreatedAt, Build: h.Build, Partitions: h.Partitions}, nil
}

// Begin prepares the Redis of c for Load: no service starts in it until Load has ended. What a restore that was
// interrupted has left there is removed. KindConflict: it has keys of an installation, or is shared by nodes.
func Begin(ctx context.Context, c *redisclient.Client) error {
	if err := c.Servers.Check(ctx); err != nil {
		return err
	}
	interrupted, err := c.Installation.Restoring(ctx)
	if err != nil {
		return err
	}
	err = eachPage(ctx, c, func(keys []string) error {
		own := slices.DeleteFunc(keys, func(key string) bool {
			_, known := kindOfKey(key)
			return !known || key == c.InstallationKey() && interrupted
		})
		if len(own) > 0 && !interrupted {
			return redisclient.Refused("not_empty", fmt.Sprintf("this Redis is not empty: it has the key %s. Restore into "+
				"an empty one, or into a data directory without Redis' files", own[0]))
		}
		return remove(ctx, c, own)
	})
	if err != nil && signal.KindOf(err) != signal.KindConflict {
		return redisclient.Failed(err, "look for keys, or remove those of an interrupted restore")
	}
	if err != nil {
		return err
	}
	return c.Installation.BeginRestore(ctx)
}

// remove removes keys, each by itself, as they are in many slots.
func remove(ctx context.Context, c *redisclient.Client, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	pipe := c.RDB.Pipeline()
	for _, key := range keys {
		pipe.Unlink(ctx, key)
	}
	return redisclient.Execute(ctx, pipe)
}

// Load writes the backup in r, which Check has read, into the Redis of c, which Begin has prepared. ErrDamaged,
// or an error of Redis.
func Load(ctx context.Context, c *redisclient.Client, r io.Reader) (Summary, error) {
	in, summary, err := open(r)
	if err != nil {
		return summary, err
	}
	defer in.close()
	t := newTarget(c, summary)
	if err := in.each(func(k kind, f fields) error {
		t.summary.count(k)
		return t.write(ctx, k, f)
	}); err != nil {
		return t.summary, err
	}
	return t.summary, t.finish(ctx)
}
