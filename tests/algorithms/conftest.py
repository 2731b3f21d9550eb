"""What every test of this room starts from."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_draws():
    """Tests that draw from torch's generator draw the same in every run."""
    torch.manual_seed(0)
