package redisclient

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Keys makes every key name of the service. The part in braces is the hash tag: keys with the
// same tag are in one slot of a Redis Cluster, so that one script may use them.
// persistence/doc.go has the table of their contents. The zero value makes the names of that table,
// whose tags have no letters.
type Keys struct{ tags *tags }

// NewKeys returns the names of an installation's keys.
func NewKeys(partitions int) Keys { return Keys{evenTags(partitions)} }

// Partitions returns the number of partitions.
func (k Keys) Partitions() int { return len(k.tags.partitions) }

// Partition returns the partition of account, 0 to Partitions()-1.
func (k Keys) Partition(account signal.AccountID) int { return PartitionOf(account, k.Partitions()) }

// PartitionOf returns the partition of account in an installation with a number of partitions.
func PartitionOf(account signal.AccountID, partitions int) int {
	sum := sha256.Sum256([]byte(account))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(partitions))
}

// PartitionKey returns the key name in partition p: "{p07-qb}:name".
func (k Keys) PartitionKey(p int, name string) string {
	if k.tags == nil {
		return "{" + partitionName(p, 2) + "}:" + name
	}
	return k.tags.partitions[p] + name
}

// authKey returns the key name of credentials.
func (k Keys) authKey(name string) string {
	if k.tags == nil {
		return "{auth}:" + name
	}
	return k.tags.auth + name
}

// marketKey returns the key name of the market.
func (k Keys) marketKey(name string) string {
	if k.tags == nil {
		return "{market}:" + name
	}
	return k.tags.market + name
}

// ConfirmKey is written only to give a WAIT a write to wait for.
func (k Keys) ConfirmKey(p int) string { return k.PartitionKey(p, "confirm") }

// ConfirmAuthKey is ConfirmKey for credentials.
func (k Keys) ConfirmAuthKey() string { return k.authKey("confirm") }

// ConfirmNodeKey is ConfirmKey for what concerns the whole installation.
func (k Keys) ConfirmNodeKey() string { return "{node}:confirm" }

// EventsKey is the event log of a partition.
func (k Keys) EventsKey(p int) string { return k.PartitionKey(p, "events") }

// SignalsKey is the signal log of a partition.
func (k Keys) SignalsKey(p int) string { return k.PartitionKey(p, "signals") }

// BlocksKey is the signal log of a partition as lists and the fit of weather slopes read it.
func (k Keys) BlocksKey(p int) string { return k.PartitionKey(p, "blocks") }

// OpenKey holds the open signals of a partition.
func (k Keys) OpenKey(p int) string { return k.PartitionKey(p, "open") }

// BatchKey remembers the last batch of a writer, which has one batch per partition under way.
func (k Keys) BatchKey(p int, writer string) string { return k.PartitionKey(p, "batch:"+writer) }

// ReplyKey holds the reply to a request with an Idempotency-Key.
func (k Keys) ReplyKey(p int, account signal.AccountID, digest string) string {
	return k.PartitionKey(p, "reply:"+string(account)+":"+digest)
}

// JobKey is a job's record.
func (k Keys) JobKey(p int, id signal.JobID) string { return k.PartitionKey(p, "job:"+string(id)) }

// JobsOfKey is the index of an account's jobs by time.
func (k Keys) JobsOfKey(p int, account signal.AccountID) string {
	return k.PartitionKey(p, "jobs:"+string(account))
}

// JobQueueKey is the stream from which nodes take work.
func (k Keys) JobQueueKey(p int) string { return k.PartitionKey(p, "jobqueue") }

// JobsWithKey is JobsOfKey for the jobs with one status.
func (k Keys) JobsWithKey(p int, account signal.AccountID, status signal.JobStatus) string {
	return k.JobsOfKey(p, account) + ":" + string(status)
}

// JobsEndedKey is the index of ended jobs by the time at which they are forgotten.
func (k Keys) JobsEndedKey(p int, account signal.AccountID) string {
	return k.JobsOfKey(p, account) + ":ended"
}

// RunsDueKey holds the runs that have announced themselves, by when they must end.
func (k Keys) RunsDueKey(p int) string { return k.PartitionKey(p, "runsdue") }

// OwnerKey is the lease of a partition.
func (k Keys) OwnerKey(p int) string { return k.PartitionKey(p, "owner") }

// EpochKey is the last epoch of a partition.
func (k Keys) EpochKey(p int) string { return k.PartitionKey(p, "epoch") }

