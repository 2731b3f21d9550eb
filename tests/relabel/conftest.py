"""Fixtures that several files of this room use."""

import pytest

from tests.relabel.classifier_rows import Recorder


@pytest.fixture
def recorder():
    Recorder.calls = []
    return Recorder()
