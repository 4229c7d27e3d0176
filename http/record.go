package http

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

// Record proves what was recorded of signals. See leaves.Store of persistence.
type Record interface {
	// Partition returns the log of an account.
	Partition(account signal.AccountID) int
	// Checkpoint returns the newest checkpoint. KindNotFound before the first one.
	Checkpoint(ctx context.Context) (*record.Signed, error)
	// CheckpointAt returns the one with which the root log had so many entries. KindNotFound.
	CheckpointAt(ctx context.Context, size int64, newest *record.Signed) (*record.Signed, error)
	// OpenLeaf returns the leaf of an entry of the signal log. KindNotFound: the signal or its
	// salt was erased. KindConflict: the leaf is newer than the head.
	OpenLeaf(ctx context.Context, partition int, account signal.AccountID, at signal.Position,
		head tlog.Tree) (*verify.Leaf, error)
	// Growth returns the proof that a checkpoint begins with an older one.
	Growth(ctx context.Context, older, newer *verify.Checkpoint) (*verify.Growth, error)
	// Entries returns the texts of n entries of the root log from one on. newest has all of them.
	Entries(ctx context.Context, from int64, n int, newest *verify.Checkpoint) ([]string, error)
	// RootTile returns the hashes of a tile of the root log. KindNotFound.
	RootTile(ctx context.Context, tile tlog.Tile) ([]byte, error)
	// Tile returns the hashes of a tile. KindNotFound.
	Tile(ctx context.Context, partition int, tile tlog.Tile) ([]byte, error)
}

const (
	// maxTilePath is the greatest length of the path of a tile.
	maxTilePath = 64
	// retryNotSigned is when to ask again for a proof that no checkpoint supports yet. The next one
	// follows a leaf within record.every, 10 seconds unless set.
	retryNotSigned = 10 * time.Second
)

var (
	headerText  = []string{"text/plain; charset=utf-8"}
	headerBytes = []string{typeBytes}
	// headerTile is for what changes only with the record, headerBriefly for the newest checkpoint.
	headerTile    = []string{"public, max-age=300"}
	headerBriefly = []string{"public, max-age=5"}
)

// publicPath is how the path of a public tile is written.
const publicPath = "LEVEL/NUMBER (C2SP tlog-tiles): 0/x001/067 is tile 1067 of level 0, and 0/x001/067.p/12 its first " +
	"12 hashes"

// typeBytes is the media type of a tile as other verifiers read it.
const typeBytes = "application/octet-stream"

var errNotSigned = &signal.Error{Kind: signal.KindConflict, Code: "not_signed",
	Message:    "no checkpoint has it yet: one follows within seconds, ask again then",
	RetryAfter: retryNotSigned}

// signalProof is the answer to GET /v1/signals/{id}/proof. Closed is nil while the signal is
// open, and while its closing is newer than the checkpoint.
type signalProof struct {
	Checkpoint string       `json:"checkpoint,omitempty"` // none for a given size
	Heads      verify.Entry `json:"heads"`
	Created    *verify.Leaf `json:"created"`
	Closed     *verify.Leaf `json:"closed"`
}

// consistencyProof is the answer to GET /v1/log/consistency.
type consistencyProof struct {
	Checkpoint string    `json:"checkpoint,omitempty"` // none for a given size of the newer one
	From       sizedHead `json:"from"`
	To         sizedHead `json:"to"`
	*verify.Growth
}

// sizedHead is the last entry of a root log with so many entries.
type sizedHead struct {
	Size  int64        `json:"size"`
	Heads verify.Entry `json:"heads"`
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
	bundles   chan struct{} // has an element while a bundle of entries is computed
}

// NewRecordHandlers returns the handlers of a record with public keys.
func NewRecordHandlers(r Record, witnesses Witnesses, signals SignalFinder, keys []string) *RecordHandlers {
	return &RecordHandlers{r, witnesses, signals, keys, make(chan struct{}, 1)}
}

// Routes implements Resource. All that they show rests on a confirmed checkpoint.
func (h *RecordHandlers) Routes() []*Route {
	const scope = signal.SignalsRead
	return []*Route{
		route("/v1/signals/{id}/proof", methods{"GET": seen(immediate(get(scope, h.proveSignal, "log_size")))}),
		route("/v1/log/checkpoint", methods{"GET": seen(immediate(get(scope, h.checkpoint)))}),
		route("/v1/log/key", methods{"GET": seen(immediate(get(scope, h.publicKeys)))}),
		route("/v1/log/witness", methods{"GET": seen(immediate(get(scope, h.listWitnesses))),
			"POST": change(scope, h.countersign)}),
		route("/v1/log/consistency", methods{"GET": seen(immediate(get(scope, h.proveConsistency, "from", "to")))}),
		route("/v1/log/tiles/{log}/{path}", methods{"GET": seen(immediate(get(scope, h.tile)))}),
		anybody("/log/checkpoint", h.publicCheckpoint),
		anybody("/log/tile/{path}", h.publicTile),
		anybody("/log/{log}/tile/{path}", h.publicLeaves),
	}
}

