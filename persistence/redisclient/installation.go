package redisclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

const (
	// MaxPartitions is the largest number of partitions. One XREAD of all costs Redis more with each.
	MaxPartitions = 1024
	// NewPartitions is the number of partitions of a new installation. With 64 an idle node and its Redis
	// take twice the CPU of 16, and three times as many commands.
	NewPartitions = 16
	// NewClusterPartitions is the same on a Redis Cluster: 16 partitions cannot be even there, 32 give none
	// of 3 to 12 masters more than 1.3 times the mean.
	NewClusterPartitions = 32
	// maxFormerPartitions is the largest number with former names.
	maxFormerPartitions = 64

	// Fields of InstallationKey.
	installedPartitions = "partitions" // Installation.String
	installedID         = "id"         // random; earlier builds did not store it
	// InstalledFormats is the version of the stored values. Earlier builds did not store it.
	InstalledFormats = "formats"
	// installedSecrets has check values of the encryption keys of the node that entered last. Earlier builds
	// did not store them, and a restore does not.
	installedSecrets = "encryption_keys"

	evenWord = "even"
)

// Installation is what the first start of an installation fixes, since it decides about the names of
// keys and what is where.
type Installation struct {
	Partitions int // 1 to MaxPartitions
	// Even gives the keys names that are spread evenly over the masters of a cluster. Installations of
	// builds before there were such names, and they themselves, use the former ones.
	Even bool
}

// String returns the installation as Redis holds it: "16", or "64 even". A build that knows no other names
// than the former ones expects a number, and therefore refuses the latter.
func (i Installation) String() string {
	if i.Even {
		return strconv.Itoa(i.Partitions) + " " + evenWord
	}
	return strconv.Itoa(i.Partitions)
}

// Keys returns the names of the installation's keys.
func (i Installation) Keys() Keys {
	if i.Even {
		return Keys{evenTags(i.Partitions)}
	}
	return Keys{}
}

// ParseInstallation is the inverse of Installation.String.
func ParseInstallation(text string) (i Installation, ok bool) {
	number, word, even := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	i = Installation{n, even}
	limit := maxFormerPartitions
	if even {
		limit = MaxPartitions
	}
	return i, err == nil && n >= 1 && n <= limit && (!even || word == evenWord) && i.String() == text
}

// Installation returns the installation whose keys c uses.
func (c *Client) Installation() Installation { return Installation{c.partitions, c.even != nil} }

// InstallationID returns what distinguishes the installation from all others, or "" if that is unknown.
func (c *Client) InstallationID() string { return c.installation }

// Installed returns o with the number of partitions, the names and the id of the installation in Redis. If there is
// none yet, it records a new one: with o.Partitions, or if that is 0 NewPartitions or NewClusterPartitions.
// KindConflict: this process may not use this Redis, since o.Partitions is another number, the record is missing or
// not valid, or the server is unfit.
func Installed(ctx context.Context, o Options) (Options, error) {
	install := func(c *Client) (string, error) {
		first := Installation{cmp.Or(o.Partitions, c.newPartitions()), true}
		if first.Partitions < 1 || first.Partitions > MaxPartitions {
			return "", errPartitions(first.Partitions)
		}
		return c.Install(ctx, first)
	}
	return o.of(ctx, install, func(c *Client) (string, error) { return c.identify(ctx, rand.Text()) })
}

// newPartitions returns how many partitions a new installation has.
func (c *Client) newPartitions() int {
	if _, ok := c.Blocking.(*redis.ClusterClient); ok {
		return NewClusterPartitions
	}
	return NewPartitions
}

// Existing is Installed for a process that only reads. KindNotFound: there is no installation.
func Existing(ctx context.Context, o Options) (Options, error) {
	install := func(*Client) (string, error) {
		return "", &signal.Error{Kind: signal.KindNotFound, Code: "no_installation",
			Message: "this Redis has no installation: start the service first, or correct redis.url"}
	}
	return o.of(ctx, install, func(*Client) (string, error) { return "", nil })
}

// of returns o with the partitions and the names of the installation, and with the id that identify
// returns; install is called without an installation.
func (o Options) of(ctx context.Context, install, identify func(*Client) (string, error)) (Options, error) {
	former := o
	former.Partitions, former.EvenSlots, former.Metrics = 1, false, nil
	c, err := NewClient(former)
	if err != nil {
		return o, err
	}
	defer c.Close()
	if o.Metrics != nil {
		c.RDB.AddHook(o.Metrics)
	}
	if err := c.CheckServer(ctx); err != nil {
		return o, err
	}
	stored, err := c.storedInstallation(ctx)
	if stored == "" && err == nil {
		stored, err = install(c)
	}
	if err != nil {
		return o, err
	}
	i, ok := ParseInstallation(stored)
	if stored == restoringText {
		return o, errRestoring
	}
	if !ok {
		return o, Refused(cluster.CodeOtherInstallation, fmt.Sprintf("this Redis is of an installation that this build does not "+
			"know (partitions: %q): use the build that set it up, or a later one", stored))
	}
	if o.Partitions != 0 && o.Partitions != i.Partitions {
		return o, OtherPartitions(stored, strconv.Itoa(o.Partitions))
	}
	o.Partitions, o.EvenSlots = i.Partitions, i.Even
	o.InstallationID, err = identify(c)
	return o, err
}

