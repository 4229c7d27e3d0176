package market

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	// maxWanted bounds the assets that wait for a record, since their names come from clients.
	// maxWantedBy bounds those of one account.
	maxWanted   = 1000
	maxWantedBy = 100
	// maxKeptFor bounds the assets that are kept for one account: a quarter of all.
	maxKeptFor = 100
)

// wantRefusedShare is the reason to refuse an account that has its share of the assets.
const wantRefusedShare = "share"

// Wants are the assets that are asked for and used, and what sources list.
type Wants struct{ s *redisclient.Client }

// Want asks the feeder for an asset without a record, on behalf of an account; an empty account
// has no limit. refused is why there will be no record, if that is known. KindUnavailable: too
// many assets wait, or Redis is not available.
func (m *Wants) Want(ctx context.Context, account signal.AccountID, symbol string) (refused string, err error) {
	p := m.s.RDB.Pipeline()
	known := p.Get(ctx, m.s.MarketRefusedKey(symbol))
	waiting := p.HExists(ctx, m.s.MarketWantedKey(), symbol)
	if err := redisclient.Execute(ctx, p); err != nil {
		return "", redisclient.Failed(err, "ask for asset")
	}
	if known.Val() != "" || waiting.Val() { // callers ask repeatedly while they wait
		return known.Val(), nil
	}
	by := string(account)
	p = m.s.RDB.Pipeline()
	wanted, kept := p.HVals(ctx, m.s.MarketWantedKey()), p.HVals(ctx, m.s.MarketKeptForKey())
	if err := redisclient.Execute(ctx, p); err != nil {
		return "", redisclient.Failed(err, "ask for asset")
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
	if err := m.s.RDB.HSetNX(ctx, m.s.MarketWantedKey(), symbol, by).Err(); err != nil {
		return "", redisclient.Failed(err, "ask for asset")
	}
	return "", nil
}

// Wanted returns the symbols that wait to be settled, in alphabetical order.
func (m *Wants) Wanted(ctx context.Context) ([]string, error) {
	symbols, err := m.s.RDB.HKeys(ctx, m.s.MarketWantedKey()).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read wanted assets")
	}
	slices.Sort(symbols)
	return symbols, nil
}

// NoteUse records that assets are needed at a time.
func (m *Wants) NoteUse(ctx context.Context, symbols []string, at time.Time) error {
	members := make([]redis.Z, len(symbols))
	for i, symbol := range symbols {
		members[i] = redis.Z{Score: float64(at.UnixMilli()), Member: symbol}
	}
	later := redis.ZAddArgs{GT: true, Members: members}
	return redisclient.Failed(m.s.RDB.ZAddArgs(ctx, m.s.MarketUsedKey(), later).Err(), "note use of assets")
}

// Uses returns when assets were last needed.
func (m *Wants) Uses(ctx context.Context) (map[string]time.Time, error) {
	list, err := m.s.RDB.ZRangeWithScores(ctx, m.s.MarketUsedKey(), 0, -1).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read use of assets")
	}
	uses := make(map[string]time.Time, len(list))
	for _, z := range list {
		symbol, _ := z.Member.(string)
		uses[symbol] = time.UnixMilli(int64(z.Score))
	}
	return uses, nil
}

// ForgetUse drops the record of the use of an asset that is no longer kept.
func (m *Wants) ForgetUse(ctx context.Context, symbol string) error {
	p := m.s.RDB.Pipeline()
	p.ZRem(ctx, m.s.MarketUsedKey(), symbol)
	p.HDel(ctx, m.s.MarketKeptForKey(), symbol)
	return redisclient.Failed(redisclient.Execute(ctx, p), "forget use of asset")
}

// Settle ends the wait for an asset. Unless refused is empty, it is kept for the time remember as
// the reason why there is no record. KindConflict: another feeder took over.
func (m *Wants) Settle(ctx context.Context, epoch int64, symbol, refused string, remember time.Duration) error {
	keys := []string{
		m.s.FeederEpochKey(), m.s.MarketWantedKey(), m.s.MarketRefusedKey(symbol),
		m.s.MarketKeptForKey(),
	}
	settled, err := settleScript.Run(ctx, m.s.RDB, keys, epoch, symbol, refused, remember.Milliseconds()).Int64()
	if err != nil {
		return redisclient.Failed(err, "settle wanted asset")
	}
	if settled == 0 {
		return errNotFeeder
	}
	return nil
}

// StoreListing keeps a source's own names of the assets that it lists for a time. It needs no
// epoch, since the listing of a former feeder is as good.
func (m *Wants) StoreListing(ctx context.Context, source string, symbols []string, keep time.Duration) error {
	err := m.s.RDB.Set(ctx, m.s.MarketListingKey(source), packListing(symbols), keep).Err()
	return redisclient.Failed(err, "store listing")
}

// Listings returns the listings of the given sources that are known.
func (m *Wants) Listings(ctx context.Context, sources []string) (map[string][]string, error) {
	p := m.s.RDB.Pipeline()
	results := make([]*redis.StringCmd, len(sources))
	for i, source := range sources {
		results[i] = p.Get(ctx, m.s.MarketListingKey(source))
	}
	if err := redisclient.Execute(ctx, p); err != nil {
		return nil, redisclient.Failed(err, "read listings")
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