// PositionKey is the owner's position in the event log of a partition.
func (k Keys) PositionKey(p int) string { return k.PartitionKey(p, "position") }

// LeafHeadKey holds the head of a partition's Merkle log.
func (k Keys) LeafHeadKey(p int) string { return k.PartitionKey(p, "leafhead") }

// LeavesKey holds the place of each leaf by the position of its entry in the signal log.
func (k Keys) LeavesKey(p int) string { return k.PartitionKey(p, "leaves") }

// LeafAccountsKey holds the salt and the counts of each account in the Merkle log.
func (k Keys) LeafAccountsKey(p int) string { return k.PartitionKey(p, "leafaccounts") }

// LeafMonthsKey holds the leaves of the months of each account.
func (k Keys) LeafMonthsKey(p int) string { return k.PartitionKey(p, "leafmonths") }

// TileKey holds the hashes of a tile of the Merkle log.
func (k Keys) TileKey(p, level int, n int64) string {
	return k.PartitionKey(p, "tile:"+strconv.Itoa(level)+":"+strconv.FormatInt(n, 10))
}

// RootKey holds the entries of the root log, in the slot of the partition whose owner signs.
func (k Keys) RootKey(p int) string { return k.PartitionKey(p, "root") }

// RootTileKey holds the hashes of a tile of the root log.
func (k Keys) RootTileKey(p, level int, n int64) string {
	return k.PartitionKey(p, "roottile:"+strconv.Itoa(level)+":"+strconv.FormatInt(n, 10))
}

// CheckpointKey holds the newest checkpoint, in the slot of the partition whose owner signs.
func (k Keys) CheckpointKey(p int) string { return k.PartitionKey(p, "checkpoint") }

// RollbackKey holds the last rollback of Redis that an operator has accepted.
func (k Keys) RollbackKey(p int) string { return k.PartitionKey(p, "rollback") }

// CountersignedKey holds the newest checkpoint that each witness has signed.
func (k Keys) CountersignedKey(p int) string { return k.PartitionKey(p, "countersigned") }

// AuditKey holds what the last audit has found about the accounts of a partition.
func (k Keys) AuditKey(p int) string { return k.PartitionKey(p, "audit") }

// ProbeKey is what Ready tries to write.
func (k Keys) ProbeKey(p int) string { return k.PartitionKey(p, "probe") }

// EraseKey holds the progress of the erasing of each deleted account: a hash.
func (k Keys) EraseKey(p int) string { return k.PartitionKey(p, "erase") }

// WebhooksKey holds the records of an account's webhooks.
func (k Keys) WebhooksKey(p int, a signal.AccountID) string {
	return k.PartitionKey(p, "webhooks:"+string(a))
}

// WebhookHealthKey holds the health of the endpoints of an account's webhooks.
func (k Keys) WebhookHealthKey(p int, a signal.AccountID) string {
	return k.PartitionKey(p, "webhookhealth:"+string(a))
}

// WebhookAccountsKey holds the accounts that have webhooks.
func (k Keys) WebhookAccountsKey(p int) string { return k.PartitionKey(p, "webhookaccounts") }

// WebhooksDueKey holds the webhooks with pending deliveries by when the first is due.
func (k Keys) WebhooksDueKey(p int) string { return k.PartitionKey(p, "webhooksdue") }

// WebhookStatsKey counts enabled and disabled webhooks, and pending deliveries.
func (k Keys) WebhookStatsKey(p int) string { return k.PartitionKey(p, "webhookstats") }

// WebhooksEraseKey holds the removed webhooks that still have deliveries.
func (k Keys) WebhooksEraseKey(p int) string { return k.PartitionKey(p, "webhookserase") }

// DeliveriesKey holds the records of a webhook's deliveries.
func (k Keys) DeliveriesKey(p int, w signal.WebhookID) string {
	return k.PartitionKey(p, "deliveries:"+string(w))
}

// PendingKey is the index of a webhook's pending deliveries by when they are due.
func (k Keys) PendingKey(p int, w signal.WebhookID) string {
	return k.PartitionKey(p, "pending:"+string(w))
}

// RecordedKey is the index of all deliveries of a webhook by creation, as are SucceededKey and FailedKey.
func (k Keys) RecordedKey(p int, w signal.WebhookID) string {
	return k.PartitionKey(p, "recorded:"+string(w))
}

