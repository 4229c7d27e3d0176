package http

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

const (
	// exportChunk is the number of signals of an export that are in memory at once.
	exportChunk = 500
	// exportPiece is the number of bytes from which they are sent.
	exportPiece = 64 << 10
	// exportStall is the time within which a client must take a piece, so that one that does not
	// read holds its connection no longer.
	exportStall = 30 * time.Second
	// retryExports is when to ask again for an export while too many are under way.
	retryExports = 10 * time.Second
)

// Exports limits the exports under way in this process. Its methods are safe for concurrent use.
type Exports struct {
	all     chan struct{} // has an element for each
	callers *limits.Open  // accounts and readers
	readers *limits.Open  // all of an account together
	stall   time.Duration // for the sending of a piece
}

// NewExports returns limits of exports under way, of all accounts and of one, and of the sending of a piece of
// an export; default 16, 2 and 30 s. A reader may have as many as an account, and the readers of an account together half
// of all, so that they leave some to it and to others.
func NewExports(max, ofAccount int, stall time.Duration) *Exports {
	max = cmp.Or(max, 16)
	return &Exports{
		all:     make(chan struct{}, max),
		callers: limits.NewOpen(cmp.Or(ofAccount, 2)),
		readers: limits.NewOpen((max + 1) / 2),
		stall:   cmp.Or(stall, exportStall),
	}
}

// begin counts one more export of a principal until end is called.
func (e *Exports) begin(p *signal.Principal) (end func(), err error) {
	refuse := func(message string) error {
		return &signal.Error{Kind: signal.KindTooMany, Code: "too_many_exports", Message: message,
			RetryAfter: retryExports}
	}
	caller, who := "account", string(p.Account)
	others := func() {}
	if p.View != nil {
		var ok bool
		if others, ok = e.readers.Begin(who); !ok {
			return nil, refuse("the readers of the account have as many exports under way as they may have together")
		}
		caller, who = "reader", string(p.Key)
	}
	uncount, ok := e.callers.Begin(who)
	if !ok {
		others()
		return nil, refuse("the " + caller + " has as many exports under way as it may have")
	}
	select {
	case e.all <- struct{}{}:
		return func() {
			uncount()
			others()
			<-e.all
		}, nil
	default:
		uncount()
		others()
		return nil, refuse("the service has as many exports under way as it may have")
	}
}

// exportFormats are the values of the parameter format. The first is the default.
var exportFormats = []string{"csv", "jsonl"}

// exportTypes are the media types of the formats.
var exportTypes = map[string][]string{"csv": {"text/csv; charset=utf-8"}, "jsonl": {"application/x-ndjson"}}

// export answers GET /v1/signals/export. It reads a chunk only after the last one was
// sent, so a slow client slows the reading, and one that stalls ends it. A failure in the middle
// cuts the connection, so that no client takes a part for the whole.
func (h *SignalHandlers) export(c *call) error {
	wanted, err := readSignalQuery(c, h.catalogue, h.agents)
	if err != nil {
		return err
	}
	wanted.Limit = exportChunk
	format := request.Option(c.query, "format", exportFormats)
	if err := c.faults.Err(); err != nil {
		return err
	}
	format = cmp.Or(format, exportFormats[0])
	end, err := h.exports.begin(&c.principal)
	if err != nil {
		return err
	}
	defer end()
	var last signal.Location
	next := func() ([]*signal.Signal, bool, error) {
		at, _, err := h.catalogue.Locations(c.r.Context(), wanted, last)
		if err != nil || len(at) == 0 {
			return nil, false, err
		}
		last = at[len(at)-1]
		list, err := h.signals.SignalsAt(c.r.Context(), wanted.Account, at)
		if err == nil {
			err = c.confirm()
		}
		return list, len(at) == exportChunk, err
	}
	list, more, err := next()
	if err != nil {
		return err
	}
	c.Header()["Content-Type"] = exportTypes[format]
	c.Header().Set("Content-Disposition", `attachment; filename="signals.`+format+`"`)
	c.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	var b bytes.Buffer
	if format == "csv" {
		writeCSV(&b, exportColumns)
	}
	control := http.NewResponseController(c.ResponseWriter)
	// The server's limit is for a whole answer, this one for a piece. Its limit for reading ends with
	// the request. Without a connection, as in tests, there is nothing to set.
	send := func() error {
		_ = control.SetWriteDeadline(time.Now().Add(h.exports.stall))
		_, err := c.Write(b.Bytes())
		b.Reset()
		return err
	}
	for {
		for _, x := range list {
			if format == "csv" {
				writeCSV(&b, exportRow(x))
			} else {
				b.Write(append(appendSignalState(b.AvailableBuffer(), x), '\n'))
			}
			if b.Len() >= exportPiece {
				if err := send(); err != nil {
					return err
				}
			}
		}
		if err := send(); err != nil || !more {
			return err
		}
		if list, more, err = next(); err != nil {
			return err
		}
	}
}

// exportColumns is the header of an export as CSV, in the order of exportRow.
var exportColumns = []string{"signal_id", "agent_id", "asset", "strategy", "direction", "confidence", "entry_price",
	"stop_loss", "take_profit", "created_at", "status", "updated_at", "expires_at", "closed_at", "close_reason",
	"exit_price", "pnl_percent", "pnl_absolute", "duration_minutes", "initial_confidence", "final_confidence", "r",
	"mfe_r", "mae_r", "metadata"}

// exportRow returns the values of a signal as GET /v1/signals/{id} shows them; null is empty.
func exportRow(x *signal.Signal) []string {
	listed := x.Confidence
	if x.Closing != nil {
		listed = x.FirstConfidence
	}
	row := []string{string(x.ID), string(x.Agent), plainText(x.Asset), x.Strategy, string(x.Direction),
		confidenceText(listed)}
	if l := x.Levels; l != nil {
		row = append(row, priceText(&l.Entry), priceText(&l.Stop), priceText(&l.Target))
	} else {
		row = append(row, "", "", "")
	}
	row = append(row, timeText(x.CreatedAt), string(x.Status()), timeText(x.UpdatedAt), timeText(x.ExpiresAt))
	final := ""
	if c := x.Closing; c != nil {
		row = append(row, timeText(c.At), string(c.Reason), priceText(c.ExitPrice), priceText(c.PnLPercent),
			priceText(c.PnLAbsolute), strconv.FormatInt(c.DurationMinutes, 10))
		final = confidenceText(x.Confidence)
	} else {
		row = append(row, "", "", "", "", "", "")
	}
	row = append(row, confidenceText(x.FirstConfidence), final)
	if x.Closing == nil || x.Closing.ExitPrice == nil || x.Levels == nil {
		row = append(row, "", "", "")
	} else {
		r := x.Levels.R(x.Direction, *x.Closing.ExitPrice)
		row = append(row, priceText(&r), priceText(&x.MFE), priceText(&x.MAE))
	}
	return append(row, plainText(string(x.Metadata)))
}

func writeCSV(b *bytes.Buffer, row []string) {
	w := csv.NewWriter(b)
	_ = w.Write(row) // a buffer takes everything
	w.Flush()
}

// plainText returns a text that no spreadsheet takes for a formula: an apostrophe stands before
// the characters with which one begins (OWASP, CSV injection).
func plainText(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(s)[0]) {
		return "'" + s
	}
	return s
}

func priceText(v *float64) string {
	if v == nil {
		return ""
	}
	return string(signal.AppendPrice(nil, *v))
}

func confidenceText(v float64) string { return string(signal.AppendConfidence(nil, v)) }

func timeText(t time.Time) string { return t.UTC().Format(signal.TimeLayout) }
