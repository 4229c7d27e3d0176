package record

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// maxMissing bounds the missing entries that a Checker remembers. More are counted only.
const maxMissing = 100_000

// Finding is a contradiction between a log and the signals that are stored.
type Finding struct {
	Account signal.AccountID // empty: not known
	Signal  signal.SignalID  // empty: not known
	Leaf    int64            // its index, or -1 without a leaf
	What    string
}

// Checked is what comparing a log with the signals that are stored has found.
type Checked struct {
	Leaves   int64                       // of the log
	Compared int64                       // entries that are the ones of their leaves
	Trimmed  int64                       // entries older than the retention, of the range that was read
	Erased   int64                       // entries of deleted accounts
	Unknown  int64                       // missing entries beyond a limit: of deleted accounts, or not
	Accounts map[signal.AccountID]Counts // all signals that were ever recorded
	Findings []Finding
}

// Account is what opens the leaves of an account, and how many there are.
type Account struct {
	Salt   []byte
	Counts Counts
	Last   int64 // the newest leaf: its index and 1
	Months int64 // leaves of months
}

// Leaf is what a log knows of one of its leaves.
type Leaf struct {
	Index int64
	Place
	Prev   int64           // the account's leaf before it: its index and 1; 0: none
	Months int64           // leaves of months before it, which have no entry
	At     signal.Position // of the entry
	Hash   *tlog.Hash      // nil: not readable
}

// Checker compares the leaves of a log with the entries of the signal log, in their order.
type Checker struct {
	accounts map[signal.AccountID]Account
	kept     signal.Position // entries from here on must be stored
	next     int64           // the index that the next leaf must have without leaves of months before it; -1: any
	months   int64           // leaves of months before that
	checked  Checked

	newest  map[int64]signal.AccountID // by number (index and 1): the newest leaf of its account
	last    map[signal.AccountID]Leaf
	missing map[int64]Leaf // by number: without an account yet
	// missingAt has the numbers of these leaves by the position of the entry, and named the
	// findings.
	missingAt map[signal.Position]int64
	named     map[signal.Position]int
}

// NewChecker returns a checker of a log with size leaves. Entries from kept on must be stored.
func NewChecker(size int64, accounts map[signal.AccountID]Account, kept signal.Position) *Checker {
	c := &Checker{accounts: accounts, kept: kept, next: -1,
		checked: Checked{Leaves: size, Accounts: map[signal.AccountID]Counts{}},
		newest:  map[int64]signal.AccountID{}, last: map[signal.AccountID]Leaf{},
		missing: map[int64]Leaf{}, missingAt: map[signal.Position]int64{}, named: map[signal.Position]int{}}
	for id, a := range accounts {
		c.checked.Accounts[id] = a.Counts
	}
	return c
}

func (c *Checker) find(account signal.AccountID, id signal.SignalID, leaf int64, what string) {
	c.checked.Findings = append(c.checked.Findings, Finding{account, id, leaf, what})
}

// follow checks that l follows the leaf before it.
func (c *Checker) follow(l *Leaf) {
	if months := l.Months - c.months; c.next >= 0 && (l.Index != c.next+months || months < 0) {
		c.find("", "", c.next, fmt.Sprintf("leaf %d of the record is followed by leaf %d", c.next-1, l.Index))
	}
	c.next, c.months = l.Index+1, l.Months
}

// Month compares the n-th leaf with the sums of a month of an account, from 1 on, with its hash. An empty text is not stored.
func (c *Checker) Month(account signal.AccountID, n int64, index int64, text string, hash *tlog.Hash) {
	switch {
	case text == "":
		c.find(account, "", index, fmt.Sprintf("the sums of month number %d of %d of account %s are missing", n,
			c.accounts[account].Months, account))
	case hash != nil && LeafHash(c.accounts[account].Salt, text) != *hash:
		c.find(account, "", index, "the stored sums of a month are not those in the record")
	default:
		c.checked.Compared++
	}
}