// SucceededKey is the index of a webhook's successful deliveries.
func (k Keys) SucceededKey(p int, w signal.WebhookID) string {
	return k.PartitionKey(p, "succeeded:"+string(w))
}

// FailedKey is the index of a webhook's failed deliveries.
func (k Keys) FailedKey(p int, w signal.WebhookID) string {
	return k.PartitionKey(p, "failed:"+string(w))
}

// WaitsKey holds what the later events of a signal wait for at a webhook.
func (k Keys) WaitsKey(p int, w signal.WebhookID) string {
	return k.PartitionKey(p, "waits:"+string(w))
}

// BodiesKey holds the payloads of events.
func (k Keys) BodiesKey(p int) string { return k.PartitionKey(p, "bodies") }

// BodyRefsKey holds how many deliveries beyond the first share a payload.
func (k Keys) BodyRefsKey(p int) string { return k.PartitionKey(p, "bodyrefs") }

// MailsKey holds the mails by when to send them.
func (k Keys) MailsKey(p int) string { return k.PartitionKey(p, "mails") }

// MailRecordsKey holds the records of mails.
func (k Keys) MailRecordsKey(p int) string { return k.PartitionKey(p, "mailrecords") }

// AgentsKey holds the agents that belong to an account. See package agents.
func (k Keys) AgentsKey(p int, a signal.AccountID) string {
	return k.PartitionKey(p, "agents:"+string(a))
}

// AlertKey holds the newest alert about a topic, by the SHA-256 of its name.
func (k Keys) AlertKey(p int, a signal.AccountID, topic string) string {
	digest := sha256.Sum256([]byte(topic))
	return k.PartitionKey(p, "alert:"+string(a)+":"+hex.EncodeToString(digest[:]))
}

// IntakeRequestsKey holds the newest requests of an intake.
func (k Keys) IntakeRequestsKey(p int, a signal.AccountID, id signal.IntakeID) string {
	return k.PartitionKey(p, "alerts:"+string(a)+":"+string(id))
}

// SchedulesKey holds the records of an account's schedules.
func (k Keys) SchedulesKey(p int, a signal.AccountID) string {
	return k.PartitionKey(p, "schedules:"+string(a))
}

// SchedulesDueKey holds the enabled schedules of all accounts by when they run next.
func (k Keys) SchedulesDueKey(p int) string { return k.PartitionKey(p, "schedulesdue") }

// ScheduleRoundsKey holds the results of the rounds of an account's schedules.
func (k Keys) ScheduleRoundsKey(p int, a signal.AccountID) string {
	return k.PartitionKey(p, "schedulerounds:"+string(a))
}

// Credentials are looked up before the account is known, so they share a slot.

// AccountKey is the record of an account.
func (k Keys) AccountKey(id signal.AccountID) string { return k.authKey("account:" + string(id)) }

// AccountsKey is the index of all accounts.
func (k Keys) AccountsKey() string { return k.authKey("accounts") }

// EmailKey holds the account of an email.
func (k Keys) EmailKey(email string) string { return k.authKey("email:" + email) }

// APIKeyKey is the record of an API key.
func (k Keys) APIKeyKey(secretDigest string) string { return k.authKey("key:" + secretDigest) }

// IntakeKey holds whose intake has a token.
func (k Keys) IntakeKey(tokenDigest string) string { return k.authKey("intake:" + tokenDigest) }

// APIKeysOfKey holds the names and ids of an account's API keys that are no readers.
func (k Keys) APIKeysOfKey(account signal.AccountID) string {
	return k.authKey("keys:" + string(account))
}

// ReadersOfKey holds the names and ids of an account's readers.
func (k Keys) ReadersOfKey(account signal.AccountID) string {
	return k.authKey("readers:" + string(account))
}

// ReaderIDsKey is the index of an account's readers by creation.
func (k Keys) ReaderIDsKey(account signal.AccountID) string {
	return k.authKey("readerids:" + string(account))
}

// SessionKey is the record of a session.
func (k Keys) SessionKey(id signal.SessionID) string { return k.authKey("session:" + string(id)) }

// SessionsOfKey is the index of an account's sessions by their end.
func (k Keys) SessionsOfKey(a signal.AccountID) string { return k.authKey("sessions:" + string(a)) }

// RefreshKey holds the session of a refresh token.
func (k Keys) RefreshKey(tokenDigest string) string { return k.authKey("refresh:" + tokenDigest) }

