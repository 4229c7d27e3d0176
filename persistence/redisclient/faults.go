package redisclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// fault is a reason for which Redis refuses commands.
type fault struct {
	prefix string // of the error
	reason string
	// setting is true if waiting does not help: the address, the user, the password or the
	// rights of the user must change.
	setting bool
}

// ErrReplicas reports that fewer than redis.wait_replicas replicas have a write.
var ErrReplicas = errors.New(ReplicasMissing)

// The reasons that Refusal returns.
const (
	IsFull            = "redis is full"
	IsReadOnly        = "redis is read-only"
	CannotWriteDisk   = "redis cannot write to its disk"
	ReplicasMissing   = "replicas are missing" // Redis or this package reports a write as unsafe
	IsLoading         = "redis is loading its data"
	HasLostMaster     = "redis has lost its master"
	ClusterIncomplete = "the redis cluster is not complete"
	MovesSlot         = "redis is moving a slot to another node"
	RefusesUser       = "redis refuses the user or the password of redis.url"
	LacksRights       = "the user of redis.url lacks rights in redis"
	DatabaseTooHigh   = "the database number of redis.url is out of range"
	DatabaseNotValid  = "the database number of redis.url is not valid"
)

var faults = []fault{
	{"OOM ", IsFull, false},
	{"READONLY ", IsReadOnly, false},
	{"MISCONF ", CannotWriteDisk, false},
	{"NOREPLICAS ", ReplicasMissing, false},
	{"LOADING ", IsLoading, false},
	{"MASTERDOWN ", HasLostMaster, false},
	{"CLUSTERDOWN ", ClusterIncomplete, false},
	{"TRYAGAIN ", MovesSlot, false},
	{"WRONGPASS ", RefusesUser, true},
	{"NOAUTH ", RefusesUser, true},
	{"ERR AUTH ", RefusesUser, true},            // a password where Redis has none
	{"ERR invalid password", RefusesUser, true}, // of a sentinel
	{"NOPERM ", LacksRights, true},
	{"ERR The user executing the script", LacksRights, true},
	{"ERR DB index", DatabaseTooHigh, true},
	{"ERR invalid DB index", DatabaseNotValid, true},
}

// FaultOf returns the fault that err names, or nil.
func FaultOf(err error) *fault {
	if errors.Is(err, ErrReplicas) || errors.Is(err, ErrNotWritten) {
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

// Refusal returns why Redis has refused a command, for people, and whether a setting must
// change. The reason is empty if Redis cannot be reached, and for other errors.
func Refusal(err error) (reason string, setting bool) {
	if f := FaultOf(err); f != nil {
		return f.reason, f.setting
	}
	return "", false
}

// Reasons returns all reasons that Refusal can return.
func Reasons() []string {
	reasons := []string{ReplicasMissing}
	for i := range faults {
		if !slices.Contains(reasons, faults[i].reason) {
			reasons = append(reasons, faults[i].reason)
		}
	}
	return reasons
}

// Unavailable returns an error of KindUnavailable, which names the fault of cause unless it
// concerns a setting: those are for operators alone.
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

// Failed returns an error of KindUnavailable for the operation that the format names, which
// failed or whose reply was lost. It returns nil if err is nil.
func Failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return Unavailable(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
}

// Execute sends the commands of a pipeline. It returns the error of the first failed one, not
// counting redis.Nil. Commands without a reply get an error, too: if Redis refuses the connection
// (by an error for AUTH, HELLO or SELECT), the library leaves them with a zero value and no error.
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

// Refused returns the error for a change that is refused because the state is not what the
// caller assumes.
func Refused(code, message string) error {
	return &signal.Error{Kind: signal.KindConflict, Code: code, Message: message}
}
