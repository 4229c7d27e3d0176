package leaves

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// leaf is an entry of the signal log that gets a leaf. account is empty if it is not readable.
type leaf struct {
	position signal.Position
	signal   *signal.Signal
	account  signal.AccountID
	metadata string // the members of the leaf for it
	raw      []byte
}

// batch is an append: the arguments of its script, and the head after it.
type batch struct {
	keys []string
	args []any
	head codec.LogHead
}

// batch prepares the append of the leaves of entries. It changes the remembered edge.
func (a *appender) batch(ctx context.Context, entries []redisclient.Entry) (*batch, error) {
	leaves, closes := make([]leaf, len(entries)), false
	for i := range entries {
		leaves[i] = a.decode(&entries[i])
		closes = closes || codec.IsClosing(entries[i].Header)
	}
	signed := int64(0)
	if closes {
		var err error
		if signed, err = a.s.signed.leaves(ctx, a.partition); err != nil {
			return nil, err
		}
		signed = min(signed, a.head.Size) // a log that was rolled back has fewer
	}
	if err := a.know(ctx, leaves); err != nil {
		return nil, err
	}
	p := a.partition
	b := &batch{
		keys: []string{a.s.EpochKey(p), a.s.LeafHeadKey(p), a.s.LeavesKey(p),
			a.s.LeafAccountsKey(p)},
		args: make([]any, 0, 3*len(leaves)+20),
	}
	b.args = append(b.args, strconv.FormatInt(a.epoch, 10), "", nil, record.TileBytes, len(leaves))
	if a.head.Size > 0 {
		b.args[1] = a.head.String()
	}
	hashes := make([]tlog.Hash, 0, len(leaves))
	hashers := map[signal.AccountID]*record.Hasher{}
	var changed []signal.AccountID
	accounts := a.head.Accounts
	for i := range leaves {
		l := &leaves[i]
		place, text := a.count(l, a.head.Size+int64(i), signed)
		if place.Created+place.Closed > 0 {
			changed = append(changed, l.account)
			if place.Prev == 0 {
				accounts++
			}
		}
		hasher := hashers[l.account]
		if hasher == nil {
			hasher = record.NewHasher(a.known[l.account].Salt)
			hashers[l.account] = hasher
		}
		hashes = append(hashes, hasher.LeafHash(text))
		b.args = append(b.args, l.position.String(), codec.AppendLeafPlace(nil, place))
	}
	slices.Sort(changed)
	changed = slices.Compact(changed)
	b.args = append(b.args, len(changed))
	for _, account := range changed {
		b.args = append(b.args, string(account), codec.AppendLeafAccount(nil, a.known[account]))
	}
	for _, piece := range a.tree.Append(hashes) {
		b.keys = append(b.keys, a.s.TileKey(p, piece.Level, piece.Tile))
		b.args = append(b.args, piece.Offset, piece.Hashes)
	}
	head, err := a.tree.Head()
	b.head = codec.LogHead{Size: head.N, Root: head.Hash, UpTo: leaves[len(leaves)-1].position,
		Accounts: accounts, Erased: a.head.Erased, Gone: a.head.Gone}
	b.args[2] = b.head.String()
	return b, err
}

// count counts the leaf at index for its account, and returns its place and its text. signed is how
// many leaves the newest checkpoint has.
func (a *appender) count(l *leaf, index, signed int64) (codec.LeafPlace, string) {
	place, account := codec.LeafPlace{Index: index}, a.known[l.account]
	if len(account.Salt) == 0 {
		return place, record.UnreadableText(l.raw)
	}
	if l.signal.Closing != nil {
		account.Closed++
		place.Signed = signed
	} else {
		account.Created++
		place.Previous, account.Newest = account.Newest, l.signal.CreatedAt.UnixMilli()
	}
	place.Created, place.Closed = account.Created, account.Closed
	place.Prev, account.Last = account.Last, index+1
	a.known[l.account] = account
	return place, record.Text(l.signal, l.metadata, placeOf(&place))
}

// placeOf returns what the text of a leaf has of its place.
func placeOf(p *codec.LeafPlace) record.Place {
	place := record.Place{Counts: record.Counts{Created: p.Created, Closed: p.Closed}, Signed: p.Signed}
	if p.Previous > 0 {
		place.Previous = codec.TimeOfMilli(p.Previous)
	}
	return place
}

// decode reads an entry of the signal log.
func (a *appender) decode(e *redisclient.Entry) leaf {
	l := leaf{position: e.Position, raw: e.Header}
	s, metadata, err := a.s.entries.decode(e)
	if err != nil || s.Account == "" || s.ID == "" {
		a.s.Log.Error("an entry of the signal log gets a leaf that cannot be opened", "component", "persistence",
			"partition", a.partition, "position", e.Position.String(), "err", err)
		return l
	}
	l.signal, l.account, l.metadata = s, s.Account, metadata
	return l
}

// know reads the accounts of leaves that are not remembered, and makes a salt for each new one.
func (a *appender) know(ctx context.Context, leaves []leaf) error {
	if len(a.known) > maxKnown {
		clear(a.known)
	}
	var unknown []string
	for i := range leaves {
		account := leaves[i].account
		if _, ok := a.known[account]; !ok && account != "" && !slices.Contains(unknown, string(account)) {
			unknown = append(unknown, string(account))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	values, err := a.s.RDB.HMGet(ctx, a.s.LeafAccountsKey(a.partition), unknown...).Result()
	if err != nil {
		return redisclient.Failed(err, "read accounts of leaves in partition %d", a.partition)
	}
	for i, v := range values {
		account := codec.LeafAccount{Salt: make([]byte, record.SaltSize)}
		if value, ok := v.(string); ok {
			if account, err = codec.DecodeLeafAccount([]byte(value)); err != nil {
				a.s.Log.Error("leaves of an account cannot be opened: its salt is not readable", "component", "persistence",
					"partition", a.partition, "account", unknown[i], "err", err)
				account = codec.LeafAccount{}
			}
		} else if _, err := rand.Read(account.Salt); err != nil {
			return fmt.Errorf("make salt: %w", err)
		}
		a.known[signal.AccountID(unknown[i])] = account
	}
	return nil
}