// anybody returns the route of a path that needs no credential.
func anybody(path string, handle func(*call) error) *Route {
	r := route(path, methods{"GET": {class: limits.Reads, handle: checked(handle)}})
	r.cached = true
	return r
}

// stored returns the newest checkpoint.
func (h *RecordHandlers) stored(ctx context.Context) (*record.Signed, error) {
	newest, err := h.record.Checkpoint(ctx)
	if signal.KindOf(err) == signal.KindNotFound {
		return nil, errNotSigned
	}
	return newest, err
}

// newest returns the newest checkpoint, with the signatures of witnesses.
func (h *RecordHandlers) newest(ctx context.Context) (*record.Signed, error) {
	newest, err := h.stored(ctx)
	if err != nil {
		return nil, err
	}
	signed := *newest
	signed.Note, err = h.witnesses.Merge(ctx, newest.Note)
	return &signed, err
}

// checkpoint answers GET /v1/log/checkpoint.
func (h *RecordHandlers) checkpoint(c *call) error {
	newest, err := h.newest(c.r.Context())
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, headerText, newest.Note)
}

// publicCheckpoint answers GET /log/checkpoint.
func (h *RecordHandlers) publicCheckpoint(c *call) error {
	c.Header()["Cache-Control"] = headerBriefly
	return h.checkpoint(c)
}

// publicTile answers GET /log/tile/{path}: tiles and bundles of entries of the root log (C2SP
// tlog-tiles).
func (h *RecordHandlers) publicTile(c *call) error {
	ctx, path := c.r.Context(), c.vars["path"]
	bundle := strings.HasPrefix(path, "entries/")
	tile, err := parseTile("8/" + strings.Replace(path, "entries/", "data/", 1))
	if err != nil || bundle != (tile.L < 0) {
		return notFound("tile", "its path is entries/NUMBER or "+publicPath)
	}
	newest, err := h.stored(ctx)
	if err != nil {
		return err
	}
	if err := inTree(tile, newest.Root.N, "the root log"); err != nil {
		return err
	}
	var data []byte
	if bundle {
		data, err = h.bundle(ctx, tile, newest.Checkpoint)
	} else {
		data, err = h.record.RootTile(ctx, tile)
	}
	return publish(c, data, err)
}

// publicLeaves answers GET /log/{log}/tile/{path}: tiles of the log of a partition, which show how many leaves it has
// and nothing of them.
func (h *RecordHandlers) publicLeaves(c *call) error {
	log, tile, err := readTile(c.vars["log"], "8/"+c.vars["path"], publicPath)
	if err == nil {
		err = h.has(c.r.Context(), log, tile)
	}
	if err != nil {
		return err
	}
	data, err := h.record.Tile(c.r.Context(), log, tile)
	return publish(c, data, err)
}

// publish answers with a tile or entries, which caches may keep.
func publish(c *call, data []byte, err error) error {
	if err != nil {
		return err
	}
	c.Header()["Cache-Control"] = headerTile
	return c.send(http.StatusOK, headerBytes, data)
}

// publicKeys answers GET /v1/log/key.
func (h *RecordHandlers) publicKeys(c *call) error {
	return c.send(http.StatusOK, headerText, []byte(strings.Join(h.keys, "\n")+"\n"))
}

