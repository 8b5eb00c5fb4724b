"""`ray.rllib.agent` as it was in 2018."""

from __future__ import annotations

from .legacy import Agent as Agent
from .legacy import get_agent_class as get_agent_class
