package redisclient

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// fault is a reason of Redis to refuse what others may be granted.
type fault struct {
	prefix string // of the answer
	reason string
	// setting is true if waiting does not help: the address, the user, the password or
	// the rights of the user must change.
	setting bool
}

// ReplicasMissing is the reason of both Redis and this package to call a write unsafe.
const ReplicasMissing = "replicas are missing"

// ErrReplicas reports that fewer replicas than redis.wait_replicas have a write.
var ErrReplicas = errors.New(ReplicasMissing)

const (
	RefusesUser = "redis refuses the user or the password of redis.url"
	LacksRights = "the user of redis.url lacks rights in redis"
)

var faults = []fault{
	{"OOM ", "redis is full", false},
	{"READONLY ", "redis is read-only", false},
	{"MISCONF ", "redis cannot write to its disk", false},
	{"NOREPLICAS ", ReplicasMissing, false},
	{"LOADING ", "redis is loading its data", false},
	{"MASTERDOWN ", "redis has lost its master", false},
	{"CLUSTERDOWN ", "the redis cluster is not complete", false},
	{"WRONGPASS ", RefusesUser, true},
	{"NOAUTH ", RefusesUser, true},
	{"ERR AUTH ", RefusesUser, true},            // a password, and none is set
	{"ERR invalid password", RefusesUser, true}, // of a sentinel
	{"NOPERM ", LacksRights, true},
	{"ERR The user executing the script", LacksRights, true},
	{"ERR DB index", "the database number of redis.url is out of range", true},
	{"ERR invalid DB index", "the database number of redis.url is not valid", true},
}

// FaultOf returns the fault that err names; nil if it names none.
func FaultOf(err error) *fault {
	if errors.Is(err, ErrReplicas) {
		return &fault{reason: ReplicasMissing}
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return nil
	}
	for i := range faults {
		if strings.HasPrefix(answer.Error(), faults[i].prefix) {
			return &faults[i]
		}
	}
	return nil
}

// Refusal returns why Redis answers but refuses, for people, and whether a setting must
// change before it does not. It is empty where Redis cannot be reached, or for other
// errors.
func Refusal(err error) (reason string, setting bool) {
	if f := FaultOf(err); f != nil {
		return f.reason, f.setting
	}
	return "", false
}

// Unavailable returns an error of KindUnavailable that names the fault of cause, where
// Redis could be reached. Faults of settings are for operators alone.
func Unavailable(cause error) *signal.Error {
	e := signal.Unavailable(cause)
	if f := FaultOf(cause); f != nil {
		e.Message = "the store of the service refuses it"
		if !f.setting {
			e.Message += ": " + f.reason
		}
	}
	return e
}

// Execute sends the commands of a pipeline. It returns the error of the first one that
// failed, for which redis.Nil does not count. A command that was not answered has an
// error then, too: the library leaves it without one, and with a zero value, where Redis
// refuses the connection (AUTH, HELLO or SELECT is answered with an error).
func Execute(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if err == nil {
		return nil
	}
	answered := false
	for _, c := range cmds {
		if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		answered = answered || c.Err() != nil
	}
	if answered {
		return nil
	}
	for _, c := range cmds {
		c.SetErr(err)
	}
	return err
}

// Refused returns the error for a caller whose change is refused, because it is not what
// the caller takes it to be.
func Refused(code, message string) error {
	return &signal.Error{Kind: signal.KindConflict, Code: code, Message: message}
}
