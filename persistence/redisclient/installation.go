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
	"github.com/agentsignal/agentsignal/persistence/codec"
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

	// Fields of InstallationKey.
	installedPartitions = "partitions" // Installation.Record
	installedID         = "id"         // random; earlier builds did not store it
	// installedFormats is the version of the stored values. Earlier builds did not store it.
	installedFormats = "formats"
	// installedSecrets has check values of the encryption keys of the node that entered last. Earlier builds
	// did not store them, and a restore does not.
	installedSecrets = "encryption_keys"

	evenWord = "even"
)

// recordOf returns the record of an installation, "16 even": the number of its partitions and the word for
// tags whose slots are spread evenly. Both are fixed by the first start, since they decide about the names
// of keys and what is where.
func recordOf(partitions int) string { return strconv.Itoa(partitions) + " " + evenWord }

// parseRecord is the inverse of recordOf.
func parseRecord(text string) (partitions int, ok bool) {
	number, _, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	return n, err == nil && n >= 1 && n <= MaxPartitions && recordOf(n) == text
}

// Installation is the installation that Redis holds: its record in {node}:installation, which the first start
// makes and every other compares with its own settings.
type Installation struct {
	rdb     redis.UniversalClient
	keys    Keys
	servers *Servers
	reads   *Reads
	nonce   string
	id      string // Options.InstallationID
}

// Record returns the record of the installation whose keys this process uses.
func (i *Installation) Record() string { return recordOf(i.keys.Partitions()) }

// ID returns what distinguishes the installation from all others, or "" if that is unknown.
func (i *Installation) ID() string { return i.id }

// Installed returns o with the number of partitions, the names and the id of the installation in Redis. If there is
// none yet, it records a new one: with o.Partitions, or if that is 0 NewPartitions or NewClusterPartitions.
// KindConflict: this process may not use this Redis, since o.Partitions is another number, the record is missing or
// not valid, or the server is unfit.
func Installed(ctx context.Context, o Options) (Options, error) {
	install := func(i *Installation) (string, error) {
		partitions := cmp.Or(o.Partitions, i.newPartitions())
		if partitions < 1 || partitions > MaxPartitions {
			return "", errPartitions(partitions)
		}
		return i.store(ctx, recordOf(partitions))
	}
	return o.of(ctx, install, func(i *Installation) (string, error) { return i.identify(ctx, rand.Text()) })
}

// newPartitions returns how many partitions a new installation has.
func (i *Installation) newPartitions() int {
	if _, ok := i.servers.cluster(); ok {
		return NewClusterPartitions
	}
	return NewPartitions
}

// Existing is Installed for a process that only reads. KindNotFound: there is no installation.
func Existing(ctx context.Context, o Options) (Options, error) {
	install := func(*Installation) (string, error) {
		return "", &signal.Error{Kind: signal.KindNotFound, Code: "no_installation",
			Message: "this Redis has no installation: start the service first, or correct redis.url"}
	}
	return o.of(ctx, install, func(*Installation) (string, error) { return "", nil })
}

// of returns o with the partitions and the names of the installation, and with the id that identify
// returns; install is called without an installation.
func (o Options) of(ctx context.Context, install, identify func(*Installation) (string, error)) (Options, error) {
	asking := o // the number of partitions does not matter before it is known
	asking.Partitions, asking.Metrics = 1, nil
	c, err := NewClient(asking)
	if err != nil {
		return o, err
	}
	defer c.Close()
	if o.Metrics != nil {
		c.RDB.AddHook(o.Metrics)
	}
	if err := c.Servers.Check(ctx); err != nil {
		return o, err
	}
	stored, err := c.Installation.stored(ctx)
	if stored == "" && err == nil {
		stored, err = install(c.Installation)
	}
	if err != nil {
		return o, err
	}
	partitions, ok := parseRecord(stored)
	if stored == restoringText {
		return o, errRestoring
	}
	if !ok {
		return o, Refused(cluster.CodeOtherInstallation, fmt.Sprintf("this Redis is of an installation that this build does not "+
			"know (partitions: %q): use the build that set it up, or a later one", stored))
	}
	if o.Partitions != 0 && o.Partitions != partitions {
		return o, OtherPartitions(stored, recordOf(o.Partitions))
	}
	o.Partitions = partitions
	o.InstallationID, err = identify(c.Installation)
	return o, err
}

// errPartitions reports a number of partitions that is out of range.
func errPartitions(n int) error {
	return fmt.Errorf("partitions is %d: must be 1 to %d", n, MaxPartitions)
}

// OtherPartitions returns the error of a process that would use other keys than the installation. Both are
// records, of which the setting has only the number.
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

