package eventlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	nodeAnnounceScript = redisclient.Script(scripts, "node_announce")
	nodeAssignScript   = redisclient.Script(scripts, "node_assign")
	nodeLeaveScript    = redisclient.Script(scripts, "node_leave")
	processLiveScript  = redisclient.Script(scripts, "process_live")
)

// Nodes are the live nodes and what each of them publishes.
type Nodes struct {
	client *redisclient.Client
	// Profile is what this process publishes with its announcements. It is set before the first.
	Profile cluster.Profile
}

// AnnounceNode records that node is live for ttl as this process, with its Profile,
// and returns the members of the cluster with it. A *cluster.Refusal reports that another live
// process does not allow it, and another KindConflict, "other_partitions" or "other_installation", that
// Redis holds another installation by now.
func (s *Nodes) AnnounceNode(
	ctx context.Context, node string, ttl time.Duration, singleNode bool,
) (cluster.Members, error) {
	mode := cluster.ModeAssigned
	if singleNode {
		mode = cluster.ModeAlone
	}
	own := s.client.Installation.Record()
	keys := []string{s.client.NodesKey(), s.client.AssignmentKey(), s.client.ProcessesKey(), s.client.InstallationKey()}
	answer, err := nodeAnnounceScript.Run(ctx, s.client.RDB, keys, node, mode, ttl.Milliseconds(), s.client.Nonce,
		cmp.Or(s.Profile.Place, "-"), encodeTraits(s.Profile.Traits), own, s.client.Installation.ID()).StringSlice()
	if err != nil {
		return cluster.Members{}, redisclient.Failed(err, "announce node")
	}
	if len(answer) == 5 && answer[0] == "0" {
		return cluster.Members{}, s.refusal(answer[1], answer[2], answer[3], answer[4])
	}
	if len(answer) == 2 && answer[0] == "2" {
		if answer[1] == own {
			return cluster.Members{}, redisclient.OtherInstallation()
		}
		return cluster.Members{}, redisclient.OtherPartitions(answer[1], own)
	}
	const head = 4 // before the members
	if len(answer) <= head {
		return cluster.Members{}, fmt.Errorf("announce node: answer has %d parts", len(answer))
	}
	var m cluster.Members
	for _, member := range answer[head:] {
		name, _, _ := strings.Cut(member, " ")
		m.Live = append(m.Live, name)
	}
	slices.Sort(m.Live)
	m.Assignment, err = decodeAssignment(answer[1], answer[2], answer[3])
	return m, err
}

// refusal returns the error of an announcement that the live node does not allow. why is as in
// node_announce.lua.
func (s *Nodes) refusal(why, node, until, values string) error {
	code, advice := cluster.CodeMisfit, ""
	switch why {
	case "process":
		code = cluster.CodeOtherProcess
		advice = fmt.Sprintf("another process is live as node %s: a copied data directory has the same id, so remove "+
			"the file \"node\" from the copy, or give one of the two another data_dir", node)
	case "alone":
		code = cluster.CodeNotAlone
		advice = fmt.Sprintf("node %s uses the same Redis, and not both have the setting cluster: true: "+
			"set it for both, stop one, or give one another redis.url", node)
	default:
		advice = s.Profile.Disagreement(why, node, strings.Fields(values))
	}
	expires, err := strconv.ParseInt(until, 10, 64)
	if err != nil {
		return fmt.Errorf("announce node: %q is no time", until)
	}
	return &cluster.Refusal{Node: node, Until: expires, Err: redisclient.Refused(code, advice)}
}

// List returns the live nodes, by id, and the stored assignment.
func (s *Nodes) List(ctx context.Context) ([]cluster.Node, cluster.Assignment, error) {
	now := strconv.FormatInt(s.client.Now().UnixMilli(), 10)
	pipe := s.client.RDB.TxPipeline()
	live := pipe.ZRangeByScoreWithScores(ctx, s.client.NodesKey(), &redis.ZRangeBy{Min: "(" + now, Max: "+inf"})
	processes := pipe.HGetAll(ctx, s.client.ProcessesKey())
	stored := pipe.HMGet(ctx, s.client.AssignmentKey(), "version", "nodes", "owners")
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, cluster.Assignment{}, redisclient.Failed(err, "read nodes")
	}
	var nodes []cluster.Node
	for _, z := range live.Val() {
		member, _ := z.Member.(string)
		n := cluster.Node{Until: time.UnixMilli(int64(z.Score))}
		n.ID, n.Mode, _ = strings.Cut(member, " ")
		head, traits, _ := strings.Cut(processes.Val()[n.ID], "\n")
		if strings.HasPrefix(head, strconv.FormatInt(n.Until.UnixMilli(), 10)+" ") {
			n.Traits = decodeTraits(traits)
		}
		n.Followed = decodeFollowed(processes.Val()[followedField(n.ID)], s.client.Now())
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b cluster.Node) int { return strings.Compare(a.ID, b.ID) })
	var fields [3]string
	for i := range fields {
		fields[i], _ = stored.Val()[i].(string)
	}
	a, err := decodeAssignment(fields[0], fields[1], fields[2])
	return nodes, a, err
}

