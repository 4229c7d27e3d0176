package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestClusterStatus(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	o := operator(t, commandtest.StoreSettings(t, redis.URL(), "")...)
	o.Fails("this Redis has no installation", "cluster", "status")
	if keys := redis.Client().Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("the command has written %v", keys)
	}

	options, err := redisclient.Installed(t.Context(), persistence.Options{URL: redis.URL(), Timeout: time.Minute})
	commandtest.Must(t, err)
	if _, err := o.Try("", "cluster", "status"); err == nil || command.ExitCode(clusterStatus(nil), err) != command.ExitFailed ||
		!strings.Contains(err.Error(), "partitions without an owner: [0 1 ") {
		t.Errorf("without nodes: %v", err)
	}
	store, err := persistence.Open(options)
	commandtest.Must(t, err)
	defer store.Client.Close()
	announce := func(node, lease string) {
		store.Logs.Nodes.Profile.Traits = []cluster.Trait{{Setting: "lease", Values: []string{lease}}}
		_, err := store.Logs.Nodes.AnnounceNode(t.Context(), node, time.Hour, false)
		commandtest.Must(t, err)
	}
	announce("node_a", "1h")
	redis.Client().HDel(t.Context(), "{node}:processes", "node_a") // as of an earlier build
	announce("node_b", "5s")
	owners := slices.Repeat([]string{"node_a", "node_b"}, store.Client.Partitions()/2)
	_, err = store.Logs.Nodes.AssignPartitions(t.Context(), cluster.Assignment{Version: 1, Nodes: []string{"node_a", "node_b"},
		Owners: owners})
	commandtest.Must(t, err)
	for p := range store.Client.Partitions() {
		if p != 3 {
			_, _, err = store.Logs.Leases.TakeLease(t.Context(), p, owners[p], time.Hour)
			commandtest.Must(t, err)
		}
	}
	epoch := func(p int) int64 {
		_, epoch, err := store.Logs.Leases.Owner(t.Context(), p)
		commandtest.Must(t, err)
		return epoch
	}
	since := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	commandtest.Must(t, store.Logs.Nodes.PublishFollowed(t.Context(), "node_b", []cluster.Followed{
		{Partition: 4, Reasons: []string{"lists"}},
		{Partition: 5, Reasons: []string{"owned", "lists"}, Epoch: epoch(5), Since: since},
		{Partition: 7, Reasons: []string{"owned"}, Epoch: epoch(7) - 1, Since: since}, // a lease that it has lost
	}, time.Hour))
	_, _, err = market.New(store.Client).TakeLease(t.Context(), "node_b", time.Hour)
	commandtest.Must(t, err)
	commandtest.Must(t, redis.Client().Do(t.Context(), "XADD", store.Client.EventsKey(5), "1000-7", "h", "x", "d", "y").Err())

	out, err := o.Try("", "cluster", "status", "-o", "json")
	if err == nil || command.ExitCode(clusterStatus(nil), err) != command.ExitFailed ||
		!strings.Contains(err.Error(), "partitions without an owner: [3]") {
		t.Errorf("with a partition that has no owner: %v", err)
	}
	var status service.ClusterStatus
	commandtest.Must(t, json.Unmarshal([]byte(out), &status))
	if n := status.Nodes; len(n) != 2 || n[0].Node != "node_a" || n[1].Node != "node_b" || n[1].Mode != "cluster" ||
		n[0].Owns != 8 || n[1].Owns != 7 {
		t.Errorf("nodes %+v", n)
	}
	if f := status.Nodes[1].Follows; status.Nodes[0].Follows != nil || !slices.Equal(f["owned"], []int{5, 7}) ||
		!slices.Equal(f["lists"], []int{4, 5}) {
		t.Errorf("followed by %+v", status.Nodes)
	}
	if p := status.Partitions; p[5].Since != "2026-11-01T12:00:00Z" || p[4].Since != "" || p[7].Since != "" {
		t.Errorf("owned since %q, %q, %q", p[5].Since, p[4].Since, p[7].Since)
	}
	if p := status.Partitions[3]; p.Assigned != "node_b" || p.Owner != "" {
		t.Errorf("partition 3: %+v", p)
	}
	if p := status.Partitions[5]; p.Owner != "node_b" || p.Epoch == 0 || p.Position != "0-0" || p.LagMS < 1e12 {
		t.Errorf("partition 5: %+v", p)
	}
	if p := status.Partitions[6]; p.LagMS != 0 {
		t.Errorf("partition 6: %+v", p)
	}
	if status.Feeder != "node_b" || status.FeederEpoch == 0 {
		t.Errorf("feeder %q, epoch %d", status.Feeder, status.FeederEpoch)
	}
	if len(status.Misfits) != 0 { // the default lease is 5 s
		t.Errorf("misfits %v", status.Misfits)
	}

	_, _, err = store.Logs.Leases.TakeLease(t.Context(), 3, "node_b", time.Hour)
	commandtest.Must(t, err)
	announce("node_c", "5s")
	redis.Client().HSet(t.Context(), "{node}:processes", "node_c", strings.Replace(
		redis.Client().HGet(t.Context(), "{node}:processes", "node_c").Val(), "lease 5s", "lease 6s", 1))
	out = o.Do("cluster", "status")
	words := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"node_a - -", "node_b lists 4 5 node_b owned 5 7", "5 node_b node_b 2026-11-01T12:00:00Z",
		"6 node_a node_a - "} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	for _, want := range []string{"NODE", "node_b", "feeds", "PARTITION", "DISAGREEMENTS\n",
		"lease: node_b has 5s and node_c has 6s\n", "lease: node_c has 6s and this configuration has 5s\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	o.Fails("--output must be table or json, not \"xml\"", "cluster", "status", "-o", "xml")
}
