// Package persistence stores the records of the service in Redis. No other package imports the
// Redis client.
//
// Store is the connection and the records that most callers need. Each kind of record has a
// package of its own:
//
//	redisclient  the client, replies, faults, waits for replicas, the names of keys
//	codec        the encoding of records that one change stores together
//	eventlog     operations, the log and its tail, trimming, leases, nodes
//	credentials  accounts, keys, sessions, locks of logins
//	signals      reads of signals, and the runs that are due
//	leaves       Merkle logs over the signal logs, and their checkpoint
//	audits       results of the last audit
//	requests     replies to repeated requests, rates of callers
//	deliveries   webhooks, deliveries, mails
//	outcomes     how past entries of all assets ended
//	jobs, schedules
//	market       prices, assets, news, weather
//
// Package backup copies all of them into a file and back.
//
// This package has what spans them: the erasing of accounts and the gauges. Package datadir has the
// id of a node and the Redis that it starts for itself. Tests use redistest (servers) and
// storetest (stores and records).
//
// # Keys
//
// redisclient/keys.go makes the names of all keys, and a test compares them with this table. The part in
// braces is the hash tag: keys with the same tag lie in one slot of a Redis Cluster, so that one script
// may use them. NN is the partition of the account. The table leaves out the letters with which the tags
// of partitions, of credentials and of the market end ({p07-qb}, {auth-ex}, {market-vz}). They spread
// the slots evenly over any number of masters (redisclient/tags.go). {auth}:ended has none.
//
//	key                           type   content                                        lifetime
//	{pNN}:events                  stream event log: h = routing fields, d = payload     1 h and 1 M entries
//	{pNN}:signals                 stream signal log: creations (m = metadata), closings 90 days, longer while open
//	{pNN}:blocks                  stream 10,000 entries of it a block: h = for lists, m = for slopes  as the log
//	{pNN}:open                    hash   ULID of each open signal -> state, updates     until it is closed
//	{pNN}:batch:WRITER            string number and result of a writer's last batch     10 min
//	{pNN}:reply:ACCOUNT:DIGEST    string a request's lock, then its reply               as the request, then 24 h
//	{pNN}:runsdue                 zset   runs under way by their latest end             until they end
//	{pNN}:job:JOB                 hash   a job                                          until 24 h after its end
//	{pNN}:jobs:ACCOUNT            zset   jobs of an account by creation                 1 h longer than the jobs
//	{pNN}:jobs:ACCOUNT:STATUS     zset   jobs with one status by creation               1 h longer than the jobs
//	{pNN}:jobs:ACCOUNT:ended      zset   ended jobs by when they are forgotten          1 h longer than the jobs
//	{pNN}:jobqueue                stream waiting and running jobs, group "jobs"         until a job ends
//	{pNN}:owner                   string node and epoch that own the partition          the lease
//	{pNN}:confirm                 string nothing: a write for a WAIT to wait for        a minute
//	{pNN}:epoch                   string the last epoch given                           for ever
//	{pNN}:position                string up to where events have had their effect       for ever
//	{pNN}:leafhead                string size, root and position of the Merkle log      for ever
//	{pNN}:leaves                  stream places of leaves under the ids of their entries for ever
//	{pNN}:leafaccounts            hash   salt and counts of each account with leaves    until it is erased
//	{pNN}:leafmonths              hash   "ACCOUNT N" -> leaf of its n-th month          until it is erased
//	{pNN}:tile:LEVEL:NUMBER       string 256 hashes of the Merkle log                   for ever
//	{pNN}:root                    stream sizes of all Merkle logs at each checkpoint    for ever
//	{pNN}:roottile:LEVEL:NUMBER   string 256 hashes of the log of checkpoints           for ever
//	{pNN}:checkpoint              string the newest one, signed                         for ever
//	{pNN}:rollback                string the last rollback that an operator accepted    for ever
//	{pNN}:countersigned           hash   witness -> the newest checkpoint that it signed  for ever
//	{pNN}:audit                   hash   time of the last audit, its result by account  until the next audit
//	{pNN}:probe                   string nothing: a write that replicas must confirm    a minute
//	{pNN}:erase                   hash   deleted accounts that are being erased         until it is done
//	{pNN}:webhooks:ACCOUNT        hash   webhooks of an account, behind their position  until they are removed
//	{pNN}:webhookhealth:ACCOUNT   hash   since when their endpoints fail                until a success
//	{pNN}:webhookaccounts         set    accounts that have webhooks                    until they have none
//	{pNN}:webhooksdue             zset   webhooks by when their first delivery is due   while one is pending
//	{pNN}:webhookstats            hash   pending deliveries, enabled, disabled webhooks for ever
//	{pNN}:webhookserase           hash   removed webhooks that are being erased         until it is done
//	{pNN}:deliveries:WEBHOOK      hash   ULID of each delivery -> its record            30 days, the newest 10,000
//	{pNN}:recorded:WEBHOOK        zset   deliveries by creation                         as the delivery
//	{pNN}:pending:WEBHOOK         zset   pending deliveries by when they are due        until their end
//	{pNN}:succeeded:WEBHOOK       zset   successful deliveries by creation              as the delivery
//	{pNN}:failed:WEBHOOK          zset   failed deliveries by creation                  as the delivery
//	{pNN}:waits:WEBHOOK           hash   signals -> what their later events wait for    48 h after the last change
//	{pNN}:bodies                  hash   ULID of an event, checksum -> its payload      as its last delivery
//	{pNN}:bodyrefs                hash   deliveries of a body beyond the first          as the body
//	{pNN}:mails                   zset   mails by when to send them                     until they are sent
//	{pNN}:mailrecords             hash   the records of these mails                     as the mail
//	{pNN}:agents:ACCOUNT          hash   agents of an account, and "#AGENT" -> revision until the account is erased
//	{pNN}:alert:ACCOUNT:DIGEST    string the newest alert about a topic                 1 min
//	{pNN}:alerts:ACCOUNT:INTAKE   stream alerts that an intake has received             30 days, the newest 200
//	{pNN}:schedules:ACCOUNT       hash   schedules of an account                        until they are removed
//	{pNN}:schedulerounds:ACCOUNT  hash   "SCHEDULE FIELD" -> the results of its rounds  as the schedule
//	{pNN}:schedulesdue            zset   enabled schedules by when they run next        while they are enabled
//	{auth}:account:ACCOUNT        hash   an account                                     until it is deleted
//	{auth}:accounts               zset   accounts by creation                           for ever
//	{auth}:email:EMAIL            string the account of an email                        as the account
//	{auth}:key:DIGEST             hash   an API key, by the SHA-256 of its secret       until it is revoked
//	{auth}:intake:DIGEST          string account and agent of an intake, by its token   until it is revoked
//	{auth}:keys:ACCOUNT           hash   names and ids of an account's keys             as the account
//	{auth}:readers:ACCOUNT        hash   the same of its readers                        as the account
//	{auth}:readerids:ACCOUNT      zset   ids of its readers by creation                 as the account
//	{auth}:session:SESSION        hash   a login                                        until its tokens expire
//	{auth}:sessions:ACCOUNT       zset   sessions of an account by their end            as the account, at most 100
//	{auth}:refresh:DIGEST         string the session of a refresh token's fixed part    as the session
//	{auth}:slugs                  hash   slug -> the account that it was given to       for ever
//	{auth}:lock:DIGEST            hash   failed logins and locks of an email            24 h after the last
//	{auth}:confirm                string nothing: a write for a WAIT to wait for        a minute
//	{auth}:ended                  stream the same events, for the caches of all nodes     the newest 1,000
//	{auth}:outbox                 zset   events of credential changes, not yet logged   until they are
//	{limit:CLASS:WHO}             string a token bucket                                 until it is full
//	{node}:installation           hash   what the first start has fixed                 for ever
//	{node}:confirm                string nothing: a write for a WAIT to wait for        a minute
//	{node}:assignment             hash   the node that should own each partition        for ever
//	{node}:live                   zset   live nodes by when they expire                 as announced
//	{node}:processes              hash   node -> its process, what must agree, it follows  about as announced
//	{node}:readers:NODE           hash   reader -> its connections on the node          5 s after the last renewal
//	market:ticks                  stream prices as clients give them                    15 min and 1 M
//	market:bars                   stream bars as clients give them                      until they are stored
//	{market}:ticks                stream rounds of prices, from the feeder alone        15 min and 1 M
//	{market}:closed               stream bars that were closed                          15 min
//	{market}:bars:TF:ASSET        zset   bars of an asset and timeframe by time         the newest 1,500
//	{market}:news                 stream news                                           what strategies look back
//	{market}:state                hash   the feeder's checkpoint                        for ever
//	{market}:assets               hash   record of each asset                           until it is removed
//	{market}:live                 hash   each asset's newest tick and open minute       until it is removed
//	{market}:wants                hash   requested symbol without a record -> account   until the feeder decides
//	{market}:listing:SOURCE       string the assets that a source lists                 24 h
//	{market}:keptfor              hash   symbol -> the account that first asked for it  while it is kept
//	{market}:used                 zset   symbols by when they were last needed          while they are kept
//	{market}:refused:SYMBOL       string why there is no record                         seconds to minutes
//	{market}:outcomes:TF          stream how past entries of all assets ended            the newest 200,000
//	{market}:outcomebars:TF       hash   asset -> its newest bar in this stream         for ever, 400 assets
//	{market}:feeder               string the feeder's node and epoch                    the lease
//	{market}:feederepoch          string the last epoch given                           for ever
//	{weather}:NAME                string days of a point: archive, forecast             for ever, a forecast 12 h
//
// # Promises
//
// Log appends a signal.Change by one script: all of it or nothing, and once, however often it
// must be sent. The position of an event is the id of its entry, and its time: milliseconds of
// Redis' clock, ascending. A change that was acknowledged survives the end of any process of
// the service, and of Redis as far as its append-only file does. A change that was not
// acknowledged may be stored or not, but not twice.
//
// With Options.WaitReplicas an acknowledged change also survives the loss of the master, if one
// of the replicas that have it takes its place. Every acknowledged change (Log, accounts, keys,
// sessions, jobs, replies) waits for the replicas, and so do a kept reply and a refusal, which
// may show a change that has not waited. Without enough replicas the error is KindUnavailable,
// although the change may be stored; this master then already refuses credentials that the
// change has ended. While replicas are known to be missing, other changes are refused before they
// are sent (ErrNotWritten), or with Options.AcceptWithoutReplicas acknowledged without a wait. The
// events of Tail and ReadLog also wait, and so do reads that callers keep or that are of another slot than
// the account's records: ScanSignals, EachRecord, EachLeaf, EachWeatherEntry, Keys, Accounts, Checkpoint, Countersigned.
// After other reads of an account's records, who shows them calls Store.ConfirmRead. Failed logins and their locks,
// leases, positions, prices, bars, news and authentication do not wait.
//
// Tail gives a node all events of the partitions that it follows in their order, once, and reports
// where it cannot. Ended credentials reach all nodes, by a stream of their own.
// The owner of a partition reads the same log from its stored position, after which it may see
// events again; trimming waits for it. If Redis has lost acknowledged events,
// Tail.OnRollback reports it, and the owner starts again under a new epoch.
//
// Writes that only the owner of a partition may make name its epoch and are refused under a
// newer one. Refusals are *signal.Error of KindConflict. KindUnavailable reports that Redis is
// unreachable or refuses a command (see Refusal). redis.Nil becomes KindNotFound.
//
// Stored values begin with a version, and only that version reads them; a later version will
// also read the one before it. An unreadable entry is logged and skipped, so that one bad record
// blocks no other. It is not removed, and one that is due is read again later.
package persistence
