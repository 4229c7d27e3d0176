package market

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

const (
	// maxWanted bounds the assets that wait to be taken up: their names come from clients.
	// maxWantedBy bounds those that one account waits for.
	maxWanted   = 1000
	maxWantedBy = 100
	// maxKeptFor bounds the assets that were taken up for one account and are still kept: a
	// quarter of all that may be.
	maxKeptFor = 100
)

// wantRefusedShare is why an account gets no more assets: it has its share.
const wantRefusedShare = "share"

var (
	//go:embed scripts/settle.lua
	settleSource string
	settleScript = redis.NewScript(settleSource)
)

// Want asks the feeder for an asset that has no record, on behalf of an account; without
// one no share is counted. refused is why there will be none, if that is known. It
// returns KindUnavailable if too many wait, or if Redis cannot be reached.
func (m *Store) Want(ctx context.Context, account signal.AccountID, symbol string) (refused string, err error) {
	p := m.s.RDB.Pipeline()
	known, already := p.Get(ctx, redisclient.MarketRefusedKey(symbol)), p.HExists(ctx, redisclient.MarketWantedKey(), symbol)
	if err := redisclient.Execute(ctx, p); err != nil {
		return "", redisclient.Unavailable(fmt.Errorf("ask for asset: %w", err))
	}
	if known.Val() != "" || already.Val() { // who waits asks again and again
		return known.Val(), nil
	}
	by := string(account)
	p = m.s.RDB.Pipeline()
	wanted, kept := p.HVals(ctx, redisclient.MarketWantedKey()), p.HVals(ctx, redisclient.MarketKeptForKey())
	if err := redisclient.Execute(ctx, p); err != nil {
		return "", redisclient.Unavailable(fmt.Errorf("ask for asset: %w", err))
	}
	own := func(accounts []string) (n int) {
		for _, a := range accounts {
			if by != "" && a == by {
				n++
			}
		}
		return n
	}
	switch {
	case len(wanted.Val()) >= maxWanted, own(wanted.Val()) >= maxWantedBy:
		return "", redisclient.Unavailable(errors.New("ask for asset: too many wait"))
	case own(kept.Val()) >= maxKeptFor:
		return wantRefusedShare, nil
	}
	if err := m.s.RDB.HSetNX(ctx, redisclient.MarketWantedKey(), symbol, by).Err(); err != nil {
		return "", redisclient.Unavailable(fmt.Errorf("ask for asset: %w", err))
	}
	return "", nil
}

// Wanted returns the symbols that were asked for and are not settled, in the order of
// the alphabet.
func (m *Store) Wanted(ctx context.Context) ([]string, error) {
	symbols, err := m.s.RDB.HKeys(ctx, redisclient.MarketWantedKey()).Result()
	if err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("read wanted assets: %w", err))
	}
	slices.Sort(symbols)
	return symbols, nil
}

// NoteUse records that assets are needed at a time.
func (m *Store) NoteUse(ctx context.Context, symbols []string, at time.Time) error {
	members := make([]redis.Z, len(symbols))
	for i, symbol := range symbols {
		members[i] = redis.Z{Score: float64(at.UnixMilli()), Member: symbol}
	}
	if err := m.s.RDB.ZAddArgs(ctx, redisclient.MarketUsedKey(), redis.ZAddArgs{GT: true, Members: members}).Err(); err != nil {
		return redisclient.Unavailable(fmt.Errorf("note use of assets: %w", err))
	}
	return nil
}

// Uses returns when assets were needed last.
func (m *Store) Uses(ctx context.Context) (map[string]time.Time, error) {
	list, err := m.s.RDB.ZRangeWithScores(ctx, redisclient.MarketUsedKey(), 0, -1).Result()
	if err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("read use of assets: %w", err))
	}
	uses := make(map[string]time.Time, len(list))
	for _, z := range list {
		symbol, _ := z.Member.(string)
		uses[symbol] = time.UnixMilli(int64(z.Score))
	}
	return uses, nil
}

// ForgetUse drops what is known of the use of an asset that is no longer kept.
func (m *Store) ForgetUse(ctx context.Context, symbol string) error {
	p := m.s.RDB.Pipeline()
	p.ZRem(ctx, redisclient.MarketUsedKey(), symbol)
	p.HDel(ctx, redisclient.MarketKeptForKey(), symbol)
	if err := redisclient.Execute(ctx, p); err != nil {
		return redisclient.Unavailable(fmt.Errorf("forget use of asset: %w", err))
	}
	return nil
}

// Settle ends the wait for an asset. Unless refused is empty it is remembered for a
// time why there is none. It returns KindConflict if another feeder took over.
func (m *Store) Settle(ctx context.Context, epoch int64, symbol, refused string, remember time.Duration) error {
	settled, err := settleScript.Run(ctx, m.s.RDB,
		[]string{redisclient.FeederEpochKey(), redisclient.MarketWantedKey(), redisclient.MarketRefusedKey(symbol), redisclient.MarketKeptForKey()},
		epoch, symbol, refused, remember.Milliseconds()).Int64()
	if err != nil {
		return redisclient.Unavailable(fmt.Errorf("settle wanted asset: %w", err))
	}
	if settled == 0 {
		return errNotFeeder
	}
	return nil
}

// StoreListing keeps for a time what a source calls the assets that it lists. It is not
// fenced: what a former feeder learned is as true.
func (m *Store) StoreListing(ctx context.Context, source string, symbols []string, keep time.Duration) error {
	if err := m.s.RDB.Set(ctx, redisclient.MarketListingKey(source), packListing(symbols), keep).Err(); err != nil {
		return redisclient.Unavailable(fmt.Errorf("store listing: %w", err))
	}
	return nil
}

// Listings returns what sources call the assets that they list, of those whose listing is
// known.
func (m *Store) Listings(ctx context.Context, sources []string) (map[string][]string, error) {
	p := m.s.RDB.Pipeline()
	results := make([]*redis.StringCmd, len(sources))
	for i, source := range sources {
		results[i] = p.Get(ctx, redisclient.MarketListingKey(source))
	}
	if err := redisclient.Execute(ctx, p); err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("read listings: %w", err))
	}
	all := make(map[string][]string)
	for i, source := range sources {
		if results[i].Val() == "" {
			continue
		}
		symbols, err := unpackListing(results[i].Val())
		if err != nil {
			return nil, err
		}
		all[source] = symbols
	}
	return all, nil
}
