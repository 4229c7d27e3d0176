"""Computes golden.json: outlooks of made-up weather, by the definitions and not by the
code of this package. Run it in this directory; it needs nothing but Python 3."""

import datetime as dt
import json
import math
import struct

F32 = lambda v: struct.unpack("f", struct.pack("f", v))[0]
TENTH = lambda v: F32(math.floor(v * 10 + 0.5) / 10)
EPOCH = dt.date(1970, 1, 1)

US = ["Chicago", "New York", "Boston", "Minneapolis", "Atlanta", "Dallas"]
EU = ["London", "Berlin", "Paris", "Milan", "Amsterdam", "Warsaw"]
ASIA = ["Beijing", "Tokyo", "Seoul", "Shanghai", "Delhi"]
DEMAND = {
    "us": dict(zip(US, [0.28, 0.27, 0.12, 0.10, 0.11, 0.12])),
    "eu": dict(zip(EU, [0.22, 0.22, 0.18, 0.16, 0.12, 0.10])),
    "asia": dict(zip(ASIA, [0.30, 0.28, 0.18, 0.14, 0.10])),
}
CORN = {"us": ["Des Moines", "Champaign", "Lincoln"], "eu": ["Szeged", "Craiova", "Pau"], "asia": ["Harbin", "Changchun"]}
WHEAT = {"us": ["Wichita", "Oklahoma City", "Bismarck"], "eu": ["Chartres", "Magdeburg", "Poznan"], "asia": ["Zhengzhou", "Ludhiana"]}
GULF = ["Houston", "New Orleans"]
NUMBER = {}
for group in [US, EU, ASIA] + list(CORN.values()) + list(WHEAT.values()) + [GULF]:
    for name in group:
        NUMBER[name] = len(NUMBER)
REGION = {}
for r in ["us", "eu", "asia"]:
    for name in list(DEMAND[r]) + CORN[r] + WHEAT[r]:
        REGION[name] = r
for name in GULF:
    REGION[name] = "us"
LAMBDA = {"us": 0.5, "eu": 0.2, "asia": 0.4}
SHARE = {"us": 0.40, "eu": 0.35, "asia": 0.25}


def made_up(name, date, warmer=0.0, wetter=1.0, windier=0.0):
    """The weather of a day: waves without any randomness, with holes."""
    i, d = NUMBER[name], (date - EPOCH).days
    season = math.cos(2 * math.pi * (d - 20) / 365.25)
    mean = 13 + 4 * math.sin(i) - (12 + i % 5) * season + 4 * math.sin(0.37 * d + 1.3 * i) + 2 * math.sin(0.187 * d + i) + 5 * math.sin(0.0131 * d) + warmer
    rain = max(0.0, 8 * math.sin(0.53 * d + 0.7 * i) - 3) * wetter
    et0 = max(0.0, 2.5 - 2.2 * season + math.sin(0.8 * d + i))
    day = {
        "mean": TENTH(mean),
        "max": TENTH(mean + 6 + 2 * math.sin(0.9 * d + i)),
        "min": TENTH(mean - 6 - 2 * math.cos(0.7 * d + 2 * i)),
        "rain": TENTH(rain),
        "et0": TENTH(et0),
        "gust": TENTH(45 + 35 * abs(math.sin(0.21 * d + i)) + 10 * math.sin(0.05 * d) + windier),
    }
    if (d * 7 + i * 3) % 97 == 0:
        day["mean"] = None
    if (d * 5 + i) % 89 == 0:
        day["rain"] = None
    return day


# Daily values. None is a value that is missing; month and (month, day) are those by
# whose rules the day is judged.
def need(day, *names):
    return all(day[n] is not None for n in names)


def temperature(name, md, day):
    return day["mean"]


def heating(name, md, day):
    return max(0.0, 18 - day["mean"]) if need(day, "mean") else None


def cooling(name, md, day):
    return LAMBDA[REGION[name]] * max(0.0, day["mean"] - 18) if need(day, "mean") else None


def both(name, md, day):
    return heating(name, md, day) + cooling(name, md, day) if need(day, "mean") else None


def storm(name, md, day):
    return max(0.0, day["gust"] - 75) / 20 if 6 <= md[0] <= 11 else 0.0


def dry(name, md, day):
    return day["et0"] - day["rain"] if need(day, "et0", "rain") else None


