package redisclient

import (
	"strconv"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// This file makes every key name of the service. The part in braces is the hash tag: keys with
// the same tag are in one slot of a Redis Cluster, so that one script may use them.
// persistence/doc.go has the table of their contents.

// PartitionKey returns the key name in partition p: "{p07}:name".
func PartitionKey(p int, name string) string {
	const digits = "0123456789"
	return string([]byte{'{', 'p', digits[p/10], digits[p%10], '}', ':'}) + name
}

// ConfirmKey is written only to give a WAIT a write to wait for.
func ConfirmKey(p int) string { return PartitionKey(p, "confirm") }

// ConfirmAuthKey is ConfirmKey for credentials.
func ConfirmAuthKey() string { return "{auth}:confirm" }

// EventsKey is the event log of a partition.
func EventsKey(p int) string { return PartitionKey(p, "events") }

// SignalsKey is the signal log of a partition.
func SignalsKey(p int) string { return PartitionKey(p, "signals") }

// OpenKey holds the open signals of a partition.
func OpenKey(p int) string { return PartitionKey(p, "open") }

// BatchKey remembers the last batch of a writer, which has one batch per partition under way.
func BatchKey(p int, writer string) string { return PartitionKey(p, "batch:"+writer) }

// ReplyKey holds the reply to a request with an Idempotency-Key.
func ReplyKey(p int, account signal.AccountID, digest string) string {
	return PartitionKey(p, "reply:"+string(account)+":"+digest)
}

// JobKey is a job's record.
func JobKey(p int, id signal.JobID) string { return PartitionKey(p, "job:"+string(id)) }

// JobsOfKey is the index of an account's jobs by time.
func JobsOfKey(p int, account signal.AccountID) string {
	return PartitionKey(p, "jobs:"+string(account))
}

// JobQueueKey is the stream from which nodes take work.
func JobQueueKey(p int) string { return PartitionKey(p, "jobqueue") }

// JobsWithKey is JobsOfKey for the jobs with one status.
func JobsWithKey(p int, account signal.AccountID, status signal.JobStatus) string {
	return JobsOfKey(p, account) + ":" + string(status)
}

// JobsEndedKey is the index of ended jobs by the time at which they are forgotten.
func JobsEndedKey(p int, account signal.AccountID) string { return JobsOfKey(p, account) + ":ended" }

// RunsDueKey holds the runs that have announced themselves, by when they must end.
func RunsDueKey(p int) string { return PartitionKey(p, "runsdue") }

// OwnerKey is the lease of a partition.
func OwnerKey(p int) string { return PartitionKey(p, "owner") }

// EpochKey is the last epoch of a partition.
func EpochKey(p int) string { return PartitionKey(p, "epoch") }

// PositionKey is the owner's position in the event log of a partition.
func PositionKey(p int) string { return PartitionKey(p, "position") }

// LeafHeadKey holds the head of a partition's Merkle log.
func LeafHeadKey(p int) string { return PartitionKey(p, "leafhead") }

// LeavesKey holds the place of each leaf by the position of its entry in the signal log.
func LeavesKey(p int) string { return PartitionKey(p, "leaves") }

// LeafAccountsKey holds the salt and the counts of each account in the Merkle log.
func LeafAccountsKey(p int) string { return PartitionKey(p, "leafaccounts") }

// TileKey holds the hashes of a tile of the Merkle log.
func TileKey(p, level int, n int64) string {
	return PartitionKey(p, "tile:"+strconv.Itoa(level)+":"+strconv.FormatInt(n, 10))
}

// CheckpointKey holds the newest checkpoint, in the slot of the partition whose owner signs.
func CheckpointKey(p int) string { return PartitionKey(p, "checkpoint") }

// CountersignedKey holds the newest checkpoint that each witness has signed.
func CountersignedKey(p int) string { return PartitionKey(p, "countersigned") }

// AuditKey holds what the last audit has found about the accounts of a partition.
func AuditKey(p int) string { return PartitionKey(p, "audit") }

// ProbeKey is what Ready tries to write.
func ProbeKey(p int) string { return PartitionKey(p, "probe") }

// EraseKey holds the progress of the erasing of each deleted account: a hash.
func EraseKey(p int) string { return PartitionKey(p, "erase") }

// WebhooksKey holds the records of an account's webhooks.
func WebhooksKey(p int, a signal.AccountID) string { return PartitionKey(p, "webhooks:"+string(a)) }

// WebhookHealthKey holds the health of the endpoints of an account's webhooks.
func WebhookHealthKey(p int, a signal.AccountID) string {
	return PartitionKey(p, "webhookhealth:"+string(a))
}

// WebhookAccountsKey holds the accounts that have webhooks.
func WebhookAccountsKey(p int) string { return PartitionKey(p, "webhookaccounts") }

// WebhooksDueKey holds the webhooks with pending deliveries by when the first is due.
func WebhooksDueKey(p int) string { return PartitionKey(p, "webhooksdue") }

// WebhookStatsKey counts enabled and disabled webhooks, and pending deliveries.
func WebhookStatsKey(p int) string { return PartitionKey(p, "webhookstats") }

// WebhooksEraseKey holds the removed webhooks that still have deliveries.
func WebhooksEraseKey(p int) string { return PartitionKey(p, "webhookserase") }

// DeliveriesKey holds the records of a webhook's deliveries. PendingKey is the index of the
// pending ones by when they are due; the other indexes are by creation: of all, of the
// successful and of the failed ones.
func DeliveriesKey(p int, w signal.WebhookID) string { return PartitionKey(p, "deliveries:"+string(w)) }
func PendingKey(p int, w signal.WebhookID) string    { return PartitionKey(p, "pending:"+string(w)) }
func RecordedKey(p int, w signal.WebhookID) string   { return PartitionKey(p, "recorded:"+string(w)) }
func SucceededKey(p int, w signal.WebhookID) string  { return PartitionKey(p, "succeeded:"+string(w)) }
func FailedKey(p int, w signal.WebhookID) string     { return PartitionKey(p, "failed:"+string(w)) }

// WaitsKey holds what the later events of a signal wait for at a webhook.
func WaitsKey(p int, w signal.WebhookID) string { return PartitionKey(p, "waits:"+string(w)) }

// BodiesKey holds the payloads of events, BodyRefsKey how many deliveries beyond the first
// share one.
func BodiesKey(p int) string   { return PartitionKey(p, "bodies") }
func BodyRefsKey(p int) string { return PartitionKey(p, "bodyrefs") }

// MailsKey holds the mails by when to send them, MailRecordsKey their records.
func MailsKey(p int) string       { return PartitionKey(p, "mails") }
func MailRecordsKey(p int) string { return PartitionKey(p, "mailrecords") }

// SchedulesKey holds the records of an account's schedules, SchedulesDueKey the enabled
// schedules of all accounts by when they run next.
func SchedulesKey(p int, a signal.AccountID) string { return PartitionKey(p, "schedules:"+string(a)) }
func SchedulesDueKey(p int) string                  { return PartitionKey(p, "schedulesdue") }

// ScheduleRoundsKey holds the results of the rounds of an account's schedules.
func ScheduleRoundsKey(p int, a signal.AccountID) string {
	return PartitionKey(p, "schedulerounds:"+string(a))
}

// Credentials are looked up before the account is known, so they share a slot.

// AccountKey is the record of an account, AccountsKey the index of all, EmailKey the account of
// an email.
func AccountKey(id signal.AccountID) string        { return "{auth}:account:" + string(id) }
func AccountsKey() string                          { return "{auth}:accounts" }
func EmailKey(email string) string                 { return "{auth}:email:" + email }
func APIKeyKey(secretDigest string) string         { return "{auth}:key:" + secretDigest }
func APIKeysOfKey(account signal.AccountID) string { return "{auth}:keys:" + string(account) }
func SessionKey(id signal.SessionID) string        { return "{auth}:session:" + string(id) }
func SessionsOfKey(a signal.AccountID) string      { return "{auth}:sessions:" + string(a) }
func RefreshKey(tokenDigest string) string         { return "{auth}:refresh:" + tokenDigest }
func LockKey(emailDigest string) string            { return "{auth}:lock:" + emailDigest }

// OutboxKey holds the events of credential changes until they are appended to the event log of
// their account, which is in another slot.
func OutboxKey() string { return "{auth}:outbox" }

// EndedKey is the stream of the same events for all nodes, which read it to the end.
func EndedKey() string { return "{auth}:ended" }

// LimitKey is the token bucket of one class and account or address.
func LimitKey(class, who string) string { return "{limit:" + class + ":" + who + "}" }

// Keys of the whole installation.

// InstallationKey holds the settings that the first start has fixed: a hash.
func InstallationKey() string { return "{node}:installation" }

// NodesKey holds the live nodes by when they expire.
func NodesKey() string { return "{node}:live" }

// AssignmentKey holds the node that should own each partition.
func AssignmentKey() string { return "{node}:assignment" }

// The streams of prices from outside have no hash tag, since their names are public.

// MarketTicksKey takes ticks from outside, MarketBarsKey bars, MarketOwnTicksKey the ticks of
// the feeder.
func MarketTicksKey() string    { return "market:ticks" }
func MarketBarsKey() string     { return "market:bars" }
func MarketOwnTicksKey() string { return "{market}:ticks" }

// MarketClosedKey is the stream of the bars that the feeder closed, BarsKey the
// record of an asset's bars, MarketStateKey the feeder's checkpoint.
func MarketClosedKey() string { return "{market}:closed" }
func BarsKey(asset string, tf signal.Timeframe) string {
	return "{market}:bars:" + string(tf) + ":" + asset
}
func MarketNewsKey() string  { return "{market}:news" }
func MarketStateKey() string { return "{market}:state" }

// MarketAssetsKey holds the record of each asset, MarketLiveKey its newest tick
// and the minute that is still open: hashes by asset.
func MarketAssetsKey() string { return "{market}:assets" }
func MarketLiveKey() string   { return "{market}:live" }

// MarketWantedKey holds the requested symbols without a record, MarketRefusedKey why a symbol
// gets none.
func MarketWantedKey() string               { return "{market}:wants" }
func MarketRefusedKey(symbol string) string { return "{market}:refused:" + symbol }

// MarketListingKey holds the assets that a source lists, by its own names.
func MarketListingKey(source string) string { return "{market}:listing:" + source }

// MarketKeptForKey holds the account for which a symbol is kept, MarketUsedKey when symbols
// were last needed.
func MarketKeptForKey() string { return "{market}:keptfor" }
func MarketUsedKey() string    { return "{market}:used" }

// MarketOutcomesKey is the stream of the outcomes of a timeframe, MarketOutcomeBarsKey the newest
// bar of each asset with one.
func MarketOutcomesKey(tf signal.Timeframe) string    { return "{market}:outcomes:" + string(tf) }
func MarketOutcomeBarsKey(tf signal.Timeframe) string { return "{market}:outcomebars:" + string(tf) }

// FeederKey is the lease of the feeder, FeederEpochKey its last epoch.
func FeederKey() string      { return "{market}:feeder" }
func FeederEpochKey() string { return "{market}:feederepoch" }

// WeatherKey holds an archive or a forecast of a point, as actors/weather encodes it.
func WeatherKey(name string) string { return "{weather}:" + name }
