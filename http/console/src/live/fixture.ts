import type { SignalState } from "../api/types";

/** Returns a signal for tests. */
export function make(id: string, more: Partial<SignalState> = {}): SignalState {
  return {
    signal_id: id,
    agent_id: "trading",
    asset: "BTC",
    strategy: "momentum",
    direction: "long",
    confidence: 0.42,
    initial_confidence: 0.42,
    final_confidence: null,
    entry_price: 100,
    stop_loss: 90,
    take_profit: 120,
    metadata: { indicators: [], reasoning: "", expected_r: 0.1, expected_r_net: 0.05 },
    created_at: "2026-11-21T09:30:00.000Z",
    status: "open",
    updated_at: "2026-11-21T09:30:00.000Z",
    expires_at: "2026-11-22T09:30:00.000Z",
    closed_at: null,
    close_reason: null,
    exit_price: null,
    pnl_percent: null,
    pnl_absolute: null,
    duration_minutes: null,
    r: null,
    mfe_r: null,
    mae_r: null,
    ...more,
  };
}
