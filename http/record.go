package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Record proves what was recorded of signals. See leaves.Store of persistence.
type Record interface {
	// Partition returns the log of an account.
	Partition(account signal.AccountID) int
	// Checkpoint returns the newest checkpoint. KindNotFound before the first one.
	Checkpoint(ctx context.Context) ([]byte, *verify.Checkpoint, error)
	// LogHead returns the head that a log had with its first n leaves. now is a later head.
	LogHead(ctx context.Context, partition int, n int64, now tlog.Tree) (tlog.Tree, error)
	// OpenLeaf returns the leaf of an entry of the signal log. KindNotFound: the signal or its
	// salt was erased. KindConflict: the leaf is newer than the head.
	OpenLeaf(ctx context.Context, partition int, account signal.AccountID, at signal.Position,
		head tlog.Tree) (*verify.Leaf, error)
	// LogConsistency returns, for each log of c, the proof that it begins with so many leaves.
	LogConsistency(ctx context.Context, sizes []int64, c *verify.Checkpoint) ([]tlog.TreeProof, error)
	// Tile returns the hashes of a tile. KindNotFound.
	Tile(ctx context.Context, partition int, tile tlog.Tile) ([]byte, error)
}

const (
	// maxSizes is the greatest length of a list of sizes: 15 digits and a comma for each log.
	maxSizes = 16 * verify.MaxLogs
	// maxTilePath is the greatest length of the path of a tile.
	maxTilePath = 64
	// tileHeight is the height of all tiles.
	tileHeight = 8
	// retryNotSigned is when to ask again for a proof that no checkpoint supports yet. The next one
	// follows a leaf within record.every, 10 seconds unless set.
	retryNotSigned = 10 * time.Second
)

var (
	headerText  = []string{"text/plain; charset=utf-8"}
	headerBytes = []string{typeBytes}
)

// typeBytes is the media type of a tile as other verifiers read it.
const typeBytes = "application/octet-stream"

var errNotSigned = &signal.Error{Kind: signal.KindConflict, Code: "not_signed",
	Message:    "no checkpoint has it yet: one follows within seconds, ask again then",
	RetryAfter: retryNotSigned}

// signalProof is the answer to GET /v1/signals/{id}/proof. Closed is nil while the signal is
// open, and while its closing is newer than the checkpoint.
type signalProof struct {
	Checkpoint string       `json:"checkpoint,omitempty"` // none for a given size of the log
	Created    *verify.Leaf `json:"created"`
	Closed     *verify.Leaf `json:"closed"`
}

// consistencyProof is the answer to GET /v1/log/consistency.
type consistencyProof struct {
	Checkpoint string           `json:"checkpoint,omitempty"` // none for given sizes of the newer one
	From       []int64          `json:"from"`
	To         []int64          `json:"to"`
	Proofs     []tlog.TreeProof `json:"proofs"`
}

// tileView is the answer to GET /v1/log/tiles/{log}/{path}.
type tileView struct {
	Log    int         `json:"log"`
	Path   string      `json:"path"`
	Hashes []tlog.Hash `json:"hashes"`
}

// RecordHandlers answer for the record and its witnesses.
type RecordHandlers struct {
	record    Record
	witnesses Witnesses
	signals   SignalFinder
	keys      []string
}

// NewRecordHandlers returns the handlers of a record with public keys.
func NewRecordHandlers(record Record, witnesses Witnesses, signals SignalFinder, keys []string) *RecordHandlers {
	return &RecordHandlers{record, witnesses, signals, keys}
}

// Routes implements Resource. All that they show rests on a confirmed checkpoint.
func (h *RecordHandlers) Routes() []*Route {
	const scope = signal.SignalsRead
	return []*Route{
		route("/v1/signals/{id}/proof", methods{"GET": immediate(get(scope, h.proveSignal, "log_size"))}),
		route("/v1/log/checkpoint", methods{"GET": immediate(get(scope, h.checkpoint))}),
		route("/v1/log/key", methods{"GET": immediate(get(scope, h.publicKeys))}),
		route("/v1/log/witness", methods{"GET": immediate(get(scope, h.listWitnesses)),
			"POST": change(scope, h.countersign)}),
		route("/v1/log/consistency", methods{"GET": immediate(get(scope, h.proveConsistency, "from", "to"))}),
		route("/v1/log/tiles/{log}/{path}", methods{"GET": immediate(get(scope, h.tile))}),
	}
}