// Compare compares the entry s of the signal log, or raw if it is not readable, with its leaf.
// metadata is what Metadata or ClosingMetadata returns for it.
// created is the position of the creation that a closing names.
func (c *Checker) Compare(l Leaf, s *signal.Signal, metadata string, raw []byte, created signal.Position) {
	c.follow(&l)
	var account signal.AccountID
	var id signal.SignalID
	var salt []byte
	text := UnreadableText(raw)
	if s != nil {
		account, id = s.Account, s.ID
	}
	if l.Counts != (Counts{}) && s != nil {
		a, ok := c.accounts[account]
		if !ok {
			c.find(account, id, l.Index, "the record has no salt of the account of the stored signal")
			return
		}
		salt, text = a.Salt, Text(s, metadata, l.Place)
	}
	switch {
	case l.Hash == nil:
	case LeafHash(salt, text) != *l.Hash:
		what := "the stored signal is not the one in the record"
		if s != nil && s.Closing != nil {
			what = "the stored closing is not the one in the record"
		}
		c.find(account, id, l.Index, what)
		return // its account may be another one
	default:
		c.checked.Compared++
	}
	if s == nil {
		return
	}
	c.attribute(l.Prev, account)
	c.advance(account, l)
	if s.Closing != nil {
		if i, ok := c.named[created]; ok {
			c.checked.Findings[i].Signal = id
		} else if m, ok := c.missing[c.missingAt[created]]; ok {
			c.report(m, account, id)
			delete(c.missing, m.Index+1)
		}
	}
}

// advance records that l is the newest leaf of an account.
func (c *Checker) advance(account signal.AccountID, l Leaf) {
	delete(c.newest, c.last[account].Index+1)
	c.newest[l.Index+1], c.last[account] = account, l
}

// OtherMonths records that the accounts have another number of leaves of months than the log, although none was erased.
func (c *Checker) OtherMonths(counted, recorded int64) {
	c.find("", "", -1, fmt.Sprintf("the record has %d leaves of months, and its accounts have %d", recorded, counted))
}

// Missing records that the entry of a leaf is not stored.
func (c *Checker) Missing(l Leaf) {
	c.follow(&l)
	account, known := c.newest[l.Prev]
	switch {
	case l.At.Compare(c.kept) < 0:
		c.checked.Trimmed++
	case known && l.Prev > 0:
		c.report(l, account, "")
		c.advance(account, l)
	case len(c.missing) < maxMissing:
		c.missing[l.Index+1], c.missingAt[l.At] = l, l.Index+1
	default:
		c.checked.Unknown++
	}
}

// Unrecorded records that a stored entry has no leaf.
func (c *Checker) Unrecorded(s *signal.Signal, at signal.Position) {
	if s == nil {
		s = &signal.Signal{}
	}
	c.find(s.Account, s.ID, -1, "the entry "+at.String()+" of the signal log is not in the record")
}

// Unreadable records that the hashes of leaves do not belong to the head of the log.
func (c *Checker) Unreadable(from, to int64, err error) {
	c.find("", "", from, fmt.Sprintf("the hashes of leaves %d to %d do not belong to the head of the record: %v",
		from, to, err))
}

// attribute reports the missing leaves of an account that end with the given number.
func (c *Checker) attribute(number int64, account signal.AccountID) {
	for l, ok := c.missing[number]; ok; l, ok = c.missing[number] {
		delete(c.missing, number)
		c.report(l, account, "")
		number = l.Prev
	}
}

// report adds the finding of a missing entry.
func (c *Checker) report(l Leaf, account signal.AccountID, id signal.SignalID) {
	all := c.accounts[account].Counts
	before, known := c.last[account]
	known = known && before.Index+1 == l.Prev || l.Prev == 0
	var what string
	switch {
	case known && l.Counts.Created > before.Counts.Created:
		what = fmt.Sprintf("created number %d of %d of account %s is missing", l.Counts.Created, all.Created, account)
	case known:
		what = fmt.Sprintf("closing number %d of %d of account %s is missing", l.Counts.Closed, all.Closed, account)
	default:
		what = fmt.Sprintf("a creation or closing is missing: "+
			"with it account %s had created %d of %d and closed %d of %d",
			account, l.Counts.Created, all.Created, l.Counts.Closed, all.Closed)
	}
	c.named[l.At] = len(c.checked.Findings)
	c.find(account, id, l.Index, what+", recorded at "+l.At.Time().UTC().Format(time.RFC3339))
}

// End returns the result. left reports whether an account has been deleted meanwhile, or is
// being deleted, so that its entries need not be stored.
func (c *Checker) End(left func(signal.AccountID) bool) *Checked {
	for account, a := range c.accounts {
		c.attribute(a.Last, account)
	}
	c.checked.Erased += int64(len(c.missing))
	gone := map[signal.AccountID]bool{}
	for i := range c.checked.Findings {
		a := c.checked.Findings[i].Account
		if _, had := c.accounts[a]; had { // without a salt it had no entries at the start
			if _, known := gone[a]; !known {
				gone[a] = left(a)
			}
		}
	}
	c.checked.Findings = slices.DeleteFunc(c.checked.Findings, func(f Finding) bool { return gone[f.Account] })
	slices.SortStableFunc(c.checked.Findings, func(a, b Finding) int { return cmp.Compare(a.Leaf, b.Leaf) })
	return &c.checked
}
