// Package persistence keeps what the service knows in Redis. Nothing else imports
// the Redis client.
//
// Store is the connection and the records that most callers need, each kind of which has a
// package of its own:
//
//	redis        the client, replies, faults, waits for replicas, the names of keys
//	codec        the bytes of what one change stores together
//	eventlog     operations, the log and its tail, trimming, leases, nodes
//	credentials  accounts, keys, sessions, locks of logins
//	signals      reading signals back, and the runs that are due
//	requests     replies to repeat, rates of callers
//	deliveries   webhooks, deliveries, mails
//	jobs, schedules, market
//
// Here is what spans them: the erasing of accounts, the gauges, the embedded server.
//
// # Keys
//
// The part in braces is the hash tag: keys with the same tag lie in one slot of a
// Redis Cluster, so that one script may touch them. NN is the partition of the
// account, from Store.Partition. redis/keys.go makes the names; a test compares.
//
//	key                           type    content                                              lifetime
//	{pNN}:events                  stream  event log: h = routing fields packed, d = payload    1 h and 1 M entries, see Trimmer
//	{pNN}:signals                 stream  signal log: creations (m = metadata), closings       90 days, and while a signal is open
//	{pNN}:open                    hash    ULID of each open signal -> its state                until it is closed
//	{pNN}:batch:WRITER            string  number and result of a writer's last batch           10 min
//	{pNN}:reply:ACCOUNT:DIGEST    string  a request's lock, then its reply                     60 s, then 24 h
//	{pNN}:runsdue                 zset    runs under way by the time they must have ended      until they end
//	{pNN}:job:JOB                 hash    a job                                                until 24 h after its end
//	{pNN}:jobs:ACCOUNT            zset    jobs of an account by creation                       1 h longer than the last job
//	{pNN}:jobs:ACCOUNT:STATUS     zset    those with one status by creation                    as that
//	{pNN}:jobs:ACCOUNT:ended      zset    those that ended by when they are forgotten          as that
//	{pNN}:jobqueue                stream  jobs that wait or are worked on, group "jobs"        until a job ends
//	{pNN}:owner                   string  node and epoch that own the partition                the lease
//	{pNN}:confirm                 string  nothing: a write for a WAIT to wait for              a minute
//	{pNN}:epoch                   string  the last epoch given                                 for ever
//	{pNN}:position                string  up to where events have had their effect             for ever
//	{pNN}:probe                   string  nothing: a write to see whether replicas have it     a minute
//	{pNN}:erase                   hash    deleted accounts that are being erased               until that is done
//	{pNN}:webhooks:ACCOUNT        hash    webhooks of an account, behind their position        until they are removed
//	{pNN}:webhookhealth:ACCOUNT   hash    since when their endpoints fail                      until a success
//	{pNN}:webhookaccounts         set     accounts that have webhooks                          until they have none
//	{pNN}:webhooksdue             zset    webhooks by the time their first delivery is due     while one is pending
//	{pNN}:webhookstats            hash    pending deliveries, enabled and disabled webhooks    for ever
//	{pNN}:webhookserase           hash    removed webhooks whose deliveries are being erased   until that is done
//	{pNN}:deliveries:WEBHOOK      hash    ULID of each delivery -> its record                  30 days after its end, the newest 10,000
//	{pNN}:recorded:WEBHOOK        zset    deliveries by creation                               as the delivery
//	{pNN}:pending:WEBHOOK         zset    those that are pending by when they are due          until their end
//	{pNN}:succeeded:WEBHOOK       zset    those that succeeded by creation                     as the delivery
//	{pNN}:failed:WEBHOOK          zset    those that failed by creation                        as the delivery
//	{pNN}:waits:WEBHOOK           hash    signals -> what their later events wait for          48 h after the last change
//	{pNN}:bodies                  hash    ULID of an event, checksum -> what is sent of it     as its last delivery
//	{pNN}:bodyrefs                hash    deliveries of a body beyond the first                as the body
//	{pNN}:mails                   zset    mails to be sent by when                             until they are sent
//	{pNN}:mailrecords             hash    what they are                                        as the mail
//	{pNN}:schedules:ACCOUNT       hash    schedules of an account                              until they are removed
//	{pNN}:schedulerounds:ACCOUNT  hash    "SCHEDULE FIELD" -> what came of its rounds          as the schedule
//	{pNN}:schedulesdue            zset    enabled schedules by when they run next              while they are enabled
//	{auth}:account:ACCOUNT        hash    an account                                           until it is deleted
//	{auth}:accounts               zset    accounts by creation                                 for ever
//	{auth}:email:EMAIL            string  the account of an email                              as the account
//	{auth}:key:DIGEST             hash    an API key, by the SHA-256 of its secret             until it is revoked
//	{auth}:keys:ACCOUNT           hash    names and ids of an account's keys                   as the account
//	{auth}:session:SESSION        hash    a login                                              until none of its tokens can be valid
//	{auth}:sessions:ACCOUNT       zset    sessions of an account by their end                  as the account, at most 100
//	{auth}:refresh:DIGEST         string  the session of a refresh token's fixed part          as the session
//	{auth}:lock:DIGEST            hash    failed logins and locks of an email                  24 h after the last
//	{auth}:confirm                string  nothing: a write for a WAIT to wait for              a minute
//	{auth}:outbox                 zset    events of credential changes, not yet in their log   until they are
//	{limit:CLASS:WHO}             string  a token bucket                                       until it is full
//	{node}:installation           hash    what was fixed at first start                        for ever
//	{node}:live                   zset    nodes by the time until which they are live          as announced
//	market:ticks                  stream  prices as clients give them                         15 min and 1 M
//	market:bars                   stream  bars as clients give them                   until they are stored
//	{market}:ticks                stream  prices of the feeder's sources, from it alone        15 min and 1 M
//	{market}:closed               stream  bars that were closed                                15 min
//	{market}:bars:TF:ASSET        zset    bars of an asset and timeframe by time               the newest 1,500
//	{market}:news                 stream  news                                                 as far as strategies look back
//	{market}:state                hash    the feeder's checkpoint                              for ever
//	{market}:assets               hash    record of each asset                                 until it is removed
//	{market}:live                 hash    each asset's newest tick and open minute             until it is removed
//	{market}:wants                hash    symbol asked for that has no record -> the account   until the feeder settles it
//	{market}:listing:SOURCE       string  what a source calls the assets that it lists         24 h after it was asked
//	{market}:keptfor              hash    symbol -> the account that it was taken up for       while it is kept
//	{market}:used                 zset    symbols by when they were needed last                while they are kept
//	{market}:refused:SYMBOL       string  why there is no record                               seconds to minutes
//	{market}:feeder               string  the feeder's node and epoch                          the lease
//	{market}:feederepoch          string  the last epoch given                                 for ever
//	{weather}:NAME                string  days of a point: its archive, its forecast           for ever, a forecast 12 h
//
// # Promises
//
// Log appends what a signal.Change names by one script: all of it or nothing, and
// once, however often it must be sent. The position of an event is its entry's id,
// and its time: milliseconds of Redis' clock, ascending. What a caller was answered
// survives the end of any process of ours, and of Redis as far as its append-only
// file does. What a caller was not answered may have happened or not, but not twice.
//
// With Options.WaitReplicas what a caller was answered survives the loss of the master,
// too, if one of so many replicas takes its place: every change that is answered
// (Log, accounts, keys, sessions, jobs, replies) waits for them, and so do a kept reply
// and a refusal, which may show a change that was not waited for. Without enough
// replicas the answer is KindUnavailable, although the change may stand; credentials
// that were to end are refused by this master from then on. Not waited for: failed
// logins and their locks, leases, positions, prices, bars and news, and what is
// only read, such as lists and the events that Tail gives.
//
// Tail gives every node all events in their order, once, and reports where it cannot.
// The engine of a partition's owner reads the same log from its stored position,
// after which it may see events again. Trimming waits for it. Where Redis has lost events
// that it had acknowledged, Tail.OnRollback reports it, and the owner begins again under
// a new epoch.
//
// Writes that only the owner of a partition may make name its epoch and are refused
// under a newer one. Refusals are *signal.Error of KindConflict; an unreachable Redis
// is KindUnavailable, as is one that refuses what it should do (see Refusal); redis.Nil
// leaves this package as KindNotFound.
//
// Stored values begin with a version and are read by this one only: a later version
// will read the one before it. An entry that cannot be read is logged and passed
// over, so that one bad record stops no other. It is not removed: what is to be done at a
// time is read again later.
package persistence
