package persistence

import "github.com/agentsignal/agentsignal/actors/signal"

// Every key name of the service is made in this file. The part in braces is the
// hash tag: keys with the same tag live in one slot of a Redis Cluster, so that
// one script may touch them. doc.go has the table of what they hold.

// partitionKey returns the key name in partition p: "{p07}:name".
func partitionKey(p int, name string) string {
	const digits = "0123456789"
	return string([]byte{'{', 'p', digits[p/10], digits[p%10], '}', ':'}) + name
}

// confirmKey and confirmAuthKey are written only so that a WAIT has something to wait for.
func confirmKey(p int) string { return partitionKey(p, "confirm") }
func confirmAuthKey() string  { return "{auth}:confirm" }

func eventsKey(p int) string  { return partitionKey(p, "events") }
func signalsKey(p int) string { return partitionKey(p, "signals") }
func openKey(p int) string    { return partitionKey(p, "open") }

// batchKey remembers the last batch that a writer appended: one key a writer and
// partition, since a writer has one batch under way.
func batchKey(p int, writer string) string { return partitionKey(p, "batch:"+writer) }

// replyKey is where the answer to a request with an Idempotency-Key is kept.
func replyKey(p int, account signal.AccountID, digest string) string {
	return partitionKey(p, "reply:"+string(account)+":"+digest)
}

// jobKey is a job's record, jobsOfKey the index of an account's jobs by time,
// jobQueueKey the stream from which nodes take work.
func jobKey(p int, id signal.JobID) string { return partitionKey(p, "job:"+string(id)) }
func jobsOfKey(p int, account signal.AccountID) string {
	return partitionKey(p, "jobs:"+string(account))
}
func jobQueueKey(p int) string { return partitionKey(p, "jobqueue") }

// jobsWithKey is jobsOfKey for the jobs with one status, jobsEndedKey the index of
// ended jobs by the time at which they are forgotten.
func jobsWithKey(p int, account signal.AccountID, status signal.JobStatus) string {
	return jobsOfKey(p, account) + ":" + string(status)
}
func jobsEndedKey(p int, account signal.AccountID) string { return jobsOfKey(p, account) + ":ended" }

// runsDueKey holds the runs that have announced themselves, by when they must end.
func runsDueKey(p int) string { return partitionKey(p, "runsdue") }

// ownerKey is the lease of a partition, epochKey its last epoch, positionKey the
// engine's position in its event log.
func ownerKey(p int) string    { return partitionKey(p, "owner") }
func epochKey(p int) string    { return partitionKey(p, "epoch") }
func positionKey(p int) string { return partitionKey(p, "position") }

// probeKey is what Ready tries to write.
func probeKey(p int) string { return partitionKey(p, "probe") }

// eraseKey holds the deleted accounts of which records are left, with how far the
// erasing has come: a hash.
func eraseKey(p int) string { return partitionKey(p, "erase") }

// webhooksKey holds the records of an account's webhooks, webhookHealthKey how their
// endpoints do, webhookAccountsKey the accounts that have webhooks.
func webhooksKey(p int, a signal.AccountID) string { return partitionKey(p, "webhooks:"+string(a)) }
func webhookHealthKey(p int, a signal.AccountID) string {
	return partitionKey(p, "webhookhealth:"+string(a))
}
func webhookAccountsKey(p int) string { return partitionKey(p, "webhookaccounts") }

// webhooksDueKey holds the webhooks with pending deliveries by when the first is due,
// webhookStatsKey counts, webhooksEraseKey the removed webhooks that left deliveries.
func webhooksDueKey(p int) string   { return partitionKey(p, "webhooksdue") }
func webhookStatsKey(p int) string  { return partitionKey(p, "webhookstats") }
func webhooksEraseKey(p int) string { return partitionKey(p, "webhookserase") }

// deliveriesKey holds the records of a webhook's deliveries. pendingKey is the index
// of those that are pending by when they are due, the others are by creation: of all,
// and of those that succeeded or failed.
func deliveriesKey(p int, w signal.WebhookID) string { return partitionKey(p, "deliveries:"+string(w)) }
func pendingKey(p int, w signal.WebhookID) string    { return partitionKey(p, "pending:"+string(w)) }
func recordedKey(p int, w signal.WebhookID) string   { return partitionKey(p, "recorded:"+string(w)) }
func succeededKey(p int, w signal.WebhookID) string  { return partitionKey(p, "succeeded:"+string(w)) }
func failedKey(p int, w signal.WebhookID) string     { return partitionKey(p, "failed:"+string(w)) }

