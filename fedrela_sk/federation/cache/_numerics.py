"""Global settings of torch, scikit-learn and the machine that change the bits of a result."""

import os
import platform

import sklearn
import torch

# Read by the libraries under torch when they start.
_VARIABLES = (
    "ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "MKL_DYNAMIC", "ONEDNN_MAX_CPU_ISA",
    "ONEDNN_CPU_ISA_HINTS", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA", "DNNL_DEFAULT_FPMATH_MODE",
    "OPENBLAS_CORETYPE", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG",
)  # fmt: skip
_NOT_NUMERIC = {"display", "print_changed_only", "enable_metadata_routing", "skip_parameter_validation"}
# (where, setting): values or functions without arguments, what this torch does not have is left out
_SETTINGS = (
    ("", "get_default_dtype"), ("", "get_default_device"), ("", "get_float32_matmul_precision"),
    ("", "are_deterministic_algorithms_enabled"), ("", "is_deterministic_algorithms_warn_only_enabled"),
    ("", "is_inference_mode_enabled"), ("", "is_grad_enabled"), ("", "is_autocast_cache_enabled"),
    ("utils.deterministic", "fill_uninitialized_memory"), ("backends", "fp32_precision"),
    ("backends.cpu", "get_cpu_capability"),
    ("backends.mkldnn", "enabled"), ("backends.mkldnn", "deterministic"), ("backends.mkldnn", "allow_tf32"),
    ("backends.mkldnn", "fp32_precision"), ("backends.mkldnn.matmul", "fp32_precision"),
    ("backends.mkldnn.conv", "fp32_precision"), ("backends.mkldnn.rnn", "fp32_precision"),
    ("_C", "_get_nnpack_enabled"), ("backends.quantized", "engine"), ("backends.mha", "get_fastpath_enabled"),
    ("backends.opt_einsum", "enabled"), ("backends.opt_einsum", "strategy"),
    ("backends.cudnn", "enabled"), ("backends.cudnn", "benchmark"), ("backends.cudnn", "benchmark_limit"),
    ("backends.cudnn", "deterministic"), ("backends.cudnn", "allow_tf32"),
    ("backends.cudnn", "fp32_precision"), ("backends.cudnn.conv", "fp32_precision"),
    ("backends.cudnn.rnn", "fp32_precision"),
    ("backends.cuda.matmul", "allow_tf32"), ("backends.cuda.matmul", "fp32_precision"),
    ("backends.cuda.matmul", "allow_fp16_reduced_precision_reduction"),
    ("backends.cuda.matmul", "allow_bf16_reduced_precision_reduction"),
    ("backends.cuda.matmul", "allow_fp16_accumulation"),
    ("backends.cuda", "preferred_linalg_library"), ("backends.cuda", "preferred_blas_library"),
    ("backends.cuda", "flash_sdp_enabled"), ("backends.cuda", "mem_efficient_sdp_enabled"),
    ("backends.cuda", "math_sdp_enabled"), ("backends.cuda", "cudnn_sdp_enabled"),
    ("backends.cuda", "fp16_bf16_reduction_math_sdp_allowed"),
)  # fmt: skip


def torch_settings():
    """torch's global settings by name, as text.

    Returns
    -------
    settings : dict of str
        `torch.set_flush_denormal` has no question that goes with it: seen by a product that is denormal.
    """
    found = {f"{where}.{name}".strip("."): _setting(where, name) for where, name in _SETTINGS}
    for kind in ("cpu", "cuda"):
        found[f"autocast {kind}"] = f"{torch.is_autocast_enabled(kind)} {torch.get_autocast_dtype(kind)}"
    smallest = torch.tensor([torch.finfo(torch.float64).tiny], dtype=torch.float64, device="cpu")
    found["flush_denormal"] = str(not bool((smallest / 2).item()))
    return found


def _setting(where, name):
    """Value of one setting as text, "absent" where this torch has none."""
    place = torch
    try:
        for part in filter(None, [*where.split("."), name]):
            place = getattr(place, part)
        return str(place() if callable(place) else place)
    except (AttributeError, RuntimeError):  # the latter where two ways to set a precision were mixed
        return "absent"


def sklearn_settings():
    """scikit-learn's global settings that its numbers depend on."""
    config = sklearn.get_config()
    return {name: str(value) for name, value in config.items() if name not in _NOT_NUMERIC}


def machine(device):
    """What computes: processor, or graphics card and its libraries, and what their libraries read at their start.

    Parameters
    ----------
    device : torch.device
    """
    found = {"platform": f"{platform.system()} {platform.machine()}", "processor": _processor()}
    found["variables"] = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    if device.type == "cuda":
        found["card"] = f"{torch.cuda.get_device_name(device)} {torch.cuda.get_device_capability(device)}"
        found["cuda"] = f"{torch.version.cuda} {torch.backends.cudnn.version()}"
    return found


def _processor():
    """Model of the processor: libraries choose their code by it."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = [
                line for line in file if line.startswith(("model name", "flags", "Features", "CPU part"))
            ]
    except OSError:
        return platform.processor()
    return "".join(sorted(set(lines)))