// errPartitions reports a number of partitions that is out of range.
func errPartitions(n int) error {
	return fmt.Errorf("partitions is %d: must be 1 to %d", n, MaxPartitions)
}

// OtherPartitions returns the error of a process that would use other keys than the installation. Both are texts of
// Installation.String, of which the setting has only the number.
func OtherPartitions(stored, want string) error {
	number, _, _ := strings.Cut(stored, " ")
	if wanted, _, _ := strings.Cut(want, " "); wanted != number {
		stored, want = number, wanted
	}
	return Refused(cluster.CodeOtherPartitions, fmt.Sprintf("this Redis was set up with partitions: %s, and the setting says "+
		"%s: it cannot be changed later; without the setting, the number is that of the installation", stored, want))
}

// OtherInstallation returns the error of a process whose Redis has another installation of the same form.
func OtherInstallation() error {
	return Refused(cluster.CodeOtherInstallation, "this Redis has another installation than when this process started: "+
		"it was emptied and set up again, or redis.url leads to another Redis; correct that, or start again to use it")
}

// storedInstallation returns the text of the installation's record, or "" without one. KindConflict,
// "lost_installation": Redis has accounts although it has no record, and a new installation would not
// find them.
func (c *Client) storedInstallation(ctx context.Context) (string, error) {
	even := Installation{1, true}.Keys()
	pipe := c.RDB.Pipeline()
	stored := pipe.HGet(ctx, c.InstallationKey(), installedPartitions)
	former, later := pipe.Exists(ctx, c.AccountsKey()), pipe.Exists(ctx, even.AccountsKey())
	if err := Execute(ctx, pipe); err != nil {
		return "", Failed(err, "read installation")
	}
	if stored.Val() != "" || former.Val()+later.Val() == 0 {
		return stored.Val(), nil
	}
	value := "NUMBER"
	if later.Val() > 0 {
		value = "'NUMBER " + evenWord + "'"
	}
	return "", Refused("lost_installation", fmt.Sprintf("this Redis has accounts, but its record of the installation is "+
		"lost: restore it from a backup, or by the command HSET %s %s %s with the number of partitions that it had",
		c.InstallationKey(), installedPartitions, value))
}

// Install records i if there is no installation yet, and returns the text of the record. KindUnavailable:
// also if it was recorded, and replicas may lack it.
func (c *Client) Install(ctx context.Context, i Installation) (stored string, err error) {
	pipe := c.RDB.TxPipeline()
	recorded := pipe.HSetNX(ctx, c.InstallationKey(), installedPartitions, i.String())
	got := pipe.HGet(ctx, c.InstallationKey(), installedPartitions)
	if err := Execute(ctx, pipe); err != nil {
		return "", Failed(err, "read installation")
	}
	if recorded.Val() {
		err = c.ConfirmInstallation(ctx)
	}
	return got.Val(), err
}

// ConfirmInstallation is ConfirmRead for the record of the installation.
func (c *Client) ConfirmInstallation(ctx context.Context) error {
	return c.ConfirmRead(ctx, c.ConfirmNodeKey())
}

// identify records id as that of the installation if it has none yet, and returns the recorded one.
func (c *Client) identify(ctx context.Context, id string) (stored string, err error) {
	pipe := c.RDB.TxPipeline()
	pipe.HSetNX(ctx, c.InstallationKey(), installedID, id)
	got := pipe.HGet(ctx, c.InstallationKey(), installedID)
	err = Execute(ctx, pipe)
	return got.Val(), Failed(err, "read installation")
}

// CheckInstallation returns KindConflict, "other_partitions" or "other_installation", if the installation
// in Redis is not that of c. It records that of c if Redis has no record.
func (c *Client) CheckInstallation(ctx context.Context) error {
	want := c.Installation()
	stored, err := c.Install(ctx, want)
	if err == nil && stored != want.String() {
		err = OtherPartitions(stored, want.String())
	}
	if err != nil || c.installation == "" {
		return err
	}
	id, err := c.identify(ctx, c.installation)
	if err == nil && id != c.installation {
		err = OtherInstallation()
	}
	return err
}

// SecretKeys returns the check values that RecordSecretKeys has recorded, or none.
func (c *Client) SecretKeys(ctx context.Context) ([]string, error) {
	text, err := c.RDB.HGet(ctx, c.InstallationKey(), installedSecrets).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, Failed(err, "read installation")
	}
	return strings.Fields(text), nil
}

// RecordSecretKeys records check values of the keys that encrypt secrets in place of the former ones.
func (c *Client) RecordSecretKeys(ctx context.Context, values []string) error {
	err := c.RDB.HSet(ctx, c.InstallationKey(), installedSecrets, strings.Join(values, " ")).Err()
	return Failed(err, "record keys")
}

// LostSecretKeys returns the error of a process that has none of the keys that encrypted stored secrets.
func (c *Client) LostSecretKeys(setting string) error {
	return Refused("other_keys", fmt.Sprintf("%s: secrets of webhooks are stored, and this node has none of the keys that the "+
		"last one had: give it one of them; if they are lost, the command HDEL %s %s lets other keys in, and webhooks cannot "+
		"be signed until their secrets are replaced", setting, c.InstallationKey(), installedSecrets))
}