// waitsKey holds what the later events of a signal wait for at a webhook.
func waitsKey(p int, w signal.WebhookID) string { return partitionKey(p, "waits:"+string(w)) }

// bodiesKey holds what is sent of events, bodyRefsKey how many deliveries beyond the
// first share a body.
func bodiesKey(p int) string   { return partitionKey(p, "bodies") }
func bodyRefsKey(p int) string { return partitionKey(p, "bodyrefs") }

// mailsKey holds mails that are to be sent by when, mailRecordsKey what they are.
func mailsKey(p int) string       { return partitionKey(p, "mails") }
func mailRecordsKey(p int) string { return partitionKey(p, "mailrecords") }

// schedulesKey holds the records of an account's schedules, schedulesDueKey those of
// all accounts that are enabled, by when they run next.
func schedulesKey(p int, a signal.AccountID) string { return partitionKey(p, "schedules:"+string(a)) }
func schedulesDueKey(p int) string                  { return partitionKey(p, "schedulesdue") }

// scheduleRoundsKey holds what came of the rounds of an account's schedules.
func scheduleRoundsKey(p int, a signal.AccountID) string {
	return partitionKey(p, "schedulerounds:"+string(a))
}

// Credentials are looked up before the account is known, so they share a slot.

func accountKey(id signal.AccountID) string        { return "{auth}:account:" + string(id) }
func accountsKey() string                          { return "{auth}:accounts" }
func emailKey(email string) string                 { return "{auth}:email:" + email }
func apiKeyKey(secretDigest string) string         { return "{auth}:key:" + secretDigest }
func apiKeysOfKey(account signal.AccountID) string { return "{auth}:keys:" + string(account) }
func sessionKey(id signal.SessionID) string        { return "{auth}:session:" + string(id) }
func sessionsOfKey(a signal.AccountID) string      { return "{auth}:sessions:" + string(a) }
func refreshKey(tokenDigest string) string         { return "{auth}:refresh:" + tokenDigest }
func lockKey(emailDigest string) string            { return "{auth}:lock:" + emailDigest }

// outboxKey holds the events of credential changes until they are appended to
// their account's event log, which lies in another slot.
func outboxKey() string { return "{auth}:outbox" }

// limitKey is the token bucket of one class and account or address.
func limitKey(class, who string) string { return "{limit:" + class + ":" + who + "}" }

// Keys of the whole installation.

// installationKey holds what was fixed at first start: a hash.
func installationKey() string { return "{node}:installation" }

// nodesKey holds the live nodes by the time until which they are.
func nodesKey() string { return "{node}:live" }

// The two streams through which prices come in have the names that others write to.

func marketTicksKey() string { return "market:ticks" }

func marketOwnTicksKey() string { return "{market}:ticks" }
func marketBarsKey() string     { return "market:bars" }

// marketClosedKey is the stream of the bars that the feeder closed, barsKey the
// record of an asset's bars, marketStateKey the feeder's checkpoint.
func marketClosedKey() string { return "{market}:closed" }
func barsKey(asset string, tf signal.Timeframe) string {
	return "{market}:bars:" + string(tf) + ":" + asset
}
func marketNewsKey() string  { return "{market}:news" }
func marketStateKey() string { return "{market}:state" }

// marketAssetsKey holds the record of each asset, marketLiveKey its newest tick
// and the minute that is still open: hashes by asset.
func marketAssetsKey() string { return "{market}:assets" }
func marketLiveKey() string   { return "{market}:live" }

// marketWantedKey holds the symbols that were asked for and have no record,
// marketRefusedKey why one gets none.
func marketWantedKey() string { return "{market}:wants" }

// marketListingKey holds what a source calls the assets that it lists.
func marketListingKey(source string) string { return "{market}:listing:" + source }

// marketKeptForKey holds the account for which a symbol was taken up, marketUsedKey when
// symbols were needed last.
func marketKeptForKey() string              { return "{market}:keptfor" }
func marketUsedKey() string                 { return "{market}:used" }
func marketRefusedKey(symbol string) string { return "{market}:refused:" + symbol }

func feederKey() string      { return "{market}:feeder" }
func feederEpochKey() string { return "{market}:feederepoch" }

// weatherKey holds an archive or a forecast of a point, as package weather writes it.
func weatherKey(name string) string { return "{weather}:" + name }
