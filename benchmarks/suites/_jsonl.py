"""Results as lines of JSON: what was cut off is left out, so that its run is done again."""

import fcntl
import json
import sys


def read_lines(path):
    """The lines of a file, each parsed; none where there is no file.

    A run that is stopped while it writes leaves half a line. Such a line is left out and told on stderr.

    Parameters
    ----------
    path : Path

    Returns
    -------
    lines : list of dict
    """
    if not path.exists():
        return []
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        line = _parsed(text)
        if line is None:
            print(
                f"{path.name}: line {number} is not whole and is left out; its run counts as not done.",
                file=sys.stderr,
            )
        else:
            lines.append(line)
    return lines


def _parsed(text):
    try:
        line = json.loads(text)
    except json.JSONDecodeError:
        return None
    return line if isinstance(line, dict) else None


def append_line(path, line):
    """Add one line, on a line of its own even after one that was cut off; a lock keeps processes apart."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(_break(file) + json.dumps(line).encode() + b"\n")


def _break(file):
    """A line break if the file does not end with one."""
    if file.seek(0, 2) == 0:
        return b""
    file.seek(-1, 2)
    return b"" if file.read(1) == b"\n" else b"\n"


def write_lines(path, lines):
    """Write a file anew, whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    partial.replace(path)
