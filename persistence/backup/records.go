package backup

import (
	"regexp"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// kind is the kind of a record. The numbers never change. Numbers and times are decimal, in ms; a
// partition is one of the installation that was copied.
type kind byte

const (
	kindHeader        kind = 1  // header as JSON
	kindCheckpoint    kind = 2  // value
	kindCountersigned kind = 3  // field, value
	kindPosition      kind = 4  // partition, position
	kindWebhook       kind = 5  // account, id, record, health
	kindDelivery      kind = 6  // account, webhook, member, due, record, payload
	kindWait          kind = 7  // account, webhook, until, field, value
	kindMail          kind = 8  // account, id, due, record
	kindSchedule      kind = 9  // account, id, record, due, then field and value of each result
	kindOpen          kind = 10 // partition, account, field, value
	kindRunDue        kind = 11 // account, member, score
	kindErase         kind = 12 // account, value
	kindAudit         kind = 13 // partition, field, value
	kindLeafHead      kind = 14 // partition, value
	kindLeafAccount   kind = 15 // partition, account, value
	kindScheduleDue   kind = 16 // account, member, score
	kindEvent         kind = 17 // partition, account, position, header, payload
	kindSignal        kind = 18 // partition, account, position, header, metadata
	kindLeaf          kind = 19 // partition, position, place
	kindTile          kind = 20 // partition, level, number, hashes
	kindLogEnd        kind = 21 // partition, then of the event log and the signal log: newest id, added, newest deleted id
	kindOutbox        kind = 22 // member, score
	kindAccount       kind = 23 // account, score, then field and value of each
	kindKeysOf        kind = 24 // account, then field and value of each
	kindAPIKey        kind = 25 // digest, then field and value of each
	kindJob           kind = 26 // account, id, until, state, started, request, outcome
	kindReply         kind = 27 // account, digest, until, value
	kindString        kind = 28 // key, until (0: for ever), value
	kindHash          kind = 29 // key, then field and value of each
	kindSortedSet     kind = 30 // key, then score and member of each
	kindEntry         kind = 31 // key, id, then field and value of each
	kindStreamEnd     kind = 32 // key, newest id, added, deleted
)

// keyKind is a row of the table of keys in persistence/doc.go, by its former name, with * in place of what
// differs.
type keyKind struct {
	name string
	// lost is why a backup does not have it; empty if it does, or if it follows from what it has.
	lost string
}

// Why keys are not kept.
const (
	ofProcesses = "it is of the processes that run"
	ofNetwork   = "it is of the moment"
	madeAgain   = "it is made again from what is kept"
)

// keyKinds are all kinds of keys. A test compares them with the table.
var keyKinds = []keyKind{
	{"{pNN}:events", ""},
	{"{pNN}:signals", ""},
	{"{pNN}:blocks", madeAgain},
	{"{pNN}:open", ""},
	{"{pNN}:batch:*", ofProcesses},
	{"{pNN}:reply:*:*", ""},
	{"{pNN}:runsdue", ""},
	{"{pNN}:job:*", ""},
	{"{pNN}:jobs:*", ""},
	{"{pNN}:jobs:*:*", ""},
	{"{pNN}:jobs:*:ended", ""},
	{"{pNN}:jobqueue", ""},
	{"{pNN}:owner", ofProcesses},
	{"{pNN}:confirm", ofProcesses},
	{"{pNN}:epoch", ofProcesses},
	{"{pNN}:position", ""},
	{"{pNN}:leafhead", ""},
	{"{pNN}:leaves", ""},
	{"{pNN}:leafaccounts", ""},
	{"{pNN}:tile:*:*", ""},
	{"{pNN}:checkpoint", ""},
	{"{pNN}:countersigned", ""},
	{"{pNN}:audit", ""},
	{"{pNN}:probe", ofProcesses},
	{"{pNN}:erase", ""},
	{"{pNN}:webhooks:*", ""},
	{"{pNN}:webhookhealth:*", ""},
	{"{pNN}:webhookaccounts", ""},
	{"{pNN}:webhooksdue", ""},
	{"{pNN}:webhookstats", ""},
	{"{pNN}:webhookserase", "the deliveries of removed webhooks are not kept"},
	{"{pNN}:deliveries:*", ""}, // pending ones
	{"{pNN}:recorded:*", ""},
	{"{pNN}:pending:*", ""},
	{"{pNN}:succeeded:*", "it is the history of what was sent"},
	{"{pNN}:failed:*", "it is the history of what was given up"},
	{"{pNN}:waits:*", ""},
	{"{pNN}:bodies", ""},
	{"{pNN}:bodyrefs", ""},
	{"{pNN}:mails", ""},
	{"{pNN}:mailrecords", ""},
	{"{pNN}:schedules:*", ""},
	{"{pNN}:schedulerounds:*", ""},
	{"{pNN}:schedulesdue", ""},
	{"{auth}:account:*", ""},
	{"{auth}:accounts", ""},
	{"{auth}:email:*", ""},
	{"{auth}:key:*", ""},
	{"{auth}:keys:*", ""},
	{"{auth}:session:*", sessionsEnd},
	{"{auth}:sessions:*", sessionsEnd},
	{"{auth}:refresh:*", sessionsEnd},
	{"{auth}:lock:*", ofNetwork},
	{"{auth}:confirm", ofProcesses},
	{"{auth}:ended", ofProcesses},
	{"{auth}:outbox", ""},
	{"{limit:*:*}", ofNetwork},
	{"{node}:installation", "a restored installation gets an id of its own"},
	{"{node}:confirm", ofProcesses},
	{"{node}:assignment", ofProcesses},
	{"{node}:live", ofProcesses},
	{"{node}:processes", ofProcesses},
	{"market:ticks", ofNetwork},
	{"market:bars", ofNetwork},
	{"{market}:ticks", ofNetwork},
	{"{market}:closed", ofNetwork},
	{"{market}:bars:*:*", ""},
	{"{market}:news", ""},
	{"{market}:state", ""},
	{"{market}:assets", ""},
	{"{market}:live", ""},
	{"{market}:wants", ofNetwork},
	{"{market}:listing:*", madeAgain},
	{"{market}:keptfor", ""},
	{"{market}:used", ""},
	{"{market}:refused:*", ofNetwork},
	{"{market}:outcomes:*", ""},
	{"{market}:outcomebars:*", ""},
	{"{market}:feeder", ofProcesses},
	{"{market}:feederepoch", ofProcesses},
	{"{weather}:*", ""},
}

// asItIs reports, by the kind of the records of keys that are kept as they are, whether a former name is one of theirs.
var asItIs = func() map[kind]func(former string) bool {
	var k redisclient.Keys // makes former names
	hashes := []string{k.MarketStateKey(), k.MarketAssetsKey(), k.MarketLiveKey(), k.MarketKeptForKey()}
	streams, bars := []string{k.MarketNewsKey()}, []string{}
	for _, tf := range signal.Timeframes {
		hashes = append(hashes, k.MarketOutcomeBarsKey(tf))
		streams = append(streams, k.MarketOutcomesKey(tf))
		bars = append(bars, k.BarsKey("", tf))
	}
	begins := func(former, start string) bool { return len(former) > len(start) && strings.HasPrefix(former, start) }
	stream := func(former string) bool { return slices.Contains(streams, former) }
	return map[kind]func(string) bool{
		kindString: func(former string) bool { return begins(former, k.WeatherKey("")) },
		kindHash:   func(former string) bool { return slices.Contains(hashes, former) },
		kindSortedSet: func(former string) bool {
			return former == k.MarketUsedKey() ||
				slices.ContainsFunc(bars, func(start string) bool { return begins(former, start) })
		},
		kindEntry:     stream,
		kindStreamEnd: stream,
	}
}()

// sessionsEnd is why logins are not kept: one that has ended since would be valid again.
const sessionsEnd = "all have to log in again, since a session that has ended since would be valid again"

// patterns are the expressions of keyKinds.
var patterns = func() (list []*regexp.Regexp) {
	for _, k := range keyKinds {
		p := strings.ReplaceAll(regexp.QuoteMeta(k.name), `\*`, `.+`)
		list = append(list, regexp.MustCompile(`(?s)^`+strings.Replace(p, `pNN`, `p\d+`, 1)+`$`))
	}
	return list
}()

// kindOfKey returns the row of a key of any installation.
func kindOfKey(key string) (keyKind, bool) {
	former := redisclient.Former(key)
	for i, p := range patterns {
		if p.MatchString(former) {
			return keyKinds[i], true
		}
	}
	return keyKind{}, false
}

// Kept reports whether a backup has what is under a key, why it has not, and whether the key is of a kind that
// is known.
func Kept(key string) (kept bool, why string, known bool) {
	row, known := kindOfKey(key)
	return known && row.lost == "", row.lost, known
}