def corn_frost(name, md, day):
    return 5 * max(0.0, -2 - day["min"]) if md[0] in (4, 5, 9) else 0.0


def corn(name, md, day):
    if not need(day, "rain"):
        return None
    v = max(0.0, day["max"] - 30) + 0.5 * max(0.0, day["et0"] - day["rain"]) + corn_frost(name, md, day)
    return v * 1.5 if (7, 1) <= md <= (8, 10) else v


def wheat_frost(name, md, day):
    return max(0.0, -18 - day["min"]) if md[0] in (12, 1, 2) else 0.0


def wheat(name, md, day):
    if md[0] in (12, 1, 2):
        return wheat_frost(name, md, day)
    if not need(day, "rain"):
        return None
    return max(0.0, day["max"] - 32) + 0.5 * max(0.0, day["et0"] - day["rain"])


ARCHIVE = {}


def archive(name, date):
    if not dt.date(1991, 1, 1) <= date <= dt.date(2020, 12, 31):
        return None
    key = (name, date)
    if key not in ARCHIVE:
        ARCHIVE[key] = made_up(name, date)
    return ARCHIVE[key]


NORMALS = {}


def normal_md(value, name, md):
    key = (value, name, md)
    if key in NORMALS:
        return NORMALS[key]
    total, n = 0.0, 0
    for year in range(1990, 2022):
        # 29 February is in no window: count the days of a common year.
        centre = dt.date(2001, md[0], md[1])
        for off in range(-7, 8):
            at = centre + dt.timedelta(days=off)
            day = archive(name, dt.date(year + at.year - 2001, at.month, at.day))
            if day is None:
                continue
            v = value(name, md, day)
            if v is not None:
                total, n = total + v, n + 1
    NORMALS[key] = total / n
    return NORMALS[key]


def normal(value, name, date):
    if (date.month, date.day) == (2, 29):
        return (normal_md(value, name, (2, 28)) + normal_md(value, name, (3, 1))) / 2
    return normal_md(value, name, (date.month, date.day))


def rules(date):
    return (2, 28) if (date.month, date.day) == (2, 29) else (date.month, date.day)


def skill(k):
    return 1.0 if k < 3 else 0.8 if k < 7 else 0.45


def weights(commodity, region, kind):
    if kind == "demand":
        if region != "global":
            return dict(DEMAND[region])
        return {n: SHARE[r] * w for r in DEMAND for n, w in DEMAND[r].items()}
    names = {"corn": CORN, "wheat": WHEAT, "storm": {"us": GULF, "eu": [], "asia": []}}[kind]
    names = [n for r in names for n in names[r] if region in ("global", r)]
    return {n: 1 / len(names) for n in names}


def anomaly_sum(value, at, start, days):
    total, shares, parts = 0.0, {n: 0.0 for n in at}, {}
    top = bottom = 0.0
    for n, w in at.items():
        for k in range(14):
            date = start + dt.timedelta(days=k)
            day = days(n, date)
            v = None if day is None else value(n, rules(date), day)
            if v is None:
                continue
            base = normal(value, n, date)
            a = skill(k) * w * (v - base)
            total += a
            shares[n] += a
            parts[n, k] = a
            top += skill(k) * w * v
            bottom += skill(k) * w * base
    return total, shares, parts, top, bottom


def z_of(value, at, start, forecast):
    total, shares, parts, top, bottom = anomaly_sum(value, at, start, forecast)
    past = []
    m, d = rules(start)
    for year in range(1991, 2021):
        for off in range(-15, 16):
            first = dt.date(year, m, d) + dt.timedelta(days=off)
            if first < dt.date(1991, 1, 1) or first + dt.timedelta(days=13) > dt.date(2020, 12, 31):
                continue
            past.append(anomaly_sum(value, at, first, archive)[0])
    mean = math.fsum(past) / len(past)
    sd = math.sqrt(math.fsum((p - mean) ** 2 for p in past) / (len(past) - 1))
    z = max(-10.0, min(10.0, total / sd)) if sd > 1e-9 else 0.0
    return z, total, shares, parts, top, bottom