// newest returns the newest checkpoint, with the signatures of witnesses.
func (h *RecordHandlers) newest(ctx context.Context) ([]byte, *verify.Checkpoint, error) {
	signed, head, err := h.record.Checkpoint(ctx)
	if signal.KindOf(err) == signal.KindNotFound {
		return nil, nil, errNotSigned
	}
	if err == nil {
		signed, err = h.witnesses.Merge(ctx, signed)
	}
	return signed, head, err
}

// checkpoint answers GET /v1/log/checkpoint.
func (h *RecordHandlers) checkpoint(c *call) error {
	signed, _, err := h.newest(c.r.Context())
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, headerText, signed)
}

// publicKeys answers GET /v1/log/key.
func (h *RecordHandlers) publicKeys(c *call) error {
	return c.send(http.StatusOK, headerText, []byte(strings.Join(h.keys, "\n")+"\n"))
}

// proveSignal answers GET /v1/signals/{id}/proof.
func (h *RecordHandlers) proveSignal(c *call) error {
	ctx, account := c.r.Context(), c.principal.Account
	size := c.query.Get("log_size")
	if err := c.faults.Err(); err != nil {
		return err
	}
	id, ok := signal.ParseSignalID(c.vars["id"])
	if !ok {
		return signal.NotFound("signal")
	}
	created, closed, err := h.signals.Find(ctx, account, id)
	if err != nil {
		return err
	}
	signed, newest, err := h.newest(ctx)
	if err != nil {
		return err
	}
	p := h.record.Partition(account)
	if p >= len(newest.Logs) {
		return fmt.Errorf("checkpoint has %d logs, and not that of partition %d", len(newest.Logs), p)
	}
	head, answer := newest.Logs[p], signalProof{Checkpoint: string(signed)}
	if size != "" {
		if head, err = h.headAt(c, size, p, head); err != nil {
			return err
		}
		answer.Checkpoint = ""
	}
	open := func(at signal.Position) (*verify.Leaf, error) {
		return h.record.OpenLeaf(ctx, p, account, at, head)
	}
	if answer.Created, err = open(created); err != nil {
		return notInCheckpoint(err, size, p)
	}
	if !closed.IsZero() {
		answer.Closed, err = open(closed)
		if err != nil && signal.KindOf(err) != signal.KindConflict {
			return err
		}
	}
	return c.value(http.StatusOK, answer)
}

// headAt reads log_size, and returns the head that log p had with so many leaves.
func (h *RecordHandlers) headAt(c *call, size string, p int, now tlog.Tree) (tlog.Tree, error) {
	n, err := strconv.ParseUint(size, 10, 63)
	if err != nil || n > uint64(now.N) {
		c.faults.Add(request.InQuery, "log_size", request.CodeOutOfRange, fmt.Sprintf("must be from 0 to %d: "+
			"the first number after \"log %d\" in your checkpoint", now.N, p))
		return tlog.Tree{}, c.faults.Err()
	}
	return h.record.LogHead(c.r.Context(), p, int64(n), now)
}

// notInCheckpoint returns the error for a leaf that is newer than the head of log p.
func notInCheckpoint(err error, size string, p int) error {
	if signal.KindOf(err) != signal.KindConflict {
		return err
	}
	if size == "" {
		return errNotSigned
	}
	return &signal.Error{Kind: signal.KindConflict, Code: errNotSigned.Code, Message: fmt.Sprintf(
		"the signal is not among the first %s leaves of log %d: take a newer checkpoint", size, p)}
}

// proveConsistency answers GET /v1/log/consistency.
func (h *RecordHandlers) proveConsistency(c *call) error {
	from, to := c.query.Text("from", maxSizes), c.query.Text("to", maxSizes)
	if err := c.faults.Err(); err != nil {
		return err
	}
	ctx := c.r.Context()
	signed, newer, err := h.newest(ctx)
	if err != nil {
		return err
	}
	answer := consistencyProof{Checkpoint: string(signed)}
	if to != "" {
		if newer, err = h.headsAt(c, to, newer); err != nil {
			return err
		}
		answer.Checkpoint = ""
	}
	if answer.From, err = readSizes(c, "from", from, newer); err != nil {
		return err
	}
	for _, l := range newer.Logs {
		answer.To = append(answer.To, l.N)
	}
	if answer.Proofs, err = h.record.LogConsistency(ctx, answer.From, newer); err != nil {
		return err
	}
	return c.value(http.StatusOK, answer)
}

