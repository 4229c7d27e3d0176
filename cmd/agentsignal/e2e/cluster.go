package e2e

import (
	"encoding/base64"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// SharedKeys are the signing keys of the nodes.
var SharedKeys = "main:" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// Nodes are two services on one Redis: the first can be killed. here and there are
// clients of the nodes for the same account.
type Nodes struct {
	Redis       *redistest.Server
	First       *Child
	Second      *Service
	Here, There *Client
	Account     credential.Account
}

// StartNodes starts both, with prices of ACME. One signal has been made then. sources are
// stream and more, env more settings of the first.
func StartNodes(tb testing.TB, sources string, env ...string) Nodes {
	tb.Helper()
	n := Nodes{Redis: redistest.New(tb)}
	n.First = Launch(tb, ChildSettings(tb, n.Redis.URL(), append(env, "CLUSTER=true", "AUTH_JWT_KEYS="+SharedKeys,
		"SECURITY_ENCRYPTION_KEYS="+SharedKeys, "SECURITY_RECORD_KEYS="+SharedRecordKey(tb), "LEASE=6s",
		"MARKET_SOURCE="+sources, "WEBHOOKS_ALLOWED_NETWORKS="+Loopback)...)...)
	c := TestConfig(tb, n.Redis.URL())
	c.Market.Source = sources
	c.Cluster, c.Lease = true, configs.Duration(6*time.Second)
	c.Webhooks.AllowedNetworks = []string{Loopback}
	c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(SharedKeys), configs.Secret(SharedKeys)
	c.Security.RecordKeys = configs.Secret(SharedRecordKey(tb))
	n.Second = Start(tb, c)
	n.First.AwaitReady(tb)
	NewMarket(tb, n.Redis.Client()).Open("ACME", "101.25")
	n.Second.AwaitPrices(tb, "ACME", signal.H1)
	n.There, n.Account = n.Second.Account(tb)
	n.Here = n.There.At(n.First.URL)
	n.Here.AwaitRun("ACME", "breakout")
	return n
}

var makeRecordKey = sync.OnceValues(func() (string, error) { return record.NewKey("agentsignal-test") })

// SharedRecordKey returns the key that signs the record of all nodes.
func SharedRecordKey(tb testing.TB) string {
	tb.Helper()
	key, err := makeRecordKey()
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// FirstID returns the id of the first node.
func (n Nodes) FirstID(tb testing.TB) string {
	tb.Helper()
	live, err := n.Redis.Client().ZRange(tb.Context(), "{node}:live", 0, -1).Result()
	Must(tb, err)
	for _, member := range live {
		if id, _, _ := strings.Cut(member, " "); id != n.Second.NodeID() {
			return id
		}
	}
	tb.Fatalf("the first node is not among %v", live)
	return ""
}

// Positions returns the stored positions of all partitions, and the epochs.
func (n Nodes) Positions(tb testing.TB) (positions []signal.Position, epochs []int64) {
	tb.Helper()
	rdb, k := n.Redis.Client(), n.Second.Store().Client
	for p := range k.Partitions() {
		text, _ := rdb.Get(tb.Context(), k.PositionKey(p)).Result() // fails if none is stored
		position, _ := signal.ParsePosition(text)
		positions = append(positions, position)
		text, err := rdb.Get(tb.Context(), k.EpochKey(p)).Result()
		Must(tb, err)
		epoch, err := strconv.ParseInt(text, 10, 64)
		Must(tb, err)
		epochs = append(epochs, epoch)
	}
	return positions, epochs
}

// owner returns the node that owns the partition of an account, or "".
func (n Nodes) owner(tb testing.TB, account signal.AccountID) string {
	tb.Helper()
	store := n.Second.Store().Client
	key := store.OwnerKey(store.Partition(account))
	lease, _ := n.Redis.Client().Get(tb.Context(), key).Result() // fails if no node is the owner
	node, _, _ := strings.Cut(lease, " ")
	return node
}

// AccountOf returns a client of the second node for a new account whose partition the
// node owns.
func (n Nodes) AccountOf(tb testing.TB, node string) (c *Client) {
	tb.Helper()
	Eventually(tb, "an account is one of the node "+node, func() bool {
		var a credential.Account
		c, a = n.Second.Account(tb)
		return n.owner(tb, a.ID) == node
	})
	return c
}
