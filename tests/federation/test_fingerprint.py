"""Descriptions: the same in every process, another one wherever a result could differ."""

import enum
import functools
import importlib
import json
import logging
import math
import operator
import os
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping
from torch import nn

from fedrela_sk import FedReLaRelabeler, KFold
from fedrela_sk.federation import _code
from fedrela_sk.federation._code import NotKeyable, release
from fedrela_sk.federation._fingerprint import describe, fingerprint