// stored returns the text of the installation's record, or "" without one. KindConflict,
// "lost_installation": Redis has accounts although it has no record, and a new installation would not
// find them.
func (i *Installation) stored(ctx context.Context) (string, error) {
	pipe := i.rdb.Pipeline()
	stored, accounts := pipe.HGet(ctx, i.keys.InstallationKey(), installedPartitions), pipe.Exists(ctx, i.keys.AccountsKey())
	if err := Execute(ctx, pipe); err != nil {
		return "", Failed(err, "read installation")
	}
	if stored.Val() != "" || accounts.Val() == 0 {
		return stored.Val(), nil
	}
	return "", Refused("lost_installation", fmt.Sprintf("this Redis has accounts, but its record of the installation is "+
		"lost: restore it from a backup, or by the command HSET %s %s 'NUMBER %s' with the number of partitions that it had",
		i.keys.InstallationKey(), installedPartitions, evenWord))
}

// store stores a record if there is no installation yet, and returns the one that is stored. KindUnavailable:
// also if it was stored, and replicas may lack it.
func (i *Installation) store(ctx context.Context, record string) (stored string, err error) {
	pipe := i.rdb.TxPipeline()
	recorded := pipe.HSetNX(ctx, i.keys.InstallationKey(), installedPartitions, record)
	got := pipe.HGet(ctx, i.keys.InstallationKey(), installedPartitions)
	if err := Execute(ctx, pipe); err != nil {
		return "", Failed(err, "read installation")
	}
	if recorded.Val() {
		err = i.Confirm(ctx)
	}
	return got.Val(), err
}

// Confirm is Reads.Confirm for the record of the installation.
func (i *Installation) Confirm(ctx context.Context) error {
	return i.reads.Confirm(ctx, i.keys.ConfirmNodeKey())
}

// identify records id as that of the installation if it has none yet, and returns the recorded one.
func (i *Installation) identify(ctx context.Context, id string) (stored string, err error) {
	pipe := i.rdb.TxPipeline()
	pipe.HSetNX(ctx, i.keys.InstallationKey(), installedID, id)
	got := pipe.HGet(ctx, i.keys.InstallationKey(), installedID)
	err = Execute(ctx, pipe)
	return got.Val(), Failed(err, "read installation")
}

// check returns KindConflict, "other_partitions" or "other_installation", if the installation in Redis is
// not that of this process. It records that if Redis has no record.
func (i *Installation) check(ctx context.Context) error {
	want := i.Record()
	stored, err := i.store(ctx, want)
	if err == nil && stored != want {
		err = OtherPartitions(stored, want)
	}
	if err != nil || i.id == "" {
		return err
	}
	id, err := i.identify(ctx, i.id)
	if err == nil && id != i.id {
		err = OtherInstallation()
	}
	return err
}

// Install records what the first start of an installation fixes and compares it with the
// settings of this process. KindConflict: they differ, or the server is unfit, and this process may
// not run.
func (i *Installation) Install(ctx context.Context) error {
	if err := i.servers.Check(ctx); err != nil {
		return err
	}
	if err := i.check(ctx); err != nil {
		return err
	}
	recorded, err := i.rdb.HSetNX(ctx, i.keys.InstallationKey(), installedFormats, codec.Version).Result()
	if err != nil {
		return Failed(err, "record installation")
	}
	if recorded {
		if err := i.Confirm(ctx); err != nil {
			return err
		}
	}
	return i.CheckFormats(ctx)
}

// CheckFormats returns KindConflict, "other_formats", if the stored values have another version than
// this build reads.
func (i *Installation) CheckFormats(ctx context.Context) error {
	stored, err := i.rdb.HGet(ctx, i.keys.InstallationKey(), installedFormats).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return Failed(err, "read installation")
	}
	if want := strconv.Itoa(codec.Version); stored != "" && stored != want {
		return Refused("other_formats", fmt.Sprintf("this Redis has data in version %s of the formats, and "+
			"this build reads version %s: use a build for that version, or another redis.url", stored, want))
	}
	return nil
}

// SecretKeys returns the check values that RecordSecretKeys has recorded, or none.
func (i *Installation) SecretKeys(ctx context.Context) ([]string, error) {
	text, err := i.rdb.HGet(ctx, i.keys.InstallationKey(), installedSecrets).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, Failed(err, "read installation")
	}
	return strings.Fields(text), nil
}

// RecordSecretKeys records check values of the keys that encrypt secrets in place of the former ones.
func (i *Installation) RecordSecretKeys(ctx context.Context, values []string) error {
	err := i.rdb.HSet(ctx, i.keys.InstallationKey(), installedSecrets, strings.Join(values, " ")).Err()
	return Failed(err, "record keys")
}

// LostSecretKeys returns the error of a process that has none of the keys that encrypted stored secrets.
func (i *Installation) LostSecretKeys(setting string) error {
	return Refused("other_keys", fmt.Sprintf("%s: secrets of webhooks are stored, and this node has none of the keys that the "+
		"last one had: give it one of them; if they are lost, the command HDEL %s %s lets other keys in, and webhooks cannot "+
		"be signed until their secrets are replaced", setting, i.keys.InstallationKey(), installedSecrets))
}
