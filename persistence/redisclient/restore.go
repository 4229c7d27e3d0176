package redisclient

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/codec"
)

// While a restore is under way the record of the installation has a text that no build accepts, so that
// none starts in it, and the number of the restore.
const (
	restoringText = "restoring"
	restoreNumber = "restore"
)

var errRestoring = Refused("restoring", "a restore into this Redis is under way, or was interrupted: run agentsignal restore "+
	"again, which begins from the start")

// Restoring reports whether a restore has begun and not ended.
func (i *Installation) Restoring(ctx context.Context) (bool, error) {
	text, err := i.rdb.HGet(ctx, i.keys.InstallationKey(), installedPartitions).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return text == restoringText, Failed(err, "read installation")
}

// BeginRestore records that a restore by this process is under way, in place of one that was. KindConflict: there is an
// installation.
func (i *Installation) BeginRestore(ctx context.Context) error {
	pipe := i.rdb.TxPipeline()
	pipe.HSetNX(ctx, i.keys.InstallationKey(), installedPartitions, restoringText)
	got := pipe.HGet(ctx, i.keys.InstallationKey(), installedPartitions)
	if err := Execute(ctx, pipe); err != nil {
		return Failed(err, "begin restore")
	}
	if got.Val() != restoringText {
		return Refused("not_empty", "this Redis has an installation since")
	}
	if err := i.rdb.HSet(ctx, i.keys.InstallationKey(), restoreNumber, i.nonce).Err(); err != nil {
		return Failed(err, "begin restore")
	}
	return i.Confirm(ctx)
}

// EndRestore records the installation, which has been restored, with an id of its own. KindConflict: another
// restore has begun since.
func (i *Installation) EndRestore(ctx context.Context) error {
	number, err := i.rdb.HGet(ctx, i.keys.InstallationKey(), restoreNumber).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return Failed(err, "end restore")
	}
	if number != i.nonce {
		return errRestoring
	}
	pipe := i.rdb.TxPipeline()
	pipe.HSet(ctx, i.keys.InstallationKey(), installedPartitions, i.Record(), installedID, rand.Text(),
		installedFormats, codec.Version)
	pipe.HDel(ctx, i.keys.InstallationKey(), restoreNumber)
	if err := Execute(ctx, pipe); err != nil {
		return Failed(err, "end restore")
	}
	return i.Confirm(ctx)
}
