"""Worker processes take turns on one accelerator; no accelerator is needed to see it."""

import logging
import multiprocessing
import tempfile
import threading
import time

import pytest
import torch
from filelock import FileLock

from fedrela_sk.training.runtime import _device as room
from fedrela_sk.training.runtime._device import device_turn

DEVICE = "cuda:7"


def _hold(device, results):
    logging.getLogger("fedrela_sk").addHandler(_Collect(results))
    with device_turn(device):
        start = time.monotonic()
        time.sleep(0.3)
        results.put(("held", start, time.monotonic()))


class _Collect(logging.Handler):
    def __init__(self, results):
        super().__init__()
        self.results = results

    def emit(self, record):
        self.results.put(("message", record.getMessage()))


def _run_two(device):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_hold, args=(device, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = [results.get(timeout=5)]
    while not results.empty() or sum(kind == "held" for kind, *_ in found) < 2:
        found.append(results.get(timeout=5))
    spans = sorted(span for kind, *span in found if kind == "held")
    return spans, [text for kind, text in (f[:2] for f in found) if kind == "message"]


def test_workers_take_turns_and_say_so_once():
    (first, second), messages = _run_two(DEVICE)
    assert first[1] <= second[0]
    assert messages == [
        f"Several worker processes share device {DEVICE}: their fits run one after the other."
    ]


def test_the_cpu_is_shared():
    (first, second), messages = _run_two("cpu")
    assert second[0] < first[1]
    assert messages == []


def test_the_main_process_holds_nothing():
    with device_turn(DEVICE), device_turn(DEVICE):
        spans, _ = _run_two(DEVICE)
    assert len(spans) == 2


def _hold_for_a_moment(path, held):
    with FileLock(path):
        held.set()
        time.sleep(0.1)


@pytest.mark.parametrize("second", [DEVICE, torch.device(DEVICE), "cuda:6"])
def test_a_worker_says_once_a_device_that_it_has_to_wait(second, tmp_path, monkeypatch, caplog):
    """However many fits of it wait."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(multiprocessing.current_process(), "_name", "Worker-1")
    room._say_once.cache_clear()
    for device in (DEVICE, second, DEVICE):
        with device_turn(device):
            (path,) = tmp_path.glob(f"*_{str(device).replace(':', '_')}.lock")
        held = threading.Event()
        other = threading.Thread(target=_hold_for_a_moment, args=(path, held))
        other.start()
        assert held.wait(20)
        with device_turn(device):
            other.join()
    assert len(caplog.messages) == len({DEVICE, str(second)})
