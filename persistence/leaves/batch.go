package leaves

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
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

// account is a remembered account. Without a salt its record is not readable.
type account struct {
	codec.LeafAccount
	running *verify.Month // of the leaf that follows when the month is over: the text is Running
}

// batch is an append: what its script stores, and the head after it.
type batch struct {
	keys   []string
	args   []any
	head   codec.LogHead
	hashes []tlog.Hash
	places []any
	months []any
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
	b := &batch{head: a.head, hashes: make([]tlog.Hash, 0, len(leaves)), places: make([]any, 0, 2*len(leaves))}
	b.head.UpTo = leaves[len(leaves)-1].position
	hashers := map[signal.AccountID]*record.Hasher{}
	var changed []signal.AccountID
	for i := range leaves {
		l := &leaves[i]
		hasher := hashers[l.account]
		if hasher == nil {
			var salt []byte
			if known := a.known[l.account]; known != nil {
				salt = known.Salt
			}
			hasher = record.NewHasher(salt)
			hashers[l.account] = hasher
		}
		a.endMonth(b, l.account, record.MonthOf(l.position.Time()), hasher)
		if a.count(b, l, signed, hasher) {
			changed = append(changed, l.account)
		}
	}
	slices.Sort(changed)
	return b, a.complete(b, slices.Compact(changed))
}

// complete makes the arguments of the script.
func (a *appender) complete(b *batch, changed []signal.AccountID) error {
	p := a.partition
	b.keys = []string{a.s.EpochKey(p), a.s.LeafHeadKey(p), a.s.LeavesKey(p), a.s.LeafAccountsKey(p), a.s.LeafMonthsKey(p)}
	before := ""
	if a.head.Size > 0 {
		before = a.head.String()
	}
	b.args = append(make([]any, 0, len(b.places)+2*len(changed)+len(b.months)+20),
		strconv.FormatInt(a.epoch, 10), before, nil, record.TileBytes, len(b.places)/2)
	b.args = append(append(b.args, b.places...), len(changed))
	for _, id := range changed {
		known := a.known[id]
		if known.Running = ""; known.running != nil {
			known.Running = known.running.Text()
		}
		b.args = append(b.args, string(id), codec.AppendLeafAccount(nil, known.LeafAccount))
	}
	b.args = append(append(b.args, len(b.months)/2), b.months...)
	for _, piece := range a.tree.Append(b.hashes) {
		b.keys = append(b.keys, a.s.TileKey(p, piece.Level, piece.Tile))
		b.args = append(b.args, piece.Offset, piece.Hashes)
	}
	head, err := a.tree.Head()
	b.head.Size, b.head.Root = head.N, head.Hash
	b.args[2] = b.head.String()
	return err
}

// add adds a leaf with a text, and returns its index.
func (b *batch) add(text string, by *record.Hasher) int64 {
	b.hashes = append(b.hashes, by.LeafHash(text))
	b.head.Size++
	return b.head.Size - 1
}

// endMonth adds the leaf of the running month of an account if it is before the given one, and reports whether it was.
func (a *appender) endMonth(b *batch, id signal.AccountID, before string, by *record.Hasher) bool {
	known := a.known[id]
	if known == nil || known.running == nil || known.running.Month >= before {
		return false
	}
	known.running.Created, known.running.Closed = known.Created, known.Closed
	month := codec.LeafMonth{Text: known.running.Text()}
	month.Index = b.add(month.Text, by)
	b.head.Months++
	known.Months++
	known.running = nil
	b.months = append(b.months, monthField(id, known.Months), codec.AppendLeafMonth(nil, month))
	return true
}

// monthField returns the field of the n-th month of an account, from 1 on. scripts/erase.lua makes it as well.
func monthField(account signal.AccountID, n int64) string {
	return string(account) + " " + strconv.FormatInt(n, 10)
}

// count adds the leaf l, and reports whether it counts for an account. signed is how many leaves the newest checkpoint has.
func (a *appender) count(b *batch, l *leaf, signed int64, by *record.Hasher) bool {
	place, known := codec.LeafPlace{Index: b.head.Size, Months: b.head.Months}, a.known[l.account]
	text := ""
	counts := known != nil && len(known.Salt) > 0
	if counts {
		if l.signal.Closing != nil {
			known.Closed++
			place.Signed = signed
			a.sum(known, l)
		} else {
			known.Created++
			place.Previous, known.Newest = known.Newest, l.signal.CreatedAt.UnixMilli()
		}
		place.Created, place.Closed = known.Created, known.Closed
		place.Prev, known.Last = known.Last, place.Index+1
		if place.Prev == 0 {
			b.head.Accounts++
		}
		text = record.Text(l.signal, l.metadata, placeOf(&place))
	} else {
		text = record.UnreadableText(l.raw)
	}
	b.add(text, by)
	b.places = append(b.places, l.position.String(), codec.AppendLeafPlace(nil, place))
	return counts
}

// sum adds a closing to the running month of its account.
func (a *appender) sum(known *account, l *leaf) {
	if known.running == nil {
		known.running = &verify.Month{Account: string(l.account), Month: record.MonthOf(l.position.Time())}
	}
	cost := 0.
	if a.s.Cost != nil && l.signal.Asset != "" {
		cost = a.s.Cost(l.signal.Asset)
	}
	known.running.Created, known.running.Closed = known.Created, known.Closed
	record.AddClosing(known.running, l.signal, cost)
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
		known := &account{LeafAccount: codec.LeafAccount{Salt: make([]byte, record.SaltSize)}}
		if value, ok := v.(string); ok {
			if known, err = decodeAccount([]byte(value)); err != nil {
				a.s.Log.Error("leaves of an account cannot be opened: its salt is not readable", "component", "persistence",
					"partition", a.partition, "account", unknown[i], "err", err)
				known = &account{}
			}
		} else if _, err := rand.Read(known.Salt); err != nil {
			return fmt.Errorf("make salt: %w", err)
		}
		a.known[signal.AccountID(unknown[i])] = known
	}
	return nil
}

// decodeAccount returns a stored account.
func decodeAccount(value []byte) (*account, error) {
	stored, err := codec.DecodeLeafAccount(value)
	known := &account{LeafAccount: stored}
	if err == nil && stored.Running != "" {
		known.running, err = verify.ParseMonth(stored.Running)
	}
	return known, err
}
