"""Names for the types in public signatures; of them, only NumPy's are loaded when the package runs."""

from collections.abc import Hashable
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
AnyPath: TypeAlias = str | PathLike[str]
RandomState: TypeAlias = int | np.random.RandomState | None
Label: TypeAlias = Hashable

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from torch import Tensor, nn

    from fedrela_sk.algorithms import Broadcast as Broadcast
    from fedrela_sk.algorithms import Job as Job
    from fedrela_sk.algorithms import Local as Local
    from fedrela_sk.algorithms import LocalRun as LocalRun
    from fedrela_sk.algorithms import Query as Query
    from fedrela_sk.algorithms import RoundFacts as RoundFacts
    from fedrela_sk.training import Batch as Batch
    from fedrela_sk.training import ClientData as ClientData
    from fedrela_sk.training import Model as Model

    DataFrame: TypeAlias = pd.DataFrame
    Dtype: TypeAlias = torch.dtype
    Module: TypeAlias = nn.Module
    Tensors: TypeAlias = dict[str, Tensor]
else:
    # a signature is read without loading torch or pandas
    DataFrame = Dtype = Module = Tensor = Tensors = Any
    Batch = Broadcast = ClientData = Job = Local = LocalRun = Model = Query = RoundFacts = Any
