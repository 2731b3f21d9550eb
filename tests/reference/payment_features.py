"""Row-by-row twin of `fedrela_sk.datasets._payment_features.payment_features`: slow and plain."""

DAY = 86_400


def payment_features(time, customer, terminal, cents, fraud):
    """The 15 features of each row, as lists of Python floats."""
    rows = list(
        zip(time.tolist(), customer.tolist(), terminal.tolist(), cents.tolist(), fraud.tolist(), strict=True)
    )
    return [_features_of(rows, i) for i in range(len(rows))]


def _features_of(rows, i):
    now, who, where, cents, _ = rows[i]
    monday_is_zero = (now // DAY) % 7
    hour = (now % DAY) // 3600
    features = [cents / 100, float(monday_is_zero in (5, 6)), float(hour < 7)]
    for days in (1, 7, 30):
        amounts = [c for t, a, _, c, _ in rows[: i + 1] if a == who and t > now - days * DAY]
        features += [len(amounts), sum(amounts) / (100 * len(amounts))]
    for days in (1, 7, 30):
        known, oldest = now - 7 * DAY, now - (7 + days) * DAY
        frauds = [f for t, _, b, _, f in rows[: i + 1] if b == where and oldest < t <= known]
        features += [len(frauds), sum(frauds) / len(frauds) if frauds else 0.0]
    return features
