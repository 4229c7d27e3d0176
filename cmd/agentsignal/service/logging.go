package service

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/agentsignal/agentsignal/configs"
)

// newLogger returns a logger that writes to w: JSON, or text on a terminal. It logs a
// repeated fault once a minute, see repeats.
func newLogger(w io.Writer, c configs.Log, level *slog.LevelVar) *slog.Logger {
	setLevel(level, c.Level)
	terminal := false
	if f, ok := w.(*os.File); ok {
		terminal = term.IsTerminal(int(f.Fd()))
	}
	if c.Format == "text" || c.Format == "auto" && terminal {
		return slog.New(newRepeats(tint.NewTextHandler(w,
			&tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !terminal})))
	}
	return slog.New(newRepeats(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})))
}

// setLevel sets level, if it is not nil, to the configured name.
func setLevel(level *slog.LevelVar, name string) {
	var l slog.Level
	if level != nil && l.UnmarshalText([]byte(name)) == nil {
		level.Set(l)
	}
}