// bundle returns the entries of a tile. One is computed at a time: it hashes the leaves between its entries,
// which anybody may ask for.
func (h *RecordHandlers) bundle(ctx context.Context, tile tlog.Tile, newest *verify.Checkpoint) ([]byte, error) {
	select {
	case h.bundles <- struct{}{}:
		defer func() { <-h.bundles }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	texts, err := h.record.Entries(ctx, tile.N<<record.TileHeight, tile.W, newest)
	var data []byte
	for _, text := range texts {
		data = append(binary.BigEndian.AppendUint16(data, uint16(len(text))), text...)
	}
	return data, err
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
	created, closed, err := h.signals.Find(ctx, account, c.principal.View, id)
	if err != nil {
		return err
	}
	newest, err := h.newest(ctx)
	if err != nil {
		return err
	}
	at := newest
	if size != "" {
		if at, err = h.checkpointAt(c, "log_size", size, newest); err != nil {
			return err
		}
	}
	p := h.record.Partition(account)
	if p >= len(at.Logs) {
		return fmt.Errorf("checkpoint has %d logs, and not that of partition %d", len(at.Logs), p)
	}
	head, answer := at.Logs[p], signalProof{Heads: at.Entry}
	if size == "" {
		answer.Checkpoint = string(newest.Note)
	}
	open := func(at signal.Position) (*verify.Leaf, error) {
		return h.record.OpenLeaf(ctx, p, account, at, head)
	}
	if answer.Created, err = open(created); err != nil {
		return notInCheckpoint(err, size)
	}
	if !closed.IsZero() {
		answer.Closed, err = open(closed)
		if err != nil && signal.KindOf(err) != signal.KindConflict {
			return err
		}
	}
	return c.value(http.StatusOK, answer)
}

// checkpointAt reads the size of the root log in a parameter, and returns the checkpoint with it.
func (h *RecordHandlers) checkpointAt(c *call, name, size string, newest *record.Signed) (*record.Signed, error) {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 1 || n > newest.Root.N {
		c.faults.Add(request.InQuery, name, request.CodeOutOfRange, fmt.Sprintf("must be from 1 to %d: "+
			"the second line of your checkpoint", newest.Root.N))
		return nil, c.faults.Err()
	}
	return h.record.CheckpointAt(c.r.Context(), n, newest)
}

// notInCheckpoint returns the error for a leaf that is newer than a checkpoint.
func notInCheckpoint(err error, size string) error {
	if signal.KindOf(err) != signal.KindConflict {
		return err
	}
	if size == "" {
		return errNotSigned
	}
	return &signal.Error{Kind: signal.KindConflict, Code: errNotSigned.Code, Message: fmt.Sprintf(
		"the checkpoint with %s entries does not have the signal: take a newer one", size)}
}

// proveConsistency answers GET /v1/log/consistency.
func (h *RecordHandlers) proveConsistency(c *call) error {
	from, to := c.query.Get("from"), c.query.Get("to")
	if err := c.faults.Err(); err != nil {
		return err
	}
	newest, err := h.newest(c.r.Context())
	if err != nil {
		return err
	}
	newer, answer := newest, consistencyProof{Checkpoint: string(newest.Note)}
	if to != "" {
		if newer, err = h.checkpointAt(c, "to", to, newest); err != nil {
			return err
		}
		answer.Checkpoint = ""
	}
	older, err := h.checkpointAt(c, "from", from, newer)
	if err != nil {
		return err
	}
	answer.From, answer.To = sizedHead{older.Root.N, older.Entry}, sizedHead{newer.Root.N, newer.Entry}
	if answer.Growth, err = h.record.Growth(c.r.Context(), older.Checkpoint, newer.Checkpoint); err != nil {
		return err
	}
	return c.value(http.StatusOK, answer)
}

// tile answers GET /v1/log/tiles/{log}/{path}. The path is that of a tile of Go's checksum
// database without its first word, such as 8/0/x001/067.p/12.
func (h *RecordHandlers) tile(c *call) error {
	ctx, path := c.r.Context(), c.vars["path"]
	log, tile, err := readTile(c.vars["log"], path, "8/LEVEL/NUMBER, as in Go's checksum database: "+
		"8/0/x001/067 is tile 1067 of level 0, and 8/0/x001/067.p/12 its first 12 hashes")
	if err == nil {
		err = h.has(ctx, log, tile)
	}
	if err != nil {
		return err
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

// has returns why the newest checkpoint does not have a tile of a log.
func (h *RecordHandlers) has(ctx context.Context, log int, tile tlog.Tile) error {
	head, err := h.stored(ctx)
	if err != nil {
		return err
	}
	if log >= len(head.Logs) {
		return notFound("log", fmt.Sprintf("a checkpoint has logs 0 to %d", len(head.Logs)-1))
	}
	return inTree(tile, head.Logs[log].N, fmt.Sprintf("log %d", log))
}

// inTree returns why a log with so many leaves does not have a tile.
func inTree(tile tlog.Tile, size int64, log string) error {
	level := max(tile.L, 0) // bundles of entries have the level -1
	n := size >> (record.TileHeight * level)
	if n>>record.TileHeight >= tile.N && n >= tile.N<<record.TileHeight+int64(tile.W) {
		return nil
	}
	return notFound("tile", fmt.Sprintf("level %d of %s has %d hashes in the newest checkpoint; a tile with W of "+
		"256 hashes has a path that ends with .p/W", level, log, n))
}

// readTile reads the variables of the path of a tile. form is how it is written.
func readTile(log, path, form string) (int, tlog.Tile, error) {
	n, err := strconv.ParseUint(log, 10, 16)
	if err != nil {
		return 0, tlog.Tile{}, notFound("log", "its number is that of its line in the heads of a checkpoint, from 0")
	}
	tile, err := parseTile(path)
	if err != nil || tile.L < 0 {
		return 0, tile, notFound("tile", "its path is "+form)
	}
	return int(n), tile, nil
}

// parseTile reads the path of a tile in Go's checksum database without its first word.
func parseTile(path string) (tlog.Tile, error) {
	if len(path) > maxTilePath {
		return tlog.Tile{}, errors.New("the path is too long")
	}
	tile, err := tlog.ParseTilePath("tile/" + path)
	if err == nil && (tile.H != record.TileHeight || tile.L > 7) {
		err = errors.New("no log has such tiles")
	}
	return tile, err
}