// SlugsKey holds the account that each slug of a public record was given to.
func (k Keys) SlugsKey() string { return k.authKey("slugs") }

// LockKey holds the failed logins and the locks of an email.
func (k Keys) LockKey(emailDigest string) string { return k.authKey("lock:" + emailDigest) }

// OutboxKey holds the events of credential changes until they are appended to the event log of
// their account, which is in another slot.
func (k Keys) OutboxKey() string { return k.authKey("outbox") }

// EndedKey is the stream of the same events for all nodes, which read it to the end.
func (k Keys) EndedKey() string { return "{auth}:ended" }

// LimitKey is the token bucket of one class and account or address.
func (k Keys) LimitKey(class, who string) string { return "{limit:" + class + ":" + who + "}" }

// Keys of the whole installation.

// InstallationKey holds the settings that the first start has fixed: a hash.
func (k Keys) InstallationKey() string { return "{node}:installation" }

// NodesKey holds the live nodes by when they expire.
func (k Keys) NodesKey() string { return "{node}:live" }

// ProcessesKey holds the process of each live node and what it has published.
func (k Keys) ProcessesKey() string { return "{node}:processes" }

// NodeReadersKey holds how many connections readers have on a node.
func (k Keys) NodeReadersKey(node string) string { return "{node}:readers:" + node }

// AssignmentKey holds the node that should own each partition.
func (k Keys) AssignmentKey() string { return "{node}:assignment" }

// The streams of prices from outside have no hash tag, since their names are public.

// MarketTicksKey is the stream of ticks from outside.
func (k Keys) MarketTicksKey() string { return "market:ticks" }

// MarketBarsKey is the stream of bars from outside.
func (k Keys) MarketBarsKey() string { return "market:bars" }

// MarketOwnTicksKey is the stream of ticks of the feeder's sources.
func (k Keys) MarketOwnTicksKey() string { return k.marketKey("ticks") }

// MarketClosedKey is the stream of the bars that the feeder closed.
func (k Keys) MarketClosedKey() string { return k.marketKey("closed") }

// BarsKey is the index of an asset's bars of a timeframe by time.
func (k Keys) BarsKey(asset string, tf signal.Timeframe) string {
	return k.marketKey("bars:" + string(tf) + ":" + asset)
}

// MarketNewsKey is the stream of news.
func (k Keys) MarketNewsKey() string { return k.marketKey("news") }

// MarketStateKey is the feeder's checkpoint.
func (k Keys) MarketStateKey() string { return k.marketKey("state") }

// MarketAssetsKey holds the record of each asset.
func (k Keys) MarketAssetsKey() string { return k.marketKey("assets") }

// MarketLiveKey holds the newest tick of each asset and the minute that is still open.
func (k Keys) MarketLiveKey() string { return k.marketKey("live") }

// MarketWantedKey holds the requested symbols without a record.
func (k Keys) MarketWantedKey() string { return k.marketKey("wants") }

// MarketRefusedKey holds why a symbol gets no record.
func (k Keys) MarketRefusedKey(symbol string) string { return k.marketKey("refused:" + symbol) }

// MarketListingKey holds the assets that a source lists, by its own names.
func (k Keys) MarketListingKey(source string) string { return k.marketKey("listing:" + source) }

// MarketKeptForKey holds the account for which a symbol is kept.
func (k Keys) MarketKeptForKey() string { return k.marketKey("keptfor") }

// MarketUsedKey is the index of symbols by when they were last needed.
func (k Keys) MarketUsedKey() string { return k.marketKey("used") }

// MarketOutcomesKey is the stream of the outcomes of a timeframe.
func (k Keys) MarketOutcomesKey(tf signal.Timeframe) string {
	return k.marketKey("outcomes:" + string(tf))
}

// MarketOutcomeBarsKey holds the newest bar of each asset that has an outcome of a timeframe.
func (k Keys) MarketOutcomeBarsKey(tf signal.Timeframe) string {
	return k.marketKey("outcomebars:" + string(tf))
}

// FeederKey is the lease of the feeder.
func (k Keys) FeederKey() string { return k.marketKey("feeder") }

// FeederEpochKey is the last epoch of the feeder.
func (k Keys) FeederEpochKey() string { return k.marketKey("feederepoch") }

// WeatherKey holds an archive or a forecast of a point, as actors/weather encodes it.
func (k Keys) WeatherKey(name string) string { return "{weather}:" + name }
