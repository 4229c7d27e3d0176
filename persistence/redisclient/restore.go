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
func (c *Client) Restoring(ctx context.Context) (bool, error) {
	text, err := c.RDB.HGet(ctx, c.InstallationKey(), installedPartitions).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return text == restoringText, Failed(err, "read installation")
}

// BeginRestore records that a restore by c is under way, in place of one that was. KindConflict: there is an
// installation.
func (c *Client) BeginRestore(ctx context.Context) error {
	pipe := c.RDB.TxPipeline()
	pipe.HSetNX(ctx, c.InstallationKey(), installedPartitions, restoringText)
	got := pipe.HGet(ctx, c.InstallationKey(), installedPartitions)
	if err := Execute(ctx, pipe); err != nil {
		return Failed(err, "begin restore")
	}
	if got.Val() != restoringText {
		return Refused("not_empty", "this Redis has an installation since")
	}
	if err := c.RDB.HSet(ctx, c.InstallationKey(), restoreNumber, c.Nonce).Err(); err != nil {
		return Failed(err, "begin restore")
	}
	return c.ConfirmInstallation(ctx)
}

// EndRestore records the installation of c, which has been restored, with an id of its own. KindConflict: another
// restore has begun since.
func (c *Client) EndRestore(ctx context.Context) error {
	number, err := c.RDB.HGet(ctx, c.InstallationKey(), restoreNumber).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return Failed(err, "end restore")
	}
	if number != c.Nonce {
		return errRestoring
	}
	pipe := c.RDB.TxPipeline()
	pipe.HSet(ctx, c.InstallationKey(), installedPartitions, c.Installation().String(), installedID, rand.Text(),
		InstalledFormats, codec.Version)
	pipe.HDel(ctx, c.InstallationKey(), restoreNumber)
	if err := Execute(ctx, pipe); err != nil {
		return Failed(err, "end restore")
	}
	return c.ConfirmInstallation(ctx)
}