def phi(x):
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def outlook(case):
    start = dt.date.fromisoformat(case["run"])
    change = [case["warmer"], case["wetter"], case["windier"]]
    forecast = lambda n, date: made_up(n, date, *change)
    commodity, region = case["commodity"], case["region"]
    if commodity in ("corn", "wheat"):
        value, at, driver = (corn if commodity == "corn" else wheat), weights(commodity, region, commodity), "crop_stress"
        found = z_of(value, at, start, forecast)
        season = range(4, 10) if commodity == "corn" else [3, 4, 5, 6, 7, 12, 1, 2]
        z = found[0] * (1 if start.month in season else 0.25)
    else:
        value, at, driver = (heating if commodity == "oil" else both), weights(commodity, region, "demand"), "degree_days"
        found = z_of(value, at, start, forecast)
        z = found[0]
        gulf = weights(commodity, region, "storm") if region in ("us", "global") else {}
        if case["strategy"] == "commodity_impact" and gulf:
            other = z_of(storm, gulf, start, forecast)
            if abs(other[0]) > abs(z):
                z, found, at, driver = other[0], other, gulf, "storm_gust"
    _, total, shares, parts, top, bottom = found
    sign = 1 if total >= 0 else -1
    location = max(shares, key=lambda n: sign * shares[n])
    peak = max(range(14), key=lambda k: sign * parts.get((location, k), 0.0))
    # The mean of the days that are known, the others being as normal.
    warm = 0.0
    for k in range(7):
        date = start + dt.timedelta(days=k)
        t = forecast(location, date)["mean"]
        if t is not None:
            warm += (t - normal(temperature, location, date)) / 7
    tz = z_of(temperature, at, start, forecast)[0]
    if driver == "storm_gust":
        event = "storm" if z >= 1 else "seasonal"
    elif driver == "degree_days":
        event = "mild_spell" if z <= -1 else "heat_wave" if tz >= 1 else "cold_snap" if tz <= -1 else "seasonal"
    else:
        fz = z_of(corn_frost if commodity == "corn" else wheat_frost, at, start, forecast)[0]
        dz = z_of(dry, at, start, forecast)[0]
        named = [(fz, "frost"), (dz, "drought"), (-dz, "excess_rain"), (tz, "heat_wave"), (-tz, "cold_snap")]
        far = max(named)
        event = far[1] if far[0] >= 1 else "seasonal"
    a = abs(z)
    tau = 0.02
    p = phi(a / 1.2 * 0.80 / math.sqrt(1 - 0.80**2))
    return {
        **case,
        "driver": driver, "z": z, "direction": "long" if z >= 0 else "short", "event": event,
        "severity": "low" if a < 1 else "medium" if a < 1.5 else "high" if a < 2.25 else "extreme",
        "location": location, "peak": str(start + dt.timedelta(days=peak)), "deviation": round(warm, 6),
        "p": p, "confidence": 0.41 + tau * (p - 0.5), "ratio": top / bottom if bottom else None,
    }


def case(strategy, commodity, region, run, warmer=0.0, wetter=1.0, windier=0.0):
    return dict(strategy=strategy, commodity=commodity, region=region, run=run, warmer=warmer, wetter=wetter, windier=windier)


CASES = [
    case("energy_demand", "natural_gas", "us", "2026-01-15", warmer=-5),
    case("energy_demand", "natural_gas", "global", "2026-07-20", warmer=2),
    case("energy_demand", "oil", "eu", "2028-02-29", warmer=3),
    case("energy_demand", "oil", "asia", "2026-12-27", warmer=-2),
    case("agriculture", "corn", "us", "2026-06-25", warmer=4, wetter=0.2),
    case("agriculture", "corn", "global", "2026-05-12", warmer=-6),
    case("agriculture", "wheat", "eu", "2026-05-10", wetter=4),
    case("agriculture", "wheat", "us", "2026-01-05", warmer=-12),
    case("agriculture", "wheat", "asia", "2026-10-01", warmer=5, wetter=0),
    case("commodity_impact", "oil", "us", "2026-09-01", windier=25),
    case("commodity_impact", "natural_gas", "global", "2026-11-20", warmer=-6),
    case("commodity_impact", "natural_gas", "eu", "2026-03-10", warmer=4),
    case("commodity_impact", "corn", "asia", "2026-08-05", warmer=-3, wetter=3),
]

if __name__ == "__main__":
    with open("golden.json", "w") as f:
        json.dump([outlook(c) for c in CASES], f, indent=1)
        f.write("\n")
