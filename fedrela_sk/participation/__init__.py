"""Who takes part in a round, and in which order."""

from fedrela_sk.participation._base import Choice, Participation
from fedrela_sk.participation._clustered import ClusteredSampling
from fedrela_sk.participation._mediators import Mediators
from fedrela_sk.participation._optimal import OptimalSampling
from fedrela_sk.participation._uniform import UniformSampling

__all__ = ["Choice", "ClusteredSampling", "Mediators", "OptimalSampling", "Participation", "UniformSampling"]
