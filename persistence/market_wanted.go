package persistence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxWanted bounds the assets that wait to be taken up: their names come from clients.
const maxWanted = 1000

var (
	//go:embed scripts/market_settle.lua
	marketSettleSource string
	marketSettleScript = redis.NewScript(marketSettleSource)
)

// Want asks the feeder for an asset that has no record. refused says why it will not get
// one, if that is known; then it is not asked again before that is forgotten. It returns
// KindUnavailable if too many wait, or if Redis cannot be reached.
func (m *Market) Want(ctx context.Context, symbol string) (refused string, err error) {
	p := m.s.rdb.Pipeline()
	known, waiting := p.Get(ctx, marketRefusedKey(symbol)), p.SCard(ctx, marketWantedKey())
	if err := execute(ctx, p); err != nil {
		return "", unavailable(fmt.Errorf("ask for asset: %w", err))
	}
	if known.Val() != "" {
		return known.Val(), nil
	}
	if waiting.Val() >= maxWanted {
		return "", unavailable(errors.New("ask for asset: too many wait"))
	}
	if err := m.s.rdb.SAdd(ctx, marketWantedKey(), symbol).Err(); err != nil {
		return "", unavailable(fmt.Errorf("ask for asset: %w", err))
	}
	return "", nil
}

// Wanted returns the symbols that were asked for and are not settled, in the order of
// the alphabet.
func (m *Market) Wanted(ctx context.Context) ([]string, error) {
	symbols, err := m.s.rdb.SMembers(ctx, marketWantedKey()).Result()
	if err != nil {
		return nil, unavailable(fmt.Errorf("read wanted assets: %w", err))
	}
	slices.Sort(symbols)
	return symbols, nil
}

// Settle ends the wait for an asset. Unless refused is empty it is remembered for a
// time why there is none. It returns KindConflict if another feeder took over.
func (m *Market) Settle(ctx context.Context, epoch int64, symbol, refused string, remember time.Duration) error {
	settled, err := marketSettleScript.Run(ctx, m.s.rdb, []string{feederEpochKey(), marketWantedKey(), marketRefusedKey(symbol)},
		epoch, symbol, refused, remember.Milliseconds()).Int64()
	if err != nil {
		return unavailable(fmt.Errorf("settle wanted asset: %w", err))
	}
	if settled == 0 {
		return errFeederFenced()
	}
	return nil
}
