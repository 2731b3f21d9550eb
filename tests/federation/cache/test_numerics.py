"""Global settings that change bits: each of them is seen, and a fit under another one shares nothing."""

from contextlib import contextmanager, nullcontext

import pytest
import sklearn
import torch

from fedrela_sk.federation.cache import _numerics as room
from fedrela_sk.federation.cache._numerics import machine, sklearn_settings, torch_settings
from tests.federation.cache.test_rounds import assert_same, entries, fit
from tests.federation.helpers import make_net


@contextmanager
def changed(get, set_, value):
    before = get()
    set_(value)
    try:
        yield
    finally:
        set_(before)


def flag(place, name, value):
    """A setting that is an attribute."""
    return lambda: changed(lambda: getattr(place, name), lambda new: setattr(place, name, new), value)


def function(get, set_, value):
    """A setting with a function to read and one to set it."""
    return lambda: changed(get, set_, value)


def flushing():
    return changed(lambda: False, torch.set_flush_denormal, True)


def deterministic(warn_only):
    return changed(
        lambda: False, lambda new: torch.use_deterministic_algorithms(new, warn_only=new and warn_only), True
    )


@contextmanager
def without_nnpack():
    with torch.backends.nnpack.flags(enabled=not torch._C._get_nnpack_enabled()):
        yield


def products(value):
    return lambda: changed(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, value)


@pytest.fixture(autouse=True)
def spelled_out():
    """Setting a precision back to what it was writes out what was left open before; it is left open again."""
    places = torch.backends.mkldnn.matmul, torch.backends.cuda.matmul
    before = [place.fp32_precision for place in places]
    torch.set_float32_matmul_precision(torch.get_float32_matmul_precision())
    yield
    for place, value in zip(places, before, strict=True):
        place.fp32_precision = value


cuda, backends = torch.backends.cuda, torch.backends
SETTINGS = {
    "float32 products": products("medium"),
    "float32 products, high": products("high"),
    "default dtype": function(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "default device": lambda: torch.device("meta"),
    "denormals": flushing,
    "deterministic": lambda: deterministic(False),
    "deterministic, warnings": lambda: deterministic(True),
    "filled memory": flag(torch.utils.deterministic, "fill_uninitialized_memory", False),
    "oneDNN": flag(torch.backends.mkldnn, "enabled", False),
    "oneDNN deterministic": flag(torch.backends.mkldnn, "deterministic", True),
    "NNPACK": without_nnpack,
    "quantized engine": flag(torch.backends.quantized, "engine", "onednn"),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast dtype": lambda: torch.autocast("cpu", dtype=torch.float16),
    "gradients off": torch.no_grad,
    "inference": torch.inference_mode,
    "fast attention": function(backends.mha.get_fastpath_enabled, backends.mha.set_fastpath_enabled, False),
    "cuDNN": flag(backends.cudnn, "enabled", False),
    "cuDNN benchmark": flag(backends.cudnn, "benchmark", True),
    "cuDNN deterministic": flag(backends.cudnn, "deterministic", True),
    "cuDNN TF32": flag(backends.cudnn, "allow_tf32", False),
    "CUDA TF32": flag(cuda.matmul, "allow_tf32", True),
    "CUDA half sums": flag(cuda.matmul, "allow_fp16_reduced_precision_reduction", False),
    "CUDA bfloat16 sums": flag(cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
    "flash attention": function(cuda.flash_sdp_enabled, cuda.enable_flash_sdp, False),
    "efficient attention": function(cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp, False),
    "plain attention": function(cuda.math_sdp_enabled, cuda.enable_math_sdp, False),
    "cuDNN attention": function(cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp, False),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_torch_is_seen_and_only_while_it_lasts(name):
    before = torch_settings()
    with SETTINGS[name]():
        assert torch_settings() != before
    assert torch_settings() == before


def test_all_settings_differ():
    seen = []
    for make in [nullcontext, *SETTINGS.values()]:
        with make():
            seen.append(str(torch_settings()))
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("name", ["float32 products", "denormals", "oneDNN", "autocast", "deterministic"])
def test_fits_under_another_setting_share_nothing(tmp_path, name):
    net = make_net(module__dtype=torch.float32, batch_size=10)
    fit(tmp_path, net=net)
    with SETTINGS[name]():
        plain, cold, warm = (fit(memory, net=net) for memory in (None, tmp_path, tmp_path))
    assert_same(plain, cold)
    assert_same(plain, warm)
    assert len(entries(tmp_path)) == 2


def test_settings_of_scikit_learn_that_numbers_depend_on():
    before = sklearn_settings()
    for name, value in {"working_memory": 1, "assume_finite": True, "transform_output": "pandas"}.items():
        with sklearn.config_context(**{name: value}):
            assert sklearn_settings() != before
    for name in ("enable_metadata_routing", "print_changed_only"):
        with sklearn.config_context(**{name: not sklearn.get_config()[name]}):
            assert sklearn_settings() == before


def test_the_machine(monkeypatch):
    cpu = torch.device("cpu")
    before = machine(cpu)
    assert machine(cpu) == before
    assert all(before[name] for name in ("platform", "processor"))
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert machine(cpu) != before


def test_a_machine_without_a_table_of_processors(monkeypatch):
    def missing(*args):
        raise FileNotFoundError("/proc/cpuinfo")

    monkeypatch.setattr(room, "open", missing, raising=False)
    monkeypatch.setattr(room.platform, "processor", lambda: "arm")
    assert machine(torch.device("cpu"))["processor"] == "arm"


def test_cards_differ(monkeypatch):
    found = []
    for name in ("one", "other"):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
        found.append(machine(torch.device("cuda", 0)))
    assert found[0] != found[1]


def test_what_this_torch_does_not_have_is_absent():
    assert room._setting("backends.never", "heard_of") == "absent"
