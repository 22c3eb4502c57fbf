"""Task families with an embedded model. Adding one: write one file, add one line here."""

from bench.pipeline.demonstrations import Family
from bench.pipeline.families.base import BASE
from bench.pipeline.families.chain import CHAIN
from bench.pipeline.families.competition_math import MATH
from bench.pipeline.families.countdown import COUNTDOWN
from bench.pipeline.families.gsm8k import GSM8K
from bench.pipeline.families.logic import LOGIC
from bench.pipeline.families.programming import CODE

FAMILIES: dict[str, Family] = {family.name: family for family in (GSM8K, COUNTDOWN, MATH, LOGIC, CODE, BASE, CHAIN)}