// headsAt returns the heads that the logs had with the sizes in the parameter to.
func (h *RecordHandlers) headsAt(c *call, to string, newest *verify.Checkpoint) (*verify.Checkpoint, error) {
	sizes, err := readSizes(c, "to", to, newest)
	if err != nil {
		return nil, err
	}
	older := &verify.Checkpoint{Logs: slices.Clone(newest.Logs)}
	for p, n := range sizes {
		if older.Logs[p], err = h.record.LogHead(c.r.Context(), p, n, newest.Logs[p]); err != nil {
			return nil, err
		}
	}
	return older, nil
}

// readSizes reads the sizes of the logs in a parameter, each at most that in a newer checkpoint.
func readSizes(c *call, name, text string, newer *verify.Checkpoint) ([]int64, error) {
	sizes, err := parseSizes(text, newer.Logs)
	if err != nil {
		c.faults.Add(request.InQuery, name, request.CodeFormat, fmt.Sprintf("%v: give %d sizes separated by commas, "+
			"the first number after each \"log NUMBER\" in your checkpoint", err, len(newer.Logs)))
	}
	return sizes, c.faults.Err()
}

// parseSizes reads the sizes of logs, each at most that of the newer logs.
func parseSizes(text string, newer []tlog.Tree) ([]int64, error) {
	if text == "" {
		return nil, errors.New("is missing")
	}
	words := strings.Split(text, ",")
	if len(words) != len(newer) {
		return nil, fmt.Errorf("has %d sizes", len(words))
	}
	sizes := make([]int64, len(words))
	for i, word := range words {
		n, err := strconv.ParseUint(word, 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%q is not a size", word)
		}
		if n > uint64(newer[i].N) {
			return nil, fmt.Errorf("log %d has %d leaves in the newer checkpoint", i, newer[i].N)
		}
		sizes[i] = int64(n)
	}
	return sizes, nil
}

// tile answers GET /v1/log/tiles/{log}/{path}. The path is that of a tile of Go's checksum
// database without its first word, such as 8/0/x001/067.p/12.
func (h *RecordHandlers) tile(c *call) error {
	ctx, path := c.r.Context(), c.vars["path"]
	log, tile, err := readTile(c.vars["log"], path)
	if err != nil {
		return err
	}
	_, head, err := h.newest(ctx)
	if err != nil {
		return err
	}
	if log >= len(head.Logs) {
		return notFound("log", fmt.Sprintf("a checkpoint has logs 0 to %d", len(head.Logs)-1))
	}
	if n := head.Logs[log].N >> (tileHeight * tile.L); n>>tileHeight < tile.N || n < tile.N<<tileHeight+int64(tile.W) {
		return notFound("tile", fmt.Sprintf("level %d of log %d has %d hashes in the newest checkpoint; a tile with W of "+
			"256 hashes has the path 8/LEVEL/NUMBER.p/W", tile.L, log, n))
	}
	data, err := h.record.Tile(ctx, log, tile)
	if err != nil {
		return err
	}
	c.Header().Add("Vary", "Accept")
	if strings.Contains(c.r.Header.Get("Accept"), typeBytes) {
		return c.send(http.StatusOK, headerBytes, data)
	}
	answer := tileView{Log: log, Path: path}
	for h := range slices.Chunk(data, tlog.HashSize) {
		answer.Hashes = append(answer.Hashes, tlog.Hash(h))
	}
	return c.value(http.StatusOK, answer)
}

// readTile reads the variables of the path of a tile.
func readTile(log, path string) (int, tlog.Tile, error) {
	n, err := strconv.ParseUint(log, 10, 16)
	if err != nil {
		return 0, tlog.Tile{}, notFound("log", "its number is that of a line \"log NUMBER SIZE ROOT\" of a checkpoint")
	}
	var tile tlog.Tile
	if len(path) <= maxTilePath {
		tile, err = tlog.ParseTilePath("tile/" + path)
	}
	if err != nil || tile.H != tileHeight || tile.L < 0 || tile.L > 7 {
		return 0, tile, notFound("tile", "its path is 8/LEVEL/NUMBER, as in Go's checksum database: "+
			"8/0/x001/067 is tile 1067 of level 0, and 8/0/x001/067.p/12 its first 12 hashes")
	}
	return int(n), tile, nil
}
