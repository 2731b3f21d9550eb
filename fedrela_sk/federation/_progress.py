"""One line per round, for those who asked for it."""

import logging
from contextlib import contextmanager

logger = logging.getLogger("fedrela_sk")


def round_line(record, n_rounds):
    """What a `RoundRecord` says in one line."""
    parts = [f"round {record.round + 1}/{n_rounds}", f"{len(record.participants)} clients"]
    parts.append(f"loss {record.train_loss:.4f}")
    if record.valid_score == record.valid_score:
        parts.append(f"validation {record.valid_score:.4f}")
    if record.relabeled_clients:
        parts.append(f"{record.n_relabeled} rows relabeled at {len(record.relabeled_clients)} clients")
    parts.append(f"{record.seconds:.2f} s")
    return ", ".join(parts)


@contextmanager
def logging_to_stderr():
    """Show the package's log lines where logging is not set up."""
    if logger.hasHandlers():
        yield
        return
    handler, level = logging.StreamHandler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