// AssignPartitions stores a and reports whether it did: it does not if the version before a is no
// longer the stored one. Then another node was faster, and the next announcement returns what it
// has stored.
func (s *Nodes) AssignPartitions(ctx context.Context, a cluster.Assignment) (bool, error) {
	nodes, owners := encodeAssignment(a)
	keys := []string{s.client.AssignmentKey()}
	stored, err := nodeAssignScript.Run(ctx, s.client.RDB, keys, a.Version, nodes, owners).Int()
	return stored == 1, redisclient.Failed(err, "assign partitions")
}

// encodeAssignment returns the names of the nodes and, by partition, the number of its owner among
// them, separated by spaces.
func encodeAssignment(a cluster.Assignment) (nodes, owners string) {
	numbers := make([]string, len(a.Owners))
	for p, node := range a.Owners {
		numbers[p] = strconv.Itoa(slices.Index(a.Nodes, node))
	}
	return strings.Join(a.Nodes, " "), strings.Join(numbers, " ")
}

// decodeAssignment is the inverse of encodeAssignment.
func decodeAssignment(version, nodes, owners string) (cluster.Assignment, error) {
	if version == "" {
		return cluster.Assignment{}, nil
	}
	var a cluster.Assignment
	var err error
	if a.Version, err = strconv.ParseInt(version, 10, 64); err != nil {
		return a, fmt.Errorf("read assignment: version %q", version)
	}
	a.Nodes = strings.Fields(nodes)
	for number := range strings.FieldsSeq(owners) {
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= len(a.Nodes) {
			return a, fmt.Errorf("read assignment: owner %q of %d", number, len(a.Nodes))
		}
		a.Owners = append(a.Owners, a.Nodes[i])
	}
	return a, nil
}

// LeaveNode removes node from those that are live, unless another process is that node by now.
func (s *Nodes) LeaveNode(ctx context.Context, node string) error {
	keys := []string{s.client.NodesKey(), s.client.ProcessesKey()}
	err := nodeLeaveScript.Run(ctx, s.client.RDB, keys, node, s.client.Nonce).Err()
	return redisclient.Failed(err, "withdraw node")
}

// ProcessLive reports whether the process of node with a nonce is live: its last announcement has not
// expired, and no other process has been that node since.
func (s *Nodes) ProcessLive(ctx context.Context, node, nonce string) (bool, error) {
	live, err := processLiveScript.Run(ctx, s.client.RDB, []string{s.client.ProcessesKey()}, node, nonce).Int()
	return live == 1, redisclient.Failed(err, "look for process")
}

// ForgetNodes removes all live nodes. It is for a Redis that only this process can have used since
// it was started.
func (s *Nodes) ForgetNodes(ctx context.Context) error {
	err := s.client.RDB.Del(ctx, s.client.NodesKey(), s.client.ProcessesKey()).Err()
	return redisclient.Failed(err, "forget former nodes")
}

// PublishFollowed records for ttl what node follows, for Followed.
func (s *Nodes) PublishFollowed(ctx context.Context, node string, list []cluster.Followed, ttl time.Duration) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", s.client.Now().Add(ttl).UnixMilli())
	for _, f := range list {
		since := int64(0)
		if f.Epoch != 0 {
			since = f.Since.UnixMilli()
		}
		fmt.Fprintf(&b, "%d %d %d %s\n", f.Partition, f.Epoch, since, strings.Join(f.Reasons, " "))
	}
	err := s.client.RDB.HSet(ctx, s.client.ProcessesKey(), followedField(node), b.String()).Err()
	return redisclient.Failed(err, "publish followed partitions")
}

// encodeTraits returns a line for each trait: its setting and its values, separated by spaces.
func encodeTraits(traits []cluster.Trait) string {
	var b strings.Builder
	for _, t := range traits {
		b.WriteString(t.Setting + " " + strings.Join(t.Values, " ") + "\n")
	}
	return b.String()
}

// decodeTraits is the inverse of encodeTraits.
func decodeTraits(text string) []cluster.Trait {
	var traits []cluster.Trait
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 {
			traits = append(traits, cluster.Trait{Setting: words[0], Values: words[1:]})
		}
	}
	return traits
}
