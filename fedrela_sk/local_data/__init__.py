"""What changes a client's own rows before it trains: any `fit_resample` tool, mixup, Remix."""

from fedrela_sk.local_data._mixup import Mix, Mixup
from fedrela_sk.local_data._remix import Remix
from fedrela_sk.local_data._resample import Resampled, resample

__all__ = ["Mix", "Mixup", "Remix", "Resampled", "resample"]
