"""Task families with an embedded model. Adding one: write one file, add one line here."""

from bench.pipeline.demonstrations import Family
from bench.pipeline.families.gsm8k import GSM8K

FAMILIES: dict[str, Family] = {family.name: family for family in (GSM8K,)}
