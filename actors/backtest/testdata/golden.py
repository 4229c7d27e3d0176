#!/usr/bin/env python3
"""Writes statistics.json: outcomes, and their statistics computed by the formulas as
textbooks have them, with the standard library alone. statistics_test.go compares.

    python3 golden.py > statistics.json
"""
import json
import random
from statistics import NormalDist, fmean, median

Z = NormalDist().inv_cdf(0.975)


def wilson(p, n):
    # The two shares q that lie z standard errors from p: (p-q)^2 = z^2 q(1-q)/n.
    a, b, c = 1 + Z * Z / n, -(2 * p + Z * Z / n), p * p
    root = (b * b - 4 * a * c) ** 0.5
    return [max(0.0, (-b - root) / (2 * a)), min(1.0, (-b + root) / (2 * a))]


def break_even(ordered, net):
    # The hit rate at which nothing is gained, by bisection. Without a profit it is that of the target, without a loss 1 R.
    won = [o["r"] for o in ordered if o["r"] > 0] or [fmean([o["target"] for o in ordered])]
    lost = [o["r"] for o in ordered if o["r"] <= 0] or [-1.0]
    cost = fmean([o["cost"] for o in ordered]) if net else 0
    low, high = 0.0, 1.0
    for _ in range(100):
        p = (low + high) / 2
        if p * fmean(won) + (1 - p) * fmean(lost) > cost:
            high = p
        else:
            low = p
    return high


def describe(outcomes):
    if not outcomes:
        return {"count": 0, "wins": 0}
    ordered = sorted(outcomes, key=lambda o: o["at"])
    won = [1.0 if o["r"] > 0 else 0.0 for o in ordered]
    net = [o["r"] - o["cost"] for o in ordered]
    forecast = [o["confidence"] for o in ordered]
    hit = fmean(won)
    brier = fmean([(f - w) ** 2 for f, w in zip(forecast, won)])
    constant = fmean([(hit - w) ** 2 for w in won])
    curve = [sum(net[: i + 1]) for i in range(len(net))]
    drawdown = max(max([0.0] + curve[: i + 1]) - curve[i] for i in range(len(curve)))
    gains, losses = sum(x for x in net if x > 0), -sum(x for x in net if x < 0)
    table = []
    for k in range(10):
        inside = [i for i, f in enumerate(forecast) if k <= f * 10 < k + 1 or k == 9 and f == 1]
        table.append({
            "count": len(inside),
            "mean_confidence": fmean([forecast[i] for i in inside]) if inside else None,
            "hit_rate": fmean([won[i] for i in inside]) if inside else None,
        })
    return {
        "count": len(ordered), "wins": int(sum(won)), "hit_rate": hit, "interval": wilson(hit, len(ordered)),
        "break_even": break_even(ordered, False), "break_even_net": break_even(ordered, True),
        "mean_r": fmean([o["r"] for o in ordered]), "median_r": median([o["r"] for o in ordered]),
        "expectancy_r": fmean(net), "total_r": sum(net),
        "profit_factor": gains / losses if losses else None, "max_drawdown_r": drawdown,
        "mean_duration_minutes": fmean([o["minutes"] for o in ordered]),
        "mean_mfe_r": fmean([o["mfe"] for o in ordered]), "mean_mae_r": fmean([o["mae"] for o in ordered]),
        "mean_confidence": fmean(forecast),
        "reasons": {r: sum(o["reason"] == r for o in ordered) for r in ("take_profit", "stop_loss", "expired")},
        "brier_score": brier, "brier_skill": 1 - brier / constant if constant else None, "reliability": table,
    }


def sample(seed, n, share):
    rng = random.Random(seed)
    outcomes = []
    for i in range(n):
        reason = rng.choice(["take_profit", "stop_loss", "stop_loss", "expired"])
        r = {"take_profit": 1.5, "stop_loss": -1.0}.get(reason, round(rng.uniform(-0.9, 1.3), 4))
        if share is not None:
            r = abs(r) if share else -abs(r)
        outcomes.append({
            "at": 1700000000000 + rng.randrange(n * 3600000), "r": r, "cost": round(rng.uniform(0, 0.2), 4), "target": 1 + i % 5 / 4,
            "confidence": round(rng.betavariate(4, 5), 4), "minutes": rng.randrange(1500),
            "mfe": round(rng.uniform(0, 1.5), 4), "mae": -round(rng.uniform(0, 1.0), 4), "reason": reason,
        })
    return outcomes


cases = {"none": [], "one win": sample(1, 1, True), "one loss": sample(2, 1, False), "all win": sample(3, 12, True),
         "all lose": sample(4, 13, False), "few": sample(5, 8, None), "many": sample(6, 400, None)}
edge = sample(7, 6, None)
for o, c in zip(edge, [0.0, 0.1, 0.3, 0.6999, 0.7, 1.0]):
    o["confidence"] = c
cases["edges of buckets"] = edge
print(json.dumps([{"name": k, "outcomes": v, "want": describe(v)} for k, v in cases.items()], indent=1))
