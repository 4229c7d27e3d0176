package dashboard

import (
	"bytes"
	"encoding/binary"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Opcodes and bits of a WebSocket frame (RFC 6455, section 5.2).
const (
	finalBit = 0x80
	maskBit  = 0x80

	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA

	maxControlBytes = 125
)

// frame is one event as sent to clients. It is immutable: the ring and all flushers share
// it.
type frame struct {
	text    []byte // the message, one line of JSON; nil for an internal event
	at      signal.Position
	account signal.AccountID
	asset   asset         // of signal.*, agent.status and market.price
	traits  signal.Traits // of signal.*, at the creation; agent and strategy of agent.status
	channel channel
	revoked *revocation // of an internal event; else nil
}

// revocation is an internal event that ends the validity of credentials.
type revocation struct {
	kind    signal.EventType
	subject string
}

// newFrame encodes e, or returns nil if e does not concern the dashboard. name is
// Options.Name: filters use the catalogue name, but the signal may have been stored under
// another spelling. Subjects of content, whose signals have no entry price, stay unchanged.
func newFrame(e *signal.Event, name func(asset string) string) *frame {
	if e.Type.Internal() {
		return &frame{at: e.Position, account: e.Account, revoked: &revocation{e.Type, e.Subject}}
	}
	c, ok := channelOf(e.Type)
	if !ok {
		return nil
	}
	f := &frame{at: e.Position, account: e.Account, channel: c}
	switch {
	case c == agentStatus:
		f.asset, f.traits = assetOf(e.Asset), signal.Traits{Agent: e.Agent, Strategy: e.Strategy}
	case c.hasAsset():
		called := e.Asset
		if name != nil && e.Listing != nil && e.Listing.Entry != nil {
			called = name(e.Asset)
		}
		f.asset, f.traits = assetOf(called), e.Traits()
	}
	const envelope = 160 // upper bound of the bytes added to the data
	b := make([]byte, 0, envelope+len(e.Data)+len(e.Agent))
	b = append(b, `{"type":"`...)
	b = append(b, c.String()...)
	b = append(b, `","id":"`...)
	b = e.Position.Append(b)
	b = append(b, `","data":`...)
	b = appendData(b, e)
	b = append(b, `,"timestamp":`...)
	b = append(signal.AppendTime(b, e.Time()), '}')
	f.text = oneLine(b)
	return f
}

// oneLine replaces line breaks in JSON, where they stand between tokens only: Server-Sent Events would divide it.
func oneLine(text []byte) []byte {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
	return text
}

// id returns the position from which a client that has f resumes, or zero for a price.
func (f *frame) id() signal.Position {
	if f.channel == marketPrice {
		return signal.Position{}
	}
	return f.at
}

// appendTo adds f to b as t sends it.
func (f *frame) appendTo(b []byte, t transport) []byte { return t.append(b, f.text, f.id()) }

// size returns the number of bytes that appendTo adds.
func (f *frame) size(t transport) int { return t.size(f.text, f.id()) }

// appendData adds the data member of e's message.
func appendData(b []byte, e *signal.Event) []byte {
	switch e.Type {
	case signal.SignalCreated:
		data := bytes.TrimRight(e.Data, " \t\r\n")
		if len(data) < 2 || data[len(data)-1] != '}' {
			return append(b, "null"...) // not an object; the log never holds this
		}
		body := data[:len(data)-1]
		b = append(b, body...)
		if body[len(body)-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, `"created_at":`...)
		return append(signal.AppendTime(b, e.Time()), '}')
	case signal.AgentStarted, signal.AgentCompleted, signal.AgentFailed:
		b = append(b, `{"agent_id":`...)
		b = signal.AppendText(b, string(e.Agent))
		b = append(b, `,"status":"`...)
		b = append(b, runStatus(e.Type)...)
		b = append(b, `","run_id":`...)
		b = signal.AppendText(b, string(e.Run))
		return append(b, '}')
	}
	if len(e.Data) == 0 {
		return append(b, "null"...)
	}
	return append(b, e.Data...)
}

// runStatus returns the status of a run after an event of type t.
func runStatus(t signal.EventType) string {
	switch t {
	case signal.AgentStarted:
		return "running"
	case signal.AgentCompleted:
		return "completed"
	}
	return "error"
}

// appendControl adds a control frame, whose payload is truncated to 125 bytes.
func appendControl(b []byte, opcode byte, payload []byte) []byte {
	payload = payload[:min(len(payload), maxControlBytes)]
	b = append(b, finalBit|opcode, byte(len(payload)))
	return append(b, payload...)
}

// appendClose adds a close frame.
func appendClose(b []byte, c closing) []byte {
	payload := make([]byte, 2, maxControlBytes)
	binary.BigEndian.PutUint16(payload, uint16(c.code))
	return appendControl(b, opClose, append(payload, c.reason...))
}
