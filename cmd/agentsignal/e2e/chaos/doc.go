// Package chaos contains no code besides a test, which runs several nodes of the service as processes
// on a Redis and puts both through faults while clients work. What the clients saw must then agree
// with the signal log:
//
//  1. every acknowledged signal is in the log once, and once in the list of every node;
//  2. other signals are at most those of requests that were given up;
//  3. every signal has one closing;
//  4. every creation and closing has reached its webhook at least once, under one event id;
//  5. every stream client, which resumes on another node after each end of its connection, has seen
//     every creation and closing of its account once, in the order of the log;
//  6. the epochs of each partition and of the market's feeder ascend;
//  7. webhooks and streams have shown nothing that the log does not hold;
//  8. every creation and closing has one leaf in the record, and no leaf is of anything else.
//
// Clients repeat a request with its Idempotency-Key until it is answered with success. Such a key is stored in
// Redis before its run begins: so while Redis is away, hardly a run of theirs reaches the log. During each fault others
// therefore ask for 60 runs a second, without a key and without repeats. A check that waits for more than ten
// seconds prints what is missing.
//
// CHAOS_REDIS names the Redis, whose servers have append-only files:
//
//   - server (default): one server, which is paused, killed, full and cut off. Each node reaches it by a
//     proxy of its own, which is closed or slow in some faults. On the others one node alone cannot be cut
//     off: sentinels and servers of a cluster name addresses to clients, which would leave a proxy, and
//     another network for one process needs root;
//   - sentinel: a master, two replicas and three sentinels. Masters are also replaced, and come back
//     believing that they still are masters; replicas and a sentinel are paused;
//   - cluster: a Redis Cluster of three masters with a replica each, with the same faults of masters and
//     replicas. The slots of a partition, of the credentials, of the market and of the nodes also move.
//
// All replicas must confirm (redis.wait_replicas is 2 on sentinels, 1 on the cluster): only then nothing
// is lost if a master comes back during its failover (decision 54). After a failover changes are refused
// until the former master is back as a replica, which each fault awaits.
// REDIS_SERVER names another server than redis-server.
//
// The order of the faults and their pauses follow from a seed, which the test prints. By default it
// makes each fault once, without those that take long (a further node, a slow link, slots that move, clocks
// that jump), and makes the eight checks once at the end. "make chaos" makes all faults, repeats them for CHAOS_FOR
// (10m), and makes the checks after each fault: clients then pause until all signals are closed, delivered
// and sent. CHAOS_SEED repeats a run, and CHAOS_FAULT makes only the fault of that name, in both;
// another name is refused with a list of all. A run that fails leaves the whole logs of the nodes and of
// Redis in a directory that it names.
//
// Each server has a clock of its own (redistest.OwnClocks), so that one can jump: what TIME answers, the ids
// of entries, leases and the end of keys jump with it. While a clock is behind one that was read before,
// work that is due comes late, simulated prices stand still, so that runs wait or are refused, and no
// checkpoint is signed; the checks hold all the same.
//
// "make chaos" then has the checks examined (TestPlants): it builds the program with damages that "go build -overlay" adds to
// copies of its source, lets one after another take effect, and demands that the checks find each, and that
// they find nothing in the same program while none does.
package chaos
